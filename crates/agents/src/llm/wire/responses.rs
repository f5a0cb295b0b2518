//! OpenAI's Responses API: a conversation is a list of items, not of messages.

mod stream;

use serde_json::{Value, json};

pub(super) use self::stream::{ResponsesStream, stream_reply};
use super::json::{
    JsonObject, WireError, count, keep, kept, native, native_of, need_text, object, read_arguments, shape, take_list,
    take_text, with_kept, words_of, write_arguments,
};
use crate::llm::{Message, Part, Request, Response, Role, Stop, ToolSpec};
use pleach_core::event::{Extra, Usage};

pub(super) const FORMAT: &str = "openai";

/// Where a part keeps the fields of the item it begins.
const ITEM: &str = "item";

pub(super) fn encode_request(request: &Request, stream: bool) -> Value {
    let known = kept(&request.extra, FORMAT);
    let mut body = json!({"model": request.model});
    if !request.system.is_empty() {
        body["instructions"] = request.system.as_str().into();
    }
    let mut items = Vec::new();
    request.messages.iter().for_each(|message| encode_message(message, &mut items));
    body["input"] = items.into();
    if let Some(most) = request.max_tokens {
        body["max_output_tokens"] = most.into();
    }
    // Those that an item introduced are still in it.
    let tools: Vec<Value> = request.tools.iter().filter(|tool| !is_introduced(tool)).map(encode_tool).collect();
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if let Some(effort) = &request.effort {
        let mut reasoning = known.and_then(|known| known.get("reasoning")?.as_object()).cloned().unwrap_or_default();
        reasoning.insert("effort".into(), effort.as_str().into());
        body["reasoning"] = reasoning.into();
    }
    if stream {
        body["stream"] = true.into();
    }
    with_kept(body, &request.extra, FORMAT)
}

pub(super) fn decode_request(body: Value) -> Result<Request, WireError> {
    let mut body = object(body, "the request")?;
    let mut request = Request { model: take_text(&mut body, "model").unwrap_or_default(), ..Request::default() };
    body.shift_remove("stream");
    request.system = take_text(&mut body, "instructions").unwrap_or_default();
    if let Some(most) = body.shift_remove("max_output_tokens") {
        request.max_tokens = most.as_u64().and_then(|number| u32::try_from(number).ok());
    }
    if let Some(Value::Object(reasoning)) = body.get_mut("reasoning") {
        request.effort = take_text(reasoning, "effort");
        if reasoning.is_empty() {
            body.shift_remove("reasoning");
        }
    }
    let mut brought = Vec::new();
    match body.shift_remove("input") {
        Some(Value::String(text)) => request.messages.push(Message::user(text)),
        Some(Value::Array(items)) => {
            brought = items.iter().flat_map(tools_brought).collect();
            request.messages = decode_items(items)?;
        }
        _ => return Err(shape("the request has no `input`")),
    }
    for tool in take_list(&mut body, "tools")? {
        request.tools.push(decode_tool(tool)?);
    }
    request.tools.extend(brought);
    keep(&mut request.extra, FORMAT, body);
    Ok(request)
}

/// The kind of item that brings tools along.
const TOOLS: &str = "additional_tools";

/// Marks a tool that an item introduced.
const BROUGHT: &str = "brought";

fn is_introduced(tool: &ToolSpec) -> bool {
    kept(&tool.extra, FORMAT).is_some_and(|known| known.contains_key(BROUGHT))
}

/// The tools an item brings, those of its namespaces among them. The item itself stays in the conversation as it is, so
/// what is not understood of it is no loss.
fn tools_brought(item: &Value) -> Vec<ToolSpec> {
    if item.get("type").is_none_or(|kind| kind != TOOLS) {
        return Vec::new();
    }
    let listed = |value: &Value| value.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let own = |tool: Value| if tool.get("tools").is_some() { listed(&tool) } else { vec![tool] };
    let tools = listed(item).into_iter().flat_map(own).filter_map(|tool| decode_tool(tool).ok());
    let marked = |mut tool: ToolSpec| {
        let mut known = kept(&tool.extra, FORMAT).cloned().unwrap_or_default();
        known.insert(BROUGHT.into(), true.into());
        keep(&mut tool.extra, FORMAT, known);
        tool
    };
    tools.map(marked).collect()
}

fn encode_tool(tool: &ToolSpec) -> Value {
    let mut fields = json!({"type": "function", "name": tool.name});
    if let Some(whole) = kept(&tool.extra, FORMAT).and_then(|known| known.get("whole")) {
        return whole.clone();
    }
    if !tool.description.is_empty() {
        fields["description"] = tool.description.as_str().into();
    }
    if !tool.parameters.is_null() {
        fields["parameters"] = tool.parameters.clone();
    }
    let mut fields = with_kept(fields, &tool.extra, FORMAT);
    // Without a word about it, schemas are held to rules that ours do not follow.
    match fields.get("strict") {
        None => fields["strict"] = false.into(),
        Some(Value::Null) => drop(fields.as_object_mut().and_then(|fields| fields.shift_remove("strict"))),
        Some(_) => {}
    }
    fields
}

fn decode_tool(tool: Value) -> Result<ToolSpec, WireError> {
    let mut extra = Extra::new();
    if tool.get("type").is_none_or(|kind| kind != "function") {
        let name = tool.get("name").or(tool.get("type")).and_then(Value::as_str).unwrap_or_default().to_owned();
        keep(&mut extra, FORMAT, JsonObject::from_iter([("whole".into(), tool)]));
        return Ok(ToolSpec { name, description: String::new(), parameters: Value::Null, extra });
    }
    let mut tool = object(tool, "a tool")?;
    tool.shift_remove("type");
    let name = need_text(&mut tool, "name", "a tool")?;
    let description = take_text(&mut tool, "description").unwrap_or_default();
    let parameters = tool.shift_remove("parameters").unwrap_or_default();
    match tool.get("strict") {
        Some(Value::Bool(false)) => drop(tool.shift_remove("strict")),
        Some(_) => {}
        None => drop(tool.insert("strict".into(), Value::Null)),
    }
    keep(&mut extra, FORMAT, tool);
    Ok(ToolSpec { name, description, parameters, extra })
}

/// Adds the items a message stands for.
fn encode_message(message: &Message, items: &mut Vec<Value>) {
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    // Words that follow each other are one item, unless they came as several.
    let mut open = false;
    for part in &message.content {
        let words = match part {
            Part::Text { text, extra } => {
                let kind = if message.role == Role::Assistant { "output_text" } else { "input_text" };
                let mut known = kept(extra, FORMAT).cloned().unwrap_or_default();
                let item = known.shift_remove(ITEM);
                let mut block =
                    JsonObject::from_iter([("type".into(), kind.into()), ("text".into(), text.as_str().into())]);
                block.extend(known);
                Some((Value::Object(block), item))
            }
            Part::Unknown(value) => match native_of(value, FORMAT) {
                Some(known) if known.get("content").is_some() => {
                    Some((known["content"].clone(), known.get(ITEM).cloned()))
                }
                Some(known) => {
                    items.extend(known.get("whole").cloned());
                    None
                }
                None => continue,
            },
            Part::ToolCall { id, name, arguments, extra } => {
                let known = kept(extra, FORMAT);
                let call = match (is_custom(known), arguments) {
                    (true, Value::String(input)) => {
                        json!({"type": CUSTOM, "call_id": id, "name": name, "input": input})
                    }
                    _ => {
                        let text = write_arguments(arguments, known);
                        json!({"type": "function_call", "call_id": id, "name": name, "arguments": text})
                    }
                };
                items.push(with_kept(call, extra, FORMAT));
                None
            }
            Part::ToolResult { id, content, extra, .. } => {
                let raw = kept(extra, FORMAT).and_then(|known| known.get("output"));
                let raw = raw.filter(|raw| words_of(raw) == *content).cloned();
                let output = raw.unwrap_or_else(|| content.as_str().into());
                let custom = is_custom(kept(extra, FORMAT));
                let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
                let result = json!({"type": kind, "call_id": id, "output": output});
                items.push(with_kept(result, extra, FORMAT));
                None
            }
            Part::Thinking { extra, .. } => {
                if kept(extra, FORMAT).is_none() {
                    continue;
                }
                items.push(with_kept(json!({"type": "reasoning"}), extra, FORMAT));
                None
            }
        };
        let Some((block, item)) = words else {
            open = false;
            continue;
        };
        match items.last_mut().filter(|_| open && item.is_none()).and_then(|last| last["content"].as_array_mut()) {
            Some(content) => content.push(block),
            None => {
                let mut fields = JsonObject::from_iter([
                    ("type".into(), "message".into()),
                    ("role".into(), role.into()),
                    ("content".into(), json!([block])),
                ]);
                fields.extend(item.as_ref().and_then(Value::as_object).cloned().unwrap_or_default());
                items.push(fields.into());
            }
        }
        open = true;
    }
}

fn decode_items(items: Vec<Value>) -> Result<Vec<Message>, WireError> {
    let mut messages: Vec<Message> = Vec::new();
    for item in items {
        let (role, parts) = decode_item(item)?;
        match messages.last_mut().filter(|last| last.role == role && matches!(role, Role::Assistant | Role::Tool)) {
            Some(last) => last.content.extend(parts),
            None => messages.push(Message::new(role, parts)),
        }
    }
    Ok(messages)
}

/// Who an item comes from, and its parts.
fn decode_item(item: Value) -> Result<(Role, Vec<Part>), WireError> {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or("message").to_owned();
    let what = format!("a `{kind}` item");
    let mut extra = Extra::new();
    Ok(match kind.as_str() {
        "message" => decode_words(item)?,
        "function_call" => {
            let mut item = object(item, &what)?;
            item.shift_remove("type");
            let (id, name) = (need_text(&mut item, "call_id", &what)?, need_text(&mut item, "name", &what)?);
            let raw = take_text(&mut item, "arguments").unwrap_or_default();
            let arguments = read_arguments(&raw, &mut item);
            keep(&mut extra, FORMAT, item);
            (Role::Assistant, vec![Part::ToolCall { id, name, arguments, extra }])
        }
        // A tool that takes text as it is.
        CUSTOM => {
            let mut item = object(item, &what)?;
            let (id, name) = (need_text(&mut item, "call_id", &what)?, need_text(&mut item, "name", &what)?);
            let input = take_text(&mut item, "input").unwrap_or_default();
            keep(&mut extra, FORMAT, item);
            (Role::Assistant, vec![Part::ToolCall { id, name, arguments: input.into(), extra }])
        }
        "function_call_output" | "custom_tool_call_output" => {
            let mut item = object(item, &what)?;
            if kind == "function_call_output" {
                item.shift_remove("type");
            }
            let id = need_text(&mut item, "call_id", &what)?;
            let content = item.get("output").map(words_of).unwrap_or_default();
            if item.get("output").is_none_or(Value::is_string) {
                item.shift_remove("output");
            }
            keep(&mut extra, FORMAT, item);
            (Role::Tool, vec![Part::ToolResult { id, content, is_error: false, extra }])
        }
        "reasoning" => {
            let mut item = object(item, &what)?;
            item.shift_remove("type");
            let text = item.get("summary").map(words_of).unwrap_or_default();
            item.entry("summary").or_insert_with(|| json!([]));
            keep(&mut extra, FORMAT, item);
            (Role::Assistant, vec![Part::Thinking { text, signature: None, extra }])
        }
        other => {
            let role = match other {
                TOOLS => Role::System,
                output if output.ends_with("_output") => Role::Tool,
                _ => Role::Assistant,
            };
            (role, vec![native(FORMAT, json!({"whole": item}))])
        }
    })
}

/// The kind of call whose tool takes text as it is; its parts keep their kind.
const CUSTOM: &str = "custom_tool_call";

fn is_custom(known: Option<&JsonObject>) -> bool {
    let kind = known.and_then(|known| known.get("type")?.as_str());
    kind.is_some_and(|kind| kind.starts_with(CUSTOM))
}

fn decode_words(item: Value) -> Result<(Role, Vec<Part>), WireError> {
    let whole = item.clone();
    let mut item = object(item, "a message")?;
    item.shift_remove("type");
    let role = match need_text(&mut item, "role", "a message")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "developer" => {
            item.insert("role".into(), "developer".into());
            Role::System
        }
        other => return Err(shape(format!("a message comes from `{other}`"))),
    };
    let usual = if role == Role::Assistant { "output_text" } else { "input_text" };
    let blocks = match item.shift_remove("content") {
        Some(Value::String(text)) => vec![json!({"type": usual, "text": text})],
        Some(Value::Array(blocks)) => blocks,
        _ => return Err(shape("a message has no `content`")),
    };
    if blocks.is_empty() {
        return Ok((role, vec![native(FORMAT, json!({"whole": whole}))]));
    }
    let mut parts = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        let item = (index == 0).then(|| Value::Object(item.clone()));
        let words = block.get("type").is_some_and(|kind| kind == "input_text" || kind == "output_text");
        if !words {
            let mut value = JsonObject::from_iter([("content".into(), block)]);
            value.extend(item.map(|item| (ITEM.to_owned(), item)));
            parts.push(native(FORMAT, value.into()));
            continue;
        }
        let mut block = object(block, "a block")?;
        if block.get("type").is_some_and(|kind| kind == usual) {
            block.shift_remove("type");
        }
        let text = need_text(&mut block, "text", "a block of text")?;
        block.extend(item.map(|item| (ITEM.to_owned(), item)));
        let mut extra = Extra::new();
        keep(&mut extra, FORMAT, block);
        parts.push(Part::Text { text, extra });
    }
    Ok((role, parts))
}

pub(super) fn encode_reply(response: &Response) -> Value {
    let mut output = Vec::new();
    encode_message(&response.message, &mut output);
    let mut known = kept(&response.extra, FORMAT).cloned().unwrap_or_default();
    // Searches are counted by their items.
    let counted = Usage { web_searches: 0, ..response.usage };
    if known.get("usage").is_none_or(|raw| usage_of(raw) != counted) {
        known.insert("usage".into(), encode_usage(response.usage));
    }
    let calls = response.message.tool_calls().next().is_some();
    if !known.contains_key("status") || stop_of(&known, calls) != response.stop {
        let (status, reason) = match &response.stop {
            Stop::End | Stop::ToolCalls => ("completed", None),
            Stop::Length => ("incomplete", Some("max_output_tokens")),
            Stop::ContentFilter => ("incomplete", Some("content_filter")),
            Stop::Other(word) => ("incomplete", Some(word.as_str())),
        };
        known.insert("status".into(), status.into());
        let details = reason.map_or(Value::Null, |reason| json!({"reason": reason}));
        known.insert("incomplete_details".into(), details);
    }
    let mut body = json!({"object": "response", "model": response.model, "output": output});
    if let Some(body) = body.as_object_mut() {
        body.extend(known);
    }
    body
}

pub(super) fn decode_reply(body: Value) -> Result<Response, WireError> {
    let mut body = object(body, "the answer")?;
    let model = take_text(&mut body, "model").unwrap_or_default();
    if !body.get("output").is_some_and(Value::is_array) {
        return Err(shape("the answer has no `output`"));
    }
    let mut content = Vec::new();
    let mut web_searches = 0;
    for item in take_list(&mut body, "output")? {
        web_searches += u64::from(item.get("type").is_some_and(|kind| kind == "web_search_call"));
        content.extend(decode_item(item)?.1);
    }
    let message = Message::new(Role::Assistant, content);
    let usage = Usage { web_searches, ..body.get("usage").map(usage_of).unwrap_or_default() };
    let stop = stop_of(&body, message.tool_calls().next().is_some());
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, body);
    Ok(Response { message, usage, model, stop, extra })
}

/// What tokens were used; the input there counts what was read from and written to the cache as well.
fn usage_of(usage: &Value) -> Usage {
    let cache_read = count(usage, &["input_tokens_details", "cached_tokens"]);
    let cache_write = count(usage, &["input_tokens_details", "cache_write_tokens"]);
    Usage {
        input: count(usage, &["input_tokens"]).saturating_sub(cache_read).saturating_sub(cache_write),
        cache_read,
        cache_write,
        output: count(usage, &["output_tokens"]),
        reasoning: count(usage, &["output_tokens_details", "reasoning_tokens"]),
        ..Usage::default()
    }
}

fn encode_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total(),
    })
}

fn stop_of(body: &JsonObject, calls: bool) -> Stop {
    match body.get("status").and_then(Value::as_str) {
        Some("incomplete") => {
            match body.get("incomplete_details").and_then(|details| details.get("reason")?.as_str()) {
                Some("max_output_tokens") => Stop::Length,
                Some("content_filter") => Stop::ContentFilter,
                other => Stop::Other(other.unwrap_or("incomplete").to_owned()),
            }
        }
        _ if calls => Stop::ToolCalls,
        _ => Stop::End,
    }
}
