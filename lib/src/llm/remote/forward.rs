//! Calls of somebody else that are passed on to the server as they are, with the real key in place of theirs.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};

use super::{Remote, failed};
use crate::config::ProviderName;
use crate::llm::LlmError;
use crate::llm::http::{HttpAnswer, HttpError};
use crate::llm::wire::Format;
use crate::process::Cancel;

/// A call to be passed on.
#[derive(Debug, Clone)]
pub(crate) struct ForwardedCall {
    /// Its method.
    pub method: Method,
    /// Its path below the version, with its query.
    pub path: String,
    /// Its headers; those about the connection and the caller's key are left out on the way.
    pub headers: HeaderMap,
    /// Its body, as it came.
    pub body: Bytes,
    /// The language it is in.
    pub format: Format,
}

/// Why a call was not passed on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    /// There is no key to pass it on with.
    #[error("{0}")]
    Key(LlmError),
    /// The server does not answer.
    #[error("{0}")]
    Http(HttpError),
}

/// Headers that speak of one connection only.
const OF_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of a caller that are the gateway's business: where it goes, how it is packed, with which key.
const OF_CALLER: [&str; 11] = [
    "expect",
    "host",
    "content-length",
    "accept-encoding",
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
    "forwarded",
    "x-forwarded-for",
];

impl Remote {
    /// Whether calls of this language can be passed on to it.
    pub(crate) fn speaks(&self, format: Format) -> bool {
        use Format::{Anthropic, Chat, Responses};
        match (self.0.format, format) {
            (Responses | Chat, Responses | Chat) => true,
            // Such servers often speak several languages; those that do not will say so.
            (Chat, Anthropic) => self.0.name == ProviderName::COMPATIBLE,
            (own, format) => own == format,
        }
    }

    /// Passes a call on and waits for the answer to begin. A key that is refused is asked for once more where it comes
    /// from a command.
    pub(crate) async fn pass(&self, call: &ForwardedCall, cancel: &Cancel) -> Result<HttpAnswer, ForwardError> {
        let inner = &self.0;
        let (key, known) = inner.key.get(cancel).await.map_err(ForwardError::Key)?;
        let mut answer = self.pass_with(call, key.as_deref()).await?;
        if answer.status == 401 && known && inner.key.forget() {
            let (key, _) = inner.key.get(cancel).await.map_err(ForwardError::Key)?;
            answer = self.pass_with(call, key.as_deref()).await?;
        }
        Ok(answer)
    }

    async fn pass_with(&self, call: &ForwardedCall, key: Option<&str>) -> Result<HttpAnswer, ForwardError> {
        let inner = &self.0;
        let mut headers = end_to_end_headers(&call.headers);
        let is_ours = |name: &HeaderName| inner.headers.given.iter().any(|(given, _)| given == name);
        headers.retain(|(name, _)| !OF_CALLER.contains(&name.as_str()) && !is_ours(name));
        // What comes back is looked at on its way.
        headers.push((ACCEPT_ENCODING, HeaderValue::from_static("identity")));
        headers.extend(inner.headers.given.iter().cloned());
        headers.extend(inner.headers.usual.iter().filter(|(name, _)| !call.headers.contains_key(name)).cloned());
        if let Some(key) = key {
            let (name, value) = inner.key_header(call.format, key).map_err(ForwardError::Key)?;
            if !is_ours(&name) {
                headers.push((name, value));
            }
        }
        let sent = inner.client.call(call.method.clone(), &call.path, &headers, call.body.clone()).await;
        sent.map_err(ForwardError::Http)
    }

    /// What it means that the server says no to a call of a model, in words without the key.
    pub(crate) fn refusal(&self, model: &str, status: u16, message: &str) -> LlmError {
        let error = self.0.refused(model).by_words(status, message);
        LlmError { message: self.without_key(error.message), ..error }
    }

    /// What it means that a call was not passed on, in words without the key.
    pub(crate) fn not_passed(&self, error: &ForwardError) -> LlmError {
        let error = match error {
            ForwardError::Key(error) => error.clone(),
            ForwardError::Http(error) => failed(error),
        };
        LlmError { message: self.without_key(error.message), ..error }
    }

    /// What went wrong, in words without the key.
    pub(crate) fn told(&self, error: &dyn std::error::Error) -> String {
        self.without_key(error.to_string())
    }
}

/// The headers of a message that its next reader is to see.
pub(crate) fn end_to_end_headers(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let named: Vec<String> = headers
        .get_all("connection")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    headers
        .iter()
        .filter(|(name, _)| !OF_CONNECTION.contains(&name.as_str()) && !named.iter().any(|left| left == name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
