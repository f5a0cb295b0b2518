//! Error bodies in the format of the client.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::llm::wire::Format;

/// The body of a refusal.
pub(super) fn body(format: Option<Format>, status: StatusCode, message: &str) -> Value {
    match format {
        Some(Format::Anthropic) => {
            let kind = match status.as_u16() {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                400..=499 => "invalid_request_error",
                _ => "api_error",
            };
            json!({"type": "error", "error": {"type": kind, "message": message}})
        }
        Some(Format::Gemini) => {
            let word = match status.as_u16() {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                400..=499 => "INVALID_ARGUMENT",
                503 | 529 => "UNAVAILABLE",
                504 => "DEADLINE_EXCEEDED",
                _ => "INTERNAL",
            };
            json!({"error": {"code": status.as_u16(), "message": message, "status": word}})
        }
        Some(Format::Responses | Format::Chat) | None => {
            let kind = match status.as_u16() {
                429 => "rate_limit_exceeded",
                400..=499 => "invalid_request_error",
                _ => "server_error",
            };
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_reads_its_own_refusal() {
        for format in [Format::Anthropic, Format::Responses, Format::Chat, Format::Gemini] {
            for status in [400, 401, 404, 413, 429, 502, 504, 529] {
                let body = body(Some(format), StatusCode::from_u16(status).unwrap(), "no more");
                let (_, message) = format.reported_error(&body).unwrap();
                assert_eq!(message, "no more", "{format:?}");
            }
        }
    }
}
