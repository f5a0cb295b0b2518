//! What a client asks for, read from the path of its request: model calls in four formats and the little things around
//! them. Everything else is nothing an agent needs, and a real key goes nowhere it was not meant to go.

use hyper::Method;

use crate::llm::wire::Format;

/// What a path below the secret stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A call of a model.
    Call(ModelCall),
    /// Something around model calls, which takes part in no conversation.
    Aside(SideRequest),
    /// Is anybody there?
    Ping,
    /// Nothing that is passed on.
    Unknown,
}

/// A call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelCall {
    /// Its format.
    pub format: Format,
    /// Where it goes, below the version, with its query.
    pub path: String,
    /// The model, where the path names it.
    pub model: Option<String>,
    /// How the answer is to come, where the path says it and not the body.
    pub shape: Option<AnswerShape>,
}

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerShape {
    /// In one piece.
    Whole,
    /// As a stream of events.
    Events,
    /// As a growing list, as Google does without `alt=sse`.
    List,
}

/// A request around model calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SideRequest {
    /// Its format.
    pub format: Format,
    /// Where it goes, below the version, with its query.
    pub path: String,
    /// What it wants.
    pub kind: SideRequestKind,
}

/// What a request around model calls wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideRequestKind {
    /// To know how many tokens something is.
    Count,
    /// To know which models there are.
    Models,
    /// Something else the provider answers.
    Other,
}

/// Reads a path below the secret, `/v1/messages?beta=true`.
pub(super) fn target(method: &Method, path_and_query: &str) -> Target {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let path = path.trim_matches('/');
    let (version, rest) = versioned(path);
    if rest.is_empty() {
        return Target::Ping;
    }
    let query = without_key(query);
    let with_query = |path: &str| if query.is_empty() { format!("/{path}") } else { format!("/{path}?{query}") };
    let call = |format| Target::Call(ModelCall { format, path: with_query(rest), model: None, shape: None });
    let aside = |format, kind| Target::Aside(SideRequest { format, path: with_query(rest), kind });
    let parts: Vec<&str> = rest.split('/').collect();
    let google = version.is_some_and(|version| version.contains("beta") || version.contains("alpha"));
    match (method.as_str(), &parts[..]) {
        ("POST", ["messages"]) => call(Format::Anthropic),
        ("POST", ["messages", "count_tokens"]) => aside(Format::Anthropic, SideRequestKind::Count),
        ("POST", ["responses"]) => call(Format::Responses),
        ("POST", ["responses", "input_tokens"]) => aside(Format::Responses, SideRequestKind::Count),
        ("POST", ["responses", "compact"]) => aside(Format::Responses, SideRequestKind::Other),
        ("POST", ["chat", "completions"]) => call(Format::Chat),
        ("POST", ["embeddings"]) => aside(Format::Chat, SideRequestKind::Other),
        ("POST", ["models", model]) => match model.rsplit_once(':') {
            Some((model, method)) => of_model(model, method, &query, with_query(rest)),
            None => Target::Unknown,
        },
        ("GET" | "HEAD", ["models"] | ["models", _]) if google => aside(Format::Gemini, SideRequestKind::Models),
        // Both others use the same path; the provider decides the format.
        ("GET" | "HEAD", ["models"] | ["models", _]) => aside(Format::Chat, SideRequestKind::Models),
        _ => Target::Unknown,
    }
}

/// The version a path begins with, and what comes after it.
fn versioned(path: &str) -> (Option<&str>, &str) {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let version = first.strip_prefix('v').is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    if version { (Some(first), rest) } else { (None, path) }
}

fn of_model(model: &str, method: &str, query: &str, path: String) -> Target {
    let format = Format::Gemini;
    let shape = match method {
        "generateContent" => AnswerShape::Whole,
        "streamGenerateContent" if query.split('&').any(|pair| pair == "alt=sse") => AnswerShape::Events,
        "streamGenerateContent" => AnswerShape::List,
        "countTokens" => return Target::Aside(SideRequest { format, path, kind: SideRequestKind::Count }),
        "embedContent" | "batchEmbedContents" => {
            return Target::Aside(SideRequest { format, path, kind: SideRequestKind::Other });
        }
        _ => return Target::Unknown,
    };
    Target::Call(ModelCall { format, path, model: Some(model.to_owned()), shape: Some(shape) })
}

/// The query without the key some clients put there.
fn without_key(query: &str) -> String {
    let key = |pair: &&str| !matches!(pair.split('=').next(), Some("key" | "api_key" | "access_token"));
    query.split('&').filter(|pair| !pair.is_empty()).filter(key).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(path: &str) -> Target {
        target(&Method::POST, path)
    }

    #[test]
    fn model_calls_are_recognized_by_path() {
        for (path, format, onward) in [
            ("/v1/messages", Format::Anthropic, "/messages"),
            ("/v1/messages?beta=true", Format::Anthropic, "/messages?beta=true"),
            ("/messages", Format::Anthropic, "/messages"),
            ("/v1/responses", Format::Responses, "/responses"),
            ("/responses", Format::Responses, "/responses"),
            ("/v1/chat/completions", Format::Chat, "/chat/completions"),
            ("/chat/completions/", Format::Chat, "/chat/completions"),
        ] {
            let call = ModelCall { format, path: onward.into(), model: None, shape: None };
            assert_eq!(post(path), Target::Call(call), "{path}");
        }
        for (path, shape, onward) in [
            ("/v1beta/models/m-1:generateContent", AnswerShape::Whole, "/models/m-1:generateContent"),
            ("/v1beta/models/m-1:streamGenerateContent", AnswerShape::List, "/models/m-1:streamGenerateContent"),
            (
                "/v1beta/models/m-1:streamGenerateContent?key=dummy&alt=sse",
                AnswerShape::Events,
                "/models/m-1:streamGenerateContent?alt=sse",
            ),
        ] {
            let model = Some("m-1".into());
            let call = ModelCall { format: Format::Gemini, path: onward.into(), model, shape: Some(shape) };
            assert_eq!(post(path), Target::Call(call), "{path}");
        }
    }

    #[test]
    fn side_requests_are_recognized_and_the_rest_refused() {
        let kind = |method: Method, path: &str| match target(&method, path) {
            Target::Aside(aside) => Some((aside.format, aside.kind)),
            _ => None,
        };
        assert_eq!(kind(Method::POST, "/v1/messages/count_tokens"), Some((Format::Anthropic, SideRequestKind::Count)));
        assert_eq!(kind(Method::POST, "/v1beta/models/m:countTokens"), Some((Format::Gemini, SideRequestKind::Count)));
        assert_eq!(kind(Method::POST, "/v1beta/models/m:embedContent"), Some((Format::Gemini, SideRequestKind::Other)));
        assert_eq!(kind(Method::POST, "/v1/embeddings"), Some((Format::Chat, SideRequestKind::Other)));
        assert_eq!(kind(Method::GET, "/v1/models"), Some((Format::Chat, SideRequestKind::Models)));
        assert_eq!(kind(Method::GET, "/v1/models/m-1"), Some((Format::Chat, SideRequestKind::Models)));
        assert_eq!(kind(Method::GET, "/v1beta/models"), Some((Format::Gemini, SideRequestKind::Models)));
        assert_eq!(target(&Method::HEAD, "/"), Target::Ping);
        assert_eq!(target(&Method::GET, "/v1"), Target::Ping);
        for path in ["/v1/messages/batches", "/v1/files", "/api/event_logging/batch", "/v1/models/m", "/v1/../v1/x"] {
            assert_eq!(post(path), Target::Unknown, "{path}");
        }
        assert_eq!(target(&Method::GET, "/v1/messages"), Target::Unknown);
        assert_eq!(target(&Method::DELETE, "/v1/models/m"), Target::Unknown);
    }
}
