//! OpenAI's Chat Completions, which many other servers support as well.

mod stream;

use serde_json::{Value, json};

pub(super) use self::stream::{ChatStream, stream_reply};
use super::json::{
    JsonObject, WireError, count, keep, kept, native, native_of, need_text, object, read_arguments, shape, take_list,
    take_text, with_kept, words_of, write_arguments,
};
use crate::llm::{Message, Part, Request, Response, Role, Stop, ToolSpec};
use pleach_core::event::{Extra, Usage};

pub(super) const FORMAT: &str = "chat";

/// Where servers put the model's thoughts; there is no standard.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

pub(super) fn encode_request(request: &Request, stream: bool) -> Value {
    let known = kept(&request.extra, FORMAT);
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        let raw = known.and_then(|known| known.get(SYSTEM)).filter(|raw| words_of(&raw["content"]) == request.system);
        messages.push(raw.cloned().unwrap_or_else(|| json!({"role": "system", "content": request.system})));
    }
    request.messages.iter().for_each(|message| encode_message(message, &mut messages));
    let mut body = json!({"model": request.model, "messages": messages});
    if let Some(most) = request.max_tokens {
        let key =
            if known.is_some_and(|known| known.contains_key(NEWER)) { "max_completion_tokens" } else { "max_tokens" };
        body[key] = most.into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(encode_tool).collect();
    }
    if let Some(effort) = &request.effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    if stream {
        body["stream"] = true.into();
    }
    let mut body = with_kept(body, &request.extra, FORMAT);
    if let Some(body) = body.as_object_mut() {
        body.retain(|key, _| key != SYSTEM && key != NEWER);
    }
    body
}

/// Where the system prompt is kept when it is more than words.
const SYSTEM: &str = "system_message";

/// Marks requests that use the newer name of the token limit.
const NEWER: &str = "newer_limit";

pub(super) fn decode_request(body: Value) -> Result<Request, WireError> {
    let mut body = object(body, "the request")?;
    let mut request = Request { model: take_text(&mut body, "model").unwrap_or_default(), ..Request::default() };
    body.shift_remove("stream");
    request.effort = take_text(&mut body, "reasoning_effort");
    let limit = |value: Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    if let Some(most) = body.shift_remove("max_completion_tokens") {
        request.max_tokens = limit(most);
        body.insert(NEWER.into(), true.into());
    } else if let Some(most) = body.shift_remove("max_tokens") {
        request.max_tokens = limit(most);
    }
    for (index, message) in take_list(&mut body, "messages")?.into_iter().enumerate() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if index == 0 && matches!(role, "system" | "developer") {
            request.system = words_of(&message["content"]);
            if message != json!({"role": "system", "content": request.system}) {
                body.insert(SYSTEM.into(), message);
            }
            continue;
        }
        let message = decode_message(message)?;
        match request.messages.last_mut().filter(|last| last.role == Role::Tool && message.role == Role::Tool) {
            Some(last) => last.content.extend(message.content),
            None => request.messages.push(message),
        }
    }
    for tool in take_list(&mut body, "tools")? {
        request.tools.push(decode_tool(tool)?);
    }
    keep(&mut request.extra, FORMAT, body);
    Ok(request)
}

fn encode_tool(tool: &ToolSpec) -> Value {
    let known = kept(&tool.extra, FORMAT);
    // A kind of tool pleach does not know is kept whole.
    if let Some(whole) = known.and_then(|known| known.get("whole")) {
        return whole.clone();
    }
    let mut function = json!({"name": tool.name});
    if !tool.description.is_empty() {
        function["description"] = tool.description.as_str().into();
    }
    if !tool.parameters.is_null() {
        function["parameters"] = tool.parameters.clone();
    }
    let inner = known.and_then(|known| known.get("function")?.as_object()).cloned().unwrap_or_default();
    if let Some(function) = function.as_object_mut() {
        function.extend(inner);
    }
    with_kept(json!({"type": "function", "function": function}), &tool.extra, FORMAT)
}

fn decode_tool(tool: Value) -> Result<ToolSpec, WireError> {
    let mut extra = Extra::new();
    if tool.get("type").is_some_and(|kind| kind != "function") {
        let name = tool.pointer("/custom/name").or(tool.get("name")).or(tool.get("type"));
        let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
        keep(&mut extra, FORMAT, JsonObject::from_iter([("whole".into(), tool)]));
        return Ok(ToolSpec { name, description: String::new(), parameters: Value::Null, extra });
    }
    let mut tool = object(tool, "a tool")?;
    tool.shift_remove("type");
    let mut function = object(tool.shift_remove("function").unwrap_or_default(), "a tool's `function`")?;
    let name = need_text(&mut function, "name", "a tool")?;
    let description = take_text(&mut function, "description").unwrap_or_default();
    let parameters = function.shift_remove("parameters").unwrap_or_default();
    if !function.is_empty() {
        tool.insert("function".into(), function.into());
    }
    keep(&mut extra, FORMAT, tool);
    Ok(ToolSpec { name, description, parameters, extra })
}

fn encode_message(message: &Message, messages: &mut Vec<Value>) {
    if message.role == Role::Tool {
        messages.extend(message.content.iter().filter_map(encode_result));
        return;
    }
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    let named = kept(&message.extra, FORMAT).and_then(|known| known.get("role")?.as_str());
    let role = named.unwrap_or(role);
    let mut fields = JsonObject::from_iter([("role".into(), role.into()), ("content".into(), content_of(message))]);
    let mut calls = Vec::new();
    for part in &message.content {
        match part {
            Part::Thinking { text, extra, .. } => {
                let field = kept(extra, FORMAT).and_then(|known| known.get("field")?.as_str());
                if let Some(field) = field {
                    fields.insert(field.to_owned(), text.as_str().into());
                }
            }
            Part::ToolCall { id, name, arguments, extra } => calls.push(encode_call(id, name, arguments, extra)),
            Part::Unknown(value) => {
                calls.extend(native_of(value, FORMAT).and_then(|value| value.get("tool_call")).cloned())
            }
            Part::Text { .. } | Part::ToolResult { .. } => {}
        }
    }
    if !calls.is_empty() {
        fields.insert("tool_calls".into(), calls.into());
    }
    if fields["content"].is_null() && !fields.contains_key("tool_calls") && message.role != Role::Assistant {
        return;
    }
    messages.push(with_kept(fields.into(), &message.extra, FORMAT));
}

/// The words of a message: text where that says everything, blocks where it does not.
fn content_of(message: &Message) -> Value {
    let mut blocks = Vec::new();
    for part in &message.content {
        match part {
            Part::Text { text, extra } => {
                blocks.push(with_kept(json!({"type": "text", "text": text}), extra, FORMAT));
            }
            Part::Unknown(value) => {
                blocks.extend(native_of(value, FORMAT).and_then(|value| value.get("content")).cloned());
            }
            _ => {}
        }
    }
    match blocks.as_slice() {
        [] => Value::Null,
        [block] if *block == json!({"type": "text", "text": block["text"]}) => block["text"].clone(),
        _ => blocks.into(),
    }
}

fn encode_call(id: &str, name: &str, arguments: &Value, extra: &Extra) -> Value {
    let known = kept(extra, FORMAT);
    let mut function = JsonObject::from_iter([
        ("name".into(), name.into()),
        ("arguments".into(), write_arguments(arguments, known).into()),
    ]);
    function.extend(known.and_then(|known| known.get("function")?.as_object()).cloned().unwrap_or_default());
    let mut call = with_kept(json!({"id": id, "type": "function", "function": function}), extra, FORMAT);
    if let Some(call) = call.as_object_mut() {
        call.shift_remove("arguments");
    }
    call
}

fn encode_result(part: &Part) -> Option<Value> {
    match part {
        Part::ToolResult { id, content, extra, .. } => {
            let raw = kept(extra, FORMAT).and_then(|known| known.get("content"));
            let raw = raw.filter(|raw| words_of(raw) == *content).cloned();
            let content = raw.unwrap_or_else(|| content.as_str().into());
            Some(with_kept(json!({"role": "tool", "tool_call_id": id, "content": content}), extra, FORMAT))
        }
        _ => None,
    }
}

fn decode_message(message: Value) -> Result<Message, WireError> {
    let mut message = object(message, "a message")?;
    let role = match need_text(&mut message, "role", "a message")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "developer" => {
            message.insert("role".into(), "developer".into());
            Role::System
        }
        "tool" => return decode_result(message),
        other => return Err(shape(format!("a message comes from `{other}`"))),
    };
    decode_said(role, message)
}

/// What is said in a message, without its role.
fn decode_said(role: Role, mut message: JsonObject) -> Result<Message, WireError> {
    let mut content = Vec::new();
    let field = THOUGHTS.into_iter().find(|field| message.get(*field).is_some_and(Value::is_string));
    if let Some((field, text)) = field.and_then(|field| Some((field, take_text(&mut message, field)?))) {
        let mut extra = Extra::new();
        keep(&mut extra, FORMAT, JsonObject::from_iter([("field".into(), field.into())]));
        content.push(Part::Thinking { text, signature: None, extra });
    }
    match message.shift_remove("content") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => content.push(Part::text(text)),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                content.push(decode_block(block)?);
            }
        }
        Some(other) => return Err(shape(format!("`content` is {}", super::json::kind_of(&other)))),
    }
    for call in take_list(&mut message, "tool_calls")? {
        content.push(decode_call(call)?);
    }
    let mut said = Message::new(role, content);
    keep(&mut said.extra, FORMAT, message);
    Ok(said)
}

fn decode_block(block: Value) -> Result<Part, WireError> {
    if block.get("type").is_none_or(|kind| kind != "text") {
        return Ok(native(FORMAT, json!({"content": block})));
    }
    let mut block = object(block, "a block")?;
    block.shift_remove("type");
    let text = need_text(&mut block, "text", "a `text` block")?;
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, block);
    Ok(Part::Text { text, extra })
}

fn decode_call(call: Value) -> Result<Part, WireError> {
    if call.get("type").is_some_and(|kind| kind != "function") {
        return Ok(native(FORMAT, json!({"tool_call": call})));
    }
    let mut call = object(call, "a tool call")?;
    call.shift_remove("type");
    let id = take_text(&mut call, "id").unwrap_or_default();
    let mut function = object(call.shift_remove("function").unwrap_or_default(), "a tool call's `function`")?;
    let name = need_text(&mut function, "name", "a tool call")?;
    let raw = match function.shift_remove("arguments") {
        // Some servers send the object itself.
        Some(Value::Object(fields)) => Value::Object(fields).to_string(),
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let arguments = read_arguments(&raw, &mut call);
    if !function.is_empty() {
        call.insert("function".into(), function.into());
    }
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, call);
    Ok(Part::ToolCall { id, name, arguments, extra })
}

fn decode_result(mut message: JsonObject) -> Result<Message, WireError> {
    let id = need_text(&mut message, "tool_call_id", "a tool's answer")?;
    let content = message.get("content").map(words_of).unwrap_or_default();
    if message.get("content").is_none_or(Value::is_string) {
        message.shift_remove("content");
    }
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, message);
    Ok(Message::new(Role::Tool, vec![Part::ToolResult { id, content, is_error: false, extra }]))
}

pub(super) fn encode_reply(response: &Response) -> Value {
    let mut known = kept(&response.extra, FORMAT).cloned().unwrap_or_default();
    let mut choice = match known.shift_remove("choice") {
        Some(Value::Object(choice)) => choice,
        _ => JsonObject::from_iter([("index".into(), 0.into())]),
    };
    let more = match known.shift_remove("choices") {
        Some(Value::Array(more)) => more,
        _ => Vec::new(),
    };
    let mut said = Vec::new();
    encode_message(&response.message, &mut said);
    choice.insert("message".into(), said.into_iter().next().unwrap_or_default());
    if choice.get("finish_reason").is_none_or(|raw| stop_of(raw) != response.stop) {
        choice.insert("finish_reason".into(), stop_word(&response.stop).into());
    }
    if known.get("usage").is_none_or(|raw| usage_of(raw) != response.usage) {
        known.insert("usage".into(), encode_usage(response.usage));
    }
    if known.get("usage").is_some_and(Value::is_null) {
        known.shift_remove("usage");
    }
    let choices: Vec<Value> = std::iter::once(choice.into()).chain(more).collect();
    let mut body = json!({"object": "chat.completion", "model": response.model, "choices": choices});
    if let Some(body) = body.as_object_mut() {
        body.extend(known);
    }
    body
}

pub(super) fn decode_reply(body: Value) -> Result<Response, WireError> {
    let mut body = object(body, "the answer")?;
    let model = take_text(&mut body, "model").unwrap_or_default();
    let mut choices = take_list(&mut body, "choices")?.into_iter();
    let choice = choices.next().ok_or_else(|| shape("the answer has no `choices`"))?;
    let mut choice = object(choice, "the answer's choice")?;
    let mut said = object(choice.shift_remove("message").unwrap_or_default(), "the answer's message")?;
    said.shift_remove("role");
    let message = decode_said(Role::Assistant, said)?;
    let stop = choice.get("finish_reason").map_or(Stop::End, stop_of);
    let usage = body.get("usage").map(usage_of).unwrap_or_default();
    body.entry("usage").or_insert(Value::Null);
    body.insert("choice".into(), choice.into());
    if choices.len() > 0 {
        body.insert("choices".into(), choices.collect());
    }
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, body);
    Ok(Response { message, usage, model, stop, extra })
}

/// What tokens were used; the input there counts what was read from and written to the cache as well.
fn usage_of(usage: &Value) -> Usage {
    let cache_read = count(usage, &["prompt_tokens_details", "cached_tokens"]);
    let cache_write = count(usage, &["prompt_tokens_details", "cache_write_tokens"]);
    Usage {
        input: count(usage, &["prompt_tokens"]).saturating_sub(cache_read).saturating_sub(cache_write),
        cache_read,
        cache_write,
        output: count(usage, &["completion_tokens"]),
        reasoning: count(usage, &["completion_tokens_details", "reasoning_tokens"]),
        ..Usage::default()
    }
}

fn encode_usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input + usage.cache_read + usage.cache_write, "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn stop_of(reason: &Value) -> Stop {
    match reason.as_str() {
        None | Some("stop") => Stop::End,
        Some("tool_calls" | "function_call") => Stop::ToolCalls,
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::ContentFilter,
        Some(other) => Stop::Other(other.to_owned()),
    }
}

fn stop_word(stop: &Stop) -> &str {
    match stop {
        Stop::End => "stop",
        Stop::ToolCalls => "tool_calls",
        Stop::Length => "length",
        Stop::ContentFilter => "content_filter",
        Stop::Other(word) => word,
    }
}
