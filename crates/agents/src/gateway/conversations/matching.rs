//! Compares requests and answers: whether a request continues an answer, or is a retry.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::llm::wire::Format;
use crate::llm::{Message, Part, Request, Response, Role};

pub(super) fn same_session(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Whether the model may act. Tools the server runs itself change nothing here.
pub(super) fn brings_tools(request: &Request) -> bool {
    let served = |extra: &pleach_core::event::Extra| {
        let kind = extra.get("anthropic").and_then(|known| known.get("type")?.as_str());
        kind.is_some_and(|kind| kind != "custom")
    };
    request.tools.iter().any(|tool| !tool.parameters.is_null() || !served(&tool.extra))
}

/// Whether nothing is to be said: some clients ask only to see what they are answered.
pub(super) fn is_probe(request: &Request) -> bool {
    request.max_tokens.is_some_and(|most| most <= 1)
}

/// The answer a request continues, where it names its id and does not repeat it.
pub(in crate::gateway) fn named(request: &Request) -> Option<&str> {
    request.extra.get(Format::Responses.name())?.get("previous_response_id")?.as_str()
}

/// What clients may name an answer by.
pub(super) fn id_of(response: &Response) -> Option<String> {
    Some(response.extra.get(Format::Responses.name())?.get("id")?.as_str()?.to_owned())
}

/// What a request says, without what clients change from try to try.
pub(super) fn fingerprint(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.tools.len().hash(&mut hasher);
    named(request).hash(&mut hasher);
    for message in &request.messages {
        (message.role as u8).hash(&mut hasher);
        for part in &message.content {
            match part {
                Part::Text { text, .. } => (0, text).hash(&mut hasher),
                Part::ToolCall { id, name, .. } => (1, id, name).hash(&mut hasher),
                Part::ToolResult { id, content, .. } => (2, id, content).hash(&mut hasher),
                Part::Thinking { .. } => {}
                Part::Unknown(value) => (3, value.to_string()).hash(&mut hasher),
            }
        }
    }
    hasher.finish()
}

/// What a client says after the newest answer; everything when there is none.
pub(super) fn tail(request: &Request) -> Vec<Message> {
    let after = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    request.messages[after.map_or(0, |at| at + 1)..].to_vec()
}

/// Whether a client's message repeats an answer: it asks for the same tools, or without tools has the same words.
pub(super) fn repeats(said: &Message, answer: &Message) -> bool {
    let ids = |message: &Message| message.tool_calls().map(|(id, _, _)| id.to_owned()).collect::<Vec<_>>();
    let (said_ids, answer_ids) = (ids(said), ids(answer));
    if answer_ids.is_empty() && said_ids.is_empty() {
        return said.text().trim() == answer.text().trim();
    }
    let made_up = |message: &Message| {
        message.content.iter().any(|part| match part {
            Part::ToolCall { extra, .. } => extra.get("gemini").is_some_and(|known| known.get("no_id").is_some()),
            _ => false,
        })
    };
    if made_up(said) || made_up(answer) {
        return said
            .tool_calls()
            .map(|(_, name, arguments)| (name, arguments))
            .eq(answer.tool_calls().map(|(_, name, arguments)| (name, arguments)));
    }
    answer_ids.iter().any(|id| said_ids.contains(id))
}
