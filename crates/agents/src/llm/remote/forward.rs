//! Calls of an agent that are forwarded to the server as they are, with the real key in place of the agent's.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};

use super::endpoint::Headers;
use crate::llm::LlmError;
use crate::llm::http::HttpError;
use crate::llm::wire::Format;

/// A call to be forwarded.
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
    /// The format it is in.
    pub format: Format,
}

/// Why a call was not forwarded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    /// There is no key to forward it with.
    #[error("{0}")]
    Key(LlmError),
    /// The server does not answer.
    #[error("{0}")]
    Http(HttpError),
}

/// Hop-by-hop headers.
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

/// Headers of a caller that the gateway sets itself: host, encoding, key.
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

/// The headers a call is forwarded with: the caller's own, but for those the gateway sets itself, then those of the
/// configuration, then what the server expects where the caller does not say it.
pub(super) fn headers_of(call: &ForwardedCall, of_provider: &Headers) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = end_to_end_headers(&call.headers);
    headers.retain(|(name, _)| !OF_CALLER.contains(&name.as_str()) && !of_provider.gives(name));
    // The answer is read while it is relayed.
    headers.push((ACCEPT_ENCODING, HeaderValue::from_static("identity")));
    headers.extend(of_provider.given.iter().cloned());
    headers.extend(of_provider.usual.iter().filter(|(name, _)| !call.headers.contains_key(name)).cloned());
    headers
}

/// The headers of a message without its hop-by-hop ones.
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
