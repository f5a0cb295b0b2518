//! Anthropic's Messages API.

mod stream;

use serde_json::{Value, json};

pub(super) use self::stream::{AnthropicStream, stream_reply};
use super::json::{
    JsonObject, WireError, count, keep, kept, native, native_of, need_text, object, say, shape, take_list, take_text,
    with_kept, words_of,
};
use crate::llm::{Message, Part, Request, Response, Role, Stop, ToolSpec};
use pleach_core::event::{Extra, Usage};

pub(super) const FORMAT: &str = "anthropic";

/// The token limit of an answer where none is given; the API requires one.
const MAX_TOKENS: u32 = 4096;

pub(super) fn encode_request(request: &Request, stream: bool) -> Value {
    let mut body = json!({"model": request.model, "max_tokens": request.max_tokens.unwrap_or(MAX_TOKENS)});
    let known = kept(&request.extra, FORMAT);
    if !request.system.is_empty() {
        let blocks = known.and_then(|known| known.get("system")).filter(|blocks| words_of(blocks) == request.system);
        body["system"] = blocks.cloned().unwrap_or_else(|| json!([{"type": "text", "text": request.system}]));
    }
    body["messages"] = messages_of(&request.messages).into();
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(encode_tool).collect();
    }
    if let Some(effort) = &request.effort {
        let mut config = known.and_then(|known| known.get("output_config")?.as_object()).cloned().unwrap_or_default();
        config.insert("effort".into(), effort.as_str().into());
        body["output_config"] = config.into();
    }
    if stream {
        body["stream"] = true.into();
    }
    let mut body = with_kept(body, &request.extra, FORMAT);
    if let (true, Some(body)) = (request.system.is_empty(), body.as_object_mut()) {
        body.shift_remove("system");
    }
    body
}

pub(super) fn decode_request(body: Value) -> Result<Request, WireError> {
    let mut body = object(body, "the request")?;
    let mut request = Request { model: take_text(&mut body, "model").unwrap_or_default(), ..Request::default() };
    request.max_tokens = match body.shift_remove("max_tokens") {
        Some(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        None => None,
    };
    body.shift_remove("stream");
    if let Some(system) = body.get("system") {
        request.system = words_of(system);
        let plain = json!([{"type": "text", "text": request.system}]);
        if system.is_string() || *system == plain {
            body.shift_remove("system");
        }
    }
    if let Some(Value::Object(config)) = body.get_mut("output_config") {
        request.effort = take_text(config, "effort");
        if config.is_empty() {
            body.shift_remove("output_config");
        }
    }
    for message in take_list(&mut body, "messages")? {
        decode_message(message, &mut request.messages)?;
    }
    for tool in take_list(&mut body, "tools")? {
        request.tools.push(decode_tool(tool)?);
    }
    keep(&mut request.extra, FORMAT, body);
    Ok(request)
}

fn encode_tool(tool: &ToolSpec) -> Value {
    let mut fields = json!({"name": tool.name});
    if !tool.description.is_empty() {
        fields["description"] = tool.description.as_str().into();
    }
    // Tools the server runs itself have no parameters of ours.
    if !tool.parameters.is_null() {
        fields["input_schema"] = tool.parameters.clone();
    }
    with_kept(fields, &tool.extra, FORMAT)
}

fn decode_tool(tool: Value) -> Result<ToolSpec, WireError> {
    let mut tool = object(tool, "a tool")?;
    let name = need_text(&mut tool, "name", "a tool")?;
    let description = take_text(&mut tool, "description").unwrap_or_default();
    let parameters = tool.shift_remove("input_schema").unwrap_or_default();
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, tool);
    Ok(ToolSpec { name, description, parameters, extra })
}

/// The conversation; what one side says in several messages becomes one, as the API wants it.
fn messages_of(messages: &[Message]) -> Vec<Value> {
    let mut all: Vec<JsonObject> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::User | Role::Tool => "user",
        };
        let blocks: Vec<Value> = message.content.iter().filter_map(encode_part).collect();
        say(&mut all, role, "content", blocks, kept(&message.extra, FORMAT));
    }
    all.into_iter().map(Value::Object).collect()
}

/// Adds the messages one of the API stands for: results of tools are messages of their own here.
fn decode_message(message: Value, messages: &mut Vec<Message>) -> Result<(), WireError> {
    let mut message = object(message, "a message")?;
    let role = match need_text(&mut message, "role", "a message")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => return Err(shape(format!("a message comes from `{other}`"))),
    };
    let content = match message.shift_remove("content") {
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks,
        _ => return Err(shape("a message has no `content`")),
    };
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, message);
    for block in content {
        let part = decode_part(block)?;
        let speaker = if matches!(part, Part::ToolResult { .. }) { Role::Tool } else { role };
        match messages.last_mut().filter(|last| last.role == speaker) {
            Some(last) => last.content.push(part),
            None => messages.push(Message::new(speaker, vec![part])),
        }
    }
    if let Some(last) = messages.last_mut() {
        last.extra.extend(extra);
    }
    Ok(())
}

fn encode_part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text, extra } => {
            // The API refuses empty blocks.
            if text.is_empty() && extra.is_empty() {
                return None;
            }
            with_kept(json!({"type": "text", "text": text}), extra, FORMAT)
        }
        Part::ToolCall { id, name, arguments, extra } => {
            let input = if arguments.is_object() { arguments.clone() } else { json!({"arguments": arguments}) };
            with_kept(json!({"type": "tool_use", "id": id, "name": name, "input": input}), extra, FORMAT)
        }
        Part::ToolResult { id, content, is_error, extra } => {
            let blocks = kept(extra, FORMAT).and_then(|known| known.get("content"));
            let blocks = blocks.filter(|blocks| words_of(blocks) == *content).cloned();
            let content = blocks.unwrap_or_else(|| content.as_str().into());
            let mut fields = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            if *is_error {
                fields["is_error"] = true.into();
            }
            with_kept(fields, extra, FORMAT)
        }
        Part::Thinking { text, signature, extra } => {
            kept(extra, FORMAT)?;
            let mut fields = json!({"type": "thinking", "thinking": text});
            if let Some(signature) = signature {
                fields["signature"] = signature.as_str().into();
            }
            let mut fields = with_kept(fields, extra, FORMAT);
            fields.as_object_mut()?.shift_remove(OWN);
            fields
        }
        Part::Unknown(value) => native_of(value, FORMAT)?.clone(),
    })
}

/// Marks thoughts that came in this format and have nothing else of their own.
const OWN: &str = "own";

fn decode_part(block: Value) -> Result<Part, WireError> {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !matches!(kind.as_str(), "text" | "tool_use" | "tool_result" | "thinking") {
        return Ok(native(FORMAT, block));
    }
    let mut block = object(block, "a block")?;
    block.shift_remove("type");
    let what = format!("a `{kind}` block");
    let mut extra = Extra::new();
    Ok(match kind.as_str() {
        "text" => {
            let text = need_text(&mut block, "text", &what)?;
            keep(&mut extra, FORMAT, block);
            Part::Text { text, extra }
        }
        "tool_use" => {
            let (id, name) = (need_text(&mut block, "id", &what)?, need_text(&mut block, "name", &what)?);
            let arguments = block.shift_remove("input").unwrap_or_else(|| json!({}));
            keep(&mut extra, FORMAT, block);
            Part::ToolCall { id, name, arguments, extra }
        }
        "tool_result" => {
            let id = need_text(&mut block, "tool_use_id", &what)?;
            let is_error = block.shift_remove("is_error").is_some_and(|value| value == true);
            let content = block.get("content").map(words_of).unwrap_or_default();
            if block.get("content").is_none_or(Value::is_string) {
                block.shift_remove("content");
            }
            keep(&mut extra, FORMAT, block);
            Part::ToolResult { id, content, is_error, extra }
        }
        _ => {
            let text = need_text(&mut block, "thinking", &what)?;
            let signature = take_text(&mut block, "signature");
            if block.is_empty() {
                block.insert(OWN.into(), true.into());
            }
            keep(&mut extra, FORMAT, block);
            Part::Thinking { text, signature, extra }
        }
    })
}

pub(super) fn encode_reply(response: &Response) -> Value {
    let content: Vec<Value> = response.message.content.iter().filter_map(encode_part).collect();
    let known = kept(&response.extra, FORMAT);
    let raw = |key: &str| known.and_then(|known| known.get(key)).cloned();
    let usage = raw("usage").filter(|raw| usage_of(raw) == response.usage);
    let stop = raw("stop_reason").filter(|raw| stop_of(raw) == response.stop);
    let body = json!({
        "type": "message", "role": "assistant", "model": response.model, "content": content,
        "stop_reason": stop.unwrap_or_else(|| stop_word(&response.stop).into()),
        "usage": usage.unwrap_or_else(|| encode_usage(response.usage)),
    });
    with_kept(body, &response.extra, FORMAT)
}

pub(super) fn decode_reply(body: Value) -> Result<Response, WireError> {
    let mut body = object(body, "the answer")?;
    for key in ["type", "role"] {
        body.shift_remove(key);
    }
    let model = take_text(&mut body, "model").unwrap_or_default();
    if !body.get("content").is_some_and(Value::is_array) {
        return Err(shape("the answer has no `content`"));
    }
    let content = take_list(&mut body, "content")?.into_iter().map(decode_part).collect::<Result<_, _>>()?;
    let usage = body.get("usage").map(usage_of).unwrap_or_default();
    let stop = body.get("stop_reason").map_or(Stop::End, stop_of);
    if body.get("stop_reason").is_some_and(|raw| *raw == stop_word(&stop)) {
        body.shift_remove("stop_reason");
    }
    if body.get("usage").is_some_and(|raw| *raw == encode_usage(usage)) {
        body.shift_remove("usage");
    }
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, body);
    Ok(Response { message: Message::new(Role::Assistant, content), usage, model, stop, extra })
}

/// What tokens were used; the input here leaves out what was read from or written to the cache.
fn usage_of(usage: &Value) -> Usage {
    Usage {
        input: count(usage, &["input_tokens"]),
        cache_read: count(usage, &["cache_read_input_tokens"]),
        cache_write: count(usage, &["cache_creation_input_tokens"]),
        output: count(usage, &["output_tokens"]),
        reasoning: count(usage, &["output_tokens_details", "thinking_tokens"]),
        cache_write_1h: count(usage, &["cache_creation", "ephemeral_1h_input_tokens"]),
        web_searches: count(usage, &["server_tool_use", "web_search_requests"]),
    }
}

fn encode_usage(usage: Usage) -> Value {
    let mut fields = json!({
        "input_tokens": usage.input, "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write, "output_tokens": usage.output,
    });
    if usage.reasoning > 0 {
        fields["output_tokens_details"] = json!({"thinking_tokens": usage.reasoning});
    }
    if usage.cache_write_1h > 0 {
        fields["cache_creation"] = json!({"ephemeral_1h_input_tokens": usage.cache_write_1h});
    }
    if usage.web_searches > 0 {
        fields["server_tool_use"] = json!({"web_search_requests": usage.web_searches});
    }
    fields
}

fn stop_of(reason: &Value) -> Stop {
    match reason.as_str() {
        None | Some("end_turn" | "stop_sequence") => Stop::End,
        Some("tool_use") => Stop::ToolCalls,
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("refusal") => Stop::ContentFilter,
        Some(other) => Stop::Other(other.to_owned()),
    }
}

fn stop_word(stop: &Stop) -> &str {
    match stop {
        Stop::End => "end_turn",
        Stop::ToolCalls => "tool_use",
        Stop::Length => "max_tokens",
        Stop::ContentFilter => "refusal",
        Stop::Other(word) => word,
    }
}
