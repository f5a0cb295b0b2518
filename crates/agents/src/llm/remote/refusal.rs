//! The error a refusal of a server stands for, and what to do about it.

use std::time::Duration;

use hyper::header::{HeaderMap, LOCATION, RETRY_AFTER};
use jiff::Timestamp;
use serde_json::Value;

use crate::llm::http::without_login;
use crate::llm::wire::Format;
use crate::llm::{ErrorClass, LlmError};
use pleach_core::text::shorten;

/// How much of a body that is no known error is shown.
const SHOWN: usize = 300;

/// Words by which servers say that the conversation is too long.
const TOO_LONG: [&str; 9] = [
    "context_length_exceeded",
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "context window",
    "context limit",
    "exceeds the maximum number of tokens",
    "too many tokens",
    "request_too_large",
];

/// Words by which servers say with status 400 that a key is none.
const BAD_KEY: [&str; 3] = ["api_key_invalid", "api key not valid", "api key expired"];

/// Words by which servers say that there is nothing left to pay with.
const NO_CREDIT: [&str; 2] = ["insufficient_quota", "credit balance"];

/// What is known about a call when its answer is no.
pub(super) struct RefusedCall<'a> {
    pub provider: &'a str,
    pub format: Format,
    pub model: &'a str,
    pub address: String,
    /// How the key is given, for the hint.
    pub key_hint: &'a str,
}

impl RefusedCall<'_> {
    /// The error an answer stands for.
    pub(super) fn by_status(&self, status: u16, headers: &HeaderMap, body: &[u8], now: Timestamp) -> LlmError {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        // Some servers put the error into a list.
        let json = json.get(0).cloned().unwrap_or(json);
        let (kind, message) = self.format.reported_error(&json).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(body);
            (String::new(), shorten(text.trim(), SHOWN))
        });
        let kind = format!("{kind} {}", reason(&json));
        let mut error = self.judge(status, &kind, &message, headers);
        if error.class == ErrorClass::Transient {
            error.retry_after = retry_after(headers, &json, now);
        }
        error
    }

    /// The error a stream reports in the middle, where there is no status any more.
    pub(super) fn by_kind(&self, kind: &str, message: &str) -> LlmError {
        let status = match kind {
            "invalid_request_error" | "INVALID_ARGUMENT" | "invalid_prompt" => 400,
            "authentication_error" | "UNAUTHENTICATED" | "invalid_api_key" => 401,
            "permission_error" | "PERMISSION_DENIED" => 403,
            "not_found_error" | "NOT_FOUND" | "model_not_found" => 404,
            "rate_limit_error" | "RESOURCE_EXHAUSTED" | "rate_limit_exceeded" => 429,
            "overloaded_error" | "UNAVAILABLE" => 529,
            _ => 500,
        };
        self.judge(status, kind, message, &HeaderMap::new())
    }

    /// The error a status stands for, where nothing but its words is known of it.
    pub(super) fn by_words(&self, status: u16, message: &str) -> LlmError {
        self.judge(status, "", message, &HeaderMap::new())
    }

    fn judge(&self, status: u16, kind: &str, message: &str, headers: &HeaderMap) -> LlmError {
        let Self { provider, model, address, key_hint, .. } = self;
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        let low = format!("{kind} {message}").to_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| low.contains(words));
        let too_long = matches!(status, 400 | 413 | 422) && says(&TOO_LONG);
        let (class, text) = match status {
            _ if too_long || status == 413 => (
                ErrorClass::ContextLength,
                format!(
                    "the conversation is too long for `{model}` ({status}){said}; give the node a smaller task or a model with a larger context"
                ),
            ),
            400 | 401 if status == 401 || says(&BAD_KEY) => {
                (ErrorClass::Auth, format!("{provider} does not accept the key ({status}){said}; check {key_hint}"))
            }
            403 => (
                ErrorClass::Auth,
                format!(
                    "{provider} does not let this key use `{model}` (403){said}; check {key_hint} and what it may use"
                ),
            ),
            404 => (
                ErrorClass::Unavailable,
                format!(
                    "{provider} knows no model `{model}` at {address} (404){said}; check the node's model, `providers.{provider}.models` and `base_url`"
                ),
            ),
            // Waiting does not fill an account.
            400 | 402 | 429 if status == 402 || says(&NO_CREDIT) => (
                ErrorClass::Unavailable,
                format!(
                    "the account at {provider} has no credit left ({status}){said}; add some there, or set another key in {key_hint}"
                ),
            ),
            429 => (ErrorClass::Transient, format!("{provider} is asked too often (429){said}")),
            300..=399 => {
                let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).map(without_login);
                let to = to.unwrap_or_else(|| "elsewhere".to_owned());
                (
                    ErrorClass::Unavailable,
                    format!(
                        "{address} sends callers to {to} ({status}), which is not followed; set `base_url` to the right address"
                    ),
                )
            }
            409 | 425 | 500..=599 => (ErrorClass::Transient, format!("{provider} failed ({status}){said}")),
            400..=499 => (ErrorClass::Terminal, format!("{provider} refuses the request ({status}){said}")),
            _ => (ErrorClass::Transient, format!("{provider} answered {status}{said}")),
        };
        LlmError::new(class, text)
    }
}

/// The reason of an error, where a server has a field for it beside its message.
fn reason(body: &Value) -> &str {
    let details = body.pointer("/error/details").and_then(Value::as_array).into_iter().flatten();
    details.filter_map(|detail| detail.get("reason")?.as_str()).next().unwrap_or_default()
}

/// How long the server asks to wait: in its own header, the standard one (seconds or a date), or the body.
fn retry_after(headers: &HeaderMap, body: &Value, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    if let Some(text) = text(RETRY_AFTER.as_str()) {
        if let Ok(seconds) = text.parse::<f64>() {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        return Some(Duration::try_from(at.duration_since(now)).unwrap_or_default());
    }
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn refused(format: Format) -> RefusedCall<'static> {
        RefusedCall {
            provider: "anthropic",
            format,
            model: "m-1",
            address: "http://h".into(),
            key_hint: "ANTHROPIC_API_KEY",
        }
    }

    fn error(status: u16, headers: &[(&str, &str)], body: &str) -> LlmError {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        });
        let now = "2026-11-15T10:00:00Z".parse().unwrap();
        refused(Format::Anthropic).by_status(status, &headers.collect(), body.as_bytes(), now)
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        let body =
            |kind: &str, text: &str| format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{text}"}}}}"#);
        let cases = [
            (401, body("authentication_error", "invalid x-api-key"), ErrorClass::Auth, "check ANTHROPIC_API_KEY"),
            (403, body("permission_error", "no"), ErrorClass::Auth, "use `m-1` (403): no"),
            (404, body("not_found_error", "model: m-1"), ErrorClass::Unavailable, "knows no model `m-1` at http://h"),
            (
                400,
                body("invalid_request_error", "prompt is too long: 9 > 5"),
                ErrorClass::ContextLength,
                "too long for `m-1`",
            ),
            (413, body("request_too_large", "big"), ErrorClass::ContextLength, "too long"),
            (
                400,
                body("invalid_request_error", "Your credit balance is too low"),
                ErrorClass::Unavailable,
                "no credit left",
            ),
            (
                400,
                body("invalid_request_error", "tools: bad"),
                ErrorClass::Terminal,
                "refuses the request (400): tools: bad",
            ),
            (408, body("timeout_error", "late"), ErrorClass::Terminal, "refuses the request (408): late"),
            (429, body("rate_limit_error", "slow"), ErrorClass::Transient, "too often (429): slow"),
            (
                429,
                r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#.into(),
                ErrorClass::Unavailable,
                "no credit left",
            ),
            (529, body("overloaded_error", "busy"), ErrorClass::Transient, "failed (529): busy"),
            (502, "<html>bad gateway</html>".into(), ErrorClass::Transient, "failed (502): <html>bad"),
            (307, String::new(), ErrorClass::Unavailable, "not followed"),
        ];
        for (status, body, class, text) in cases {
            let error = error(status, &[], &body);
            assert_eq!(error.class, class, "{error}");
            assert!(error.message.contains(text), "{error}");
        }
        let openai = RefusedCall { format: Format::Chat, ..refused(Format::Chat) };
        let body = br#"{"error":{"message":"This model's maximum context length is 8192 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
        let error = openai.by_status(400, &HeaderMap::new(), body, Timestamp::UNIX_EPOCH);
        assert_eq!(error.class, ErrorClass::ContextLength, "{error}");
        let gemini = RefusedCall { provider: "gemini", key_hint: "GEMINI_API_KEY", ..refused(Format::Gemini) };
        for body in [
            &br#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#[..],
            br#"[{"error":{"code":400,"message":"Renew it.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
        ] {
            let error = gemini.by_status(400, &HeaderMap::new(), body, Timestamp::UNIX_EPOCH);
            assert_eq!(error.class, ErrorClass::Auth, "{error}");
            assert!(error.message.starts_with("gemini does not accept the key (400): "), "{error}");
            assert!(error.message.ends_with("; check GEMINI_API_KEY"), "{error}");
        }
        assert_eq!(openai.by_words(402, "pay").class, ErrorClass::Unavailable);
        assert_eq!(openai.by_kind("overloaded_error", "x").class, ErrorClass::Transient);
        assert_eq!(openai.by_kind("authentication_error", "x").class, ErrorClass::Auth);
        assert_eq!(openai.by_kind("something new", "x").class, ErrorClass::Transient);
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        let wait = |headers: &[(&str, &str)], body: &str| error(429, headers, body).retry_after;
        assert_eq!(wait(&[("retry-after", "7")], "{}"), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "0.5")], "{}"), Some(Duration::from_millis(500)));
        assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "7")], "{}"), Some(Duration::from_millis(250)));
        let date = [("retry-after", "Sun, 15 Nov 2026 10:00:30 GMT")];
        assert_eq!(wait(&date, "{}"), Some(Duration::from_secs(30)));
        assert_eq!(wait(&[("retry-after", "Sun, 15 Nov 2026 09:00:00 GMT")], "{}"), Some(Duration::ZERO));
        assert_eq!(wait(&[("retry-after", "soon")], "{}"), None);
        let body = r#"{"error":{"message":"x","details":[{"retryDelay":"17s"}]}}"#;
        assert_eq!(wait(&[], body), Some(Duration::from_secs(17)));
        assert_eq!(error(401, &[("retry-after", "7")], "{}").retry_after, None);
    }
}
