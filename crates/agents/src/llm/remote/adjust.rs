//! What servers want beyond their format: paths with a version, marks for their cache, names they can read.

use serde_json::{Value, json};

use crate::llm::wire::Format;
use crate::llm::{Part, Request, Response, ToolSpec};
use pleach_core::ids::wire_name;

/// The path of an address with the version its calls need, when it has none.
pub(super) fn versioned(format: Format, path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let version = last.len() > 1 && last.starts_with('v') && last[1..].starts_with(|c: char| c.is_ascii_digit());
    match format {
        _ if version => path.to_owned(),
        Format::Anthropic => format!("{path}/v1"),
        Format::Gemini => format!("{path}/v1beta"),
        // Other servers have their calls below all kinds of paths; only a bare host says nothing.
        Format::Responses | Format::Chat if path.is_empty() => "/v1".to_owned(),
        Format::Responses | Format::Chat => path.to_owned(),
    }
}

/// Lets the server keep what does not change from turn to turn: rules and tools, of which the first `shared` bytes are
/// the same for every agent, and the conversation, both up to here and as the call before has it, which the server
/// knows.
pub(super) fn remember_prompt(body: &mut Value, shared: Option<usize>) {
    let mark = |block: Option<&mut Value>| {
        if let Some(Value::Object(block)) = block {
            block.entry("cache_control").or_insert_with(|| json!({"type": "ephemeral"}));
        }
    };
    if let Some(blocks) = body["system"].as_array_mut() {
        let whole = blocks.first().and_then(|block| block["text"].as_str()).filter(|_| blocks.len() == 1);
        if let Some((first, rest)) =
            whole.and_then(|text| text.split_at_checked(shared?)).filter(|(_, rest)| !rest.is_empty())
        {
            *blocks = vec![json!({"type": "text", "text": first}), json!({"type": "text", "text": rest})];
        }
        blocks.iter_mut().for_each(|block| mark(Some(block)));
    }
    if let Some(messages) = body["messages"].as_array_mut() {
        // The last message of the call before stands before the answer and what the tools said to it.
        let ends = [messages.len().checked_sub(1), messages.len().checked_sub(3)];
        for at in ends.into_iter().flatten() {
            mark(messages[at]["content"].as_array_mut().and_then(|blocks| blocks.last_mut()));
        }
    }
    if body["system"].is_null()
        && let Some(body) = body.as_object_mut()
    {
        body.shift_remove("system");
    }
}

/// Whether a model of OpenAI thinks before it answers; asking others for their thoughts is an error.
pub(super) fn thinks(model: &str) -> bool {
    let number = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().ok();
    let o_series = model.strip_prefix('o').and_then(number).is_some();
    o_series
        || model.strip_prefix("gpt-").and_then(number).is_some_and(|major| major >= 5)
        || model.starts_with("codex")
}

pub(super) fn rename_calls(request: &mut Request, rename: impl Fn(&str) -> String) {
    for part in request.messages.iter_mut().flat_map(|message| &mut message.content) {
        if let Part::ToolCall { name, .. } = part {
            *name = rename(name);
        }
    }
}

/// Gives tools their own names back, and ids to calls the server gave none, unique in the conversation.
pub(super) fn restore(response: &mut Response, request: &Request) {
    let place = request.messages.len();
    let own = |wired: &str| request.tools.iter().find(|tool: &&ToolSpec| wire_name(&tool.name) == wired);
    for (index, part) in response.message.content.iter_mut().enumerate() {
        let Part::ToolCall { id, name, extra, .. } = part else { continue };
        if let Some(tool) = own(name) {
            name.clone_from(&tool.name);
        }
        let made_up = extra.get(Format::Gemini.name()).is_some_and(|known| known.get("no_id").is_some());
        if made_up || id.is_empty() {
            *id = format!("call_{place}_{index}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_version_they_lack() {
        let cases = [
            (Format::Anthropic, "", "/v1"),
            (Format::Anthropic, "/proxy", "/proxy/v1"),
            (Format::Anthropic, "/proxy/v1", "/proxy/v1"),
            (Format::Gemini, "", "/v1beta"),
            (Format::Gemini, "/v1", "/v1"),
            (Format::Chat, "", "/v1"),
            (Format::Chat, "/api/paas/v4", "/api/paas/v4"),
            (Format::Chat, "/openai", "/openai"),
        ];
        for (format, path, expected) in cases {
            assert_eq!(versioned(format, path), expected, "{path}");
        }
    }

    #[test]
    fn reasoning_models_are_recognized() {
        for model in ["o3", "o4-mini", "gpt-5", "gpt-5.4-mini", "gpt-6", "codex-mini"] {
            assert!(thinks(model), "{model}");
        }
        for model in ["gpt-4.1", "gpt-4o", "omni", "llama"] {
            assert!(!thinks(model), "{model}");
        }
    }

    #[test]
    fn unchanged_prompt_parts_are_marked_for_caching() {
        let mut body = json!({"system": [{"type": "text", "text": "s"}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]});
        remember_prompt(&mut body, Some(1));
        let mark = json!({"type": "ephemeral"});
        assert_eq!(body["system"][0]["cache_control"], mark);
        assert_eq!(body["messages"][0]["content"][1]["cache_control"], mark);
        assert!(body["messages"][0]["content"][0].get("cache_control").is_none());
        let said = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
        let mut longer = json!({"system": [{"type": "text", "text": "shared and own"}],
            "messages": [said("a"), said("b"), said("c"), said("d"), said("e")]});
        remember_prompt(&mut longer, Some(6));
        assert_eq!(
            longer["system"],
            json!([{"type": "text", "text": "shared", "cache_control": mark},
            {"type": "text", "text": " and own", "cache_control": mark}])
        );
        let marked = longer["messages"].as_array().unwrap().iter();
        let marked: Vec<bool> = marked.map(|said| said["content"][0].get("cache_control").is_some()).collect();
        assert_eq!(marked, [false, false, true, false, true], "now, and the call before");
        let mut bare = json!({"messages": []});
        remember_prompt(&mut bare, None);
        assert_eq!(bare, json!({"messages": []}));
    }
}
