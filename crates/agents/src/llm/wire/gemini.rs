//! Google's generateContent. The model's name stands in the address, not in the body.

mod stream;

use serde_json::{Value, json};

pub(super) use self::stream::{GeminiStream, stream_reply};
use super::json::{
    JsonObject, WireError, count, keep, kept, native, native_of, need_text, object, say, shape, take_list, take_text,
    with_kept, words_of,
};
use crate::llm::{Message, Part, Request, Response, Role, Stop, ToolSpec};
use pleach_core::event::{Extra, Usage};

pub(super) const FORMAT: &str = "gemini";

/// Marks calls the server gave no id, so that it is not sent the one made up for them.
const NO_ID: &str = "no_id";

pub(super) fn encode_request(request: &Request, _stream: bool) -> Value {
    let known = kept(&request.extra, FORMAT);
    let mut body = json!({"contents": contents_of(&request.messages)});
    if !request.system.is_empty() {
        let raw = known.and_then(|known| known.get("systemInstruction"));
        let raw = raw.filter(|raw| words_of(&raw["parts"]) == request.system).cloned();
        body["systemInstruction"] = raw.unwrap_or_else(|| json!({"parts": [{"text": request.system}]}));
    }
    let mut config = known.and_then(|known| known.get("generationConfig")?.as_object()).cloned().unwrap_or_default();
    if let Some(most) = request.max_tokens {
        config.insert("maxOutputTokens".into(), most.into());
    }
    if let Some(effort) = &request.effort {
        let thinking = config.entry("thinkingConfig").or_insert_with(|| json!({}));
        // The generation before counts tokens.
        if request.model.contains("gemini-2") {
            thinking["thinkingBudget"] = thinking_budget(effort).into()
        } else {
            thinking["thinkingLevel"] = effort.as_str().into()
        }
    }
    if !config.is_empty() {
        body["generationConfig"] = config.into();
    }
    let (whole, ours): (Vec<&ToolSpec>, Vec<&ToolSpec>) = request
        .tools
        .iter()
        .partition(|tool| kept(&tool.extra, FORMAT).is_some_and(|known| known.contains_key("whole")));
    let mut tools = Vec::new();
    if !ours.is_empty() {
        tools.push(json!({"functionDeclarations": ours.into_iter().map(encode_tool).collect::<Vec<_>>()}));
    }
    tools.extend(whole.iter().filter_map(|tool| kept(&tool.extra, FORMAT)?.get("whole").cloned()));
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    with_kept(body, &request.extra, FORMAT)
}

fn thinking_budget(effort: &str) -> u32 {
    match effort {
        "low" => 1024,
        "medium" => 8192,
        _ => 24576,
    }
}

pub(super) fn decode_request(body: Value) -> Result<Request, WireError> {
    let mut body = object(body, "the request")?;
    let mut request = Request::default();
    // Both spellings are in use.
    if let Some(system) = body.shift_remove("system_instruction") {
        body.insert("systemInstruction".into(), system);
    }
    if let Some(system) = body.get("systemInstruction") {
        request.system = words_of(&system["parts"]);
        if *system == json!({"parts": [{"text": request.system}]}) {
            body.shift_remove("systemInstruction");
        }
    }
    if let Some(Value::Object(config)) = body.get_mut("generationConfig") {
        let most = config.shift_remove("maxOutputTokens");
        request.max_tokens = most.and_then(|most| u32::try_from(most.as_u64()?).ok());
        if let Some(Value::Object(thinking)) = config.get_mut("thinkingConfig") {
            request.effort = take_text(thinking, "thinkingLevel");
            if thinking.is_empty() {
                config.shift_remove("thinkingConfig");
            }
        }
        if config.is_empty() {
            body.shift_remove("generationConfig");
        }
    }
    for content in take_list(&mut body, "contents")? {
        decode_content(content, &mut request.messages)?;
    }
    for tool in take_list(&mut body, "tools")? {
        decode_tools(tool, &mut request.tools)?;
    }
    keep(&mut request.extra, FORMAT, body);
    Ok(request)
}

fn encode_tool(tool: &ToolSpec) -> Value {
    let mut fields = json!({"name": tool.name});
    if !tool.description.is_empty() {
        fields["description"] = tool.description.as_str().into();
    }
    if !tool.parameters.is_null() {
        // `parameters` takes a subset of JSON schema.
        fields["parametersJsonSchema"] = tool.parameters.clone();
    }
    with_kept(fields, &tool.extra, FORMAT)
}

fn decode_tools(tool: Value, tools: &mut Vec<ToolSpec>) -> Result<(), WireError> {
    let ours = tool.as_object().is_some_and(|tool| tool.len() == 1 && tool.contains_key("functionDeclarations"));
    if !ours {
        let name = tool.as_object().and_then(|tool| tool.keys().next()).cloned().unwrap_or_default();
        let mut extra = Extra::new();
        keep(&mut extra, FORMAT, JsonObject::from_iter([("whole".into(), tool)]));
        tools.push(ToolSpec { name, description: String::new(), parameters: Value::Null, extra });
        return Ok(());
    }
    for tool in take_list(&mut object(tool, "a tool")?, "functionDeclarations")? {
        let mut tool = object(tool, "a tool")?;
        let name = need_text(&mut tool, "name", "a tool")?;
        let description = take_text(&mut tool, "description").unwrap_or_default();
        let parameters = tool.shift_remove("parametersJsonSchema").unwrap_or_default();
        let mut extra = Extra::new();
        keep(&mut extra, FORMAT, tool);
        tools.push(ToolSpec { name, description, parameters, extra });
    }
    Ok(())
}

/// The conversation; what one side says in several messages becomes one.
fn contents_of(messages: &[Message]) -> Vec<Value> {
    let mut all: Vec<JsonObject> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = if message.role == Role::Assistant { "model" } else { "user" };
        let earlier = &messages[..index];
        let parts: Vec<Value> = message.content.iter().filter_map(|part| encode_part(part, earlier)).collect();
        say(&mut all, role, "parts", parts, kept(&message.extra, FORMAT));
    }
    all.into_iter().map(Value::Object).collect()
}

fn decode_content(content: Value, messages: &mut Vec<Message>) -> Result<(), WireError> {
    let mut content = object(content, "a message")?;
    let role = match take_text(&mut content, "role").as_deref() {
        None | Some("user" | "function") => Role::User,
        Some("model") => Role::Assistant,
        Some(other) => return Err(shape(format!("a message comes from `{other}`"))),
    };
    let parts = take_list(&mut content, "parts")?;
    let mut extra = Extra::new();
    keep(&mut extra, FORMAT, content);
    for part in parts {
        let place = (messages.len(), messages.last().map_or(0, |last| last.content.len()));
        let mut part = decode_part(part, &format!("{}_{}", place.0, place.1))?;
        if let Part::ToolResult { id, extra, .. } = &mut part
            && id.is_empty()
        {
            *id = unanswered(messages, extra).unwrap_or_default();
        }
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

/// The first call of the answer's function that has no answer yet.
fn unanswered(messages: &[Message], extra: &Extra) -> Option<String> {
    let wanted = kept(extra, FORMAT)?.get("functionResponse")?.get("name")?.as_str()?;
    let answered: Vec<&str> = messages.iter().flat_map(|message| &message.content).filter_map(answered_id).collect();
    let calls = messages.iter().flat_map(|message| message.tool_calls());
    let mut open = calls.filter(|(id, name, _)| *name == wanted && !answered.contains(id));
    open.next().map(|(id, _, _)| id.to_owned())
}

fn answered_id(part: &Part) -> Option<&str> {
    match part {
        Part::ToolResult { id, .. } => Some(id),
        _ => None,
    }
}

fn encode_part(part: &Part, earlier: &[Message]) -> Option<Value> {
    Some(match part {
        Part::Text { text, extra } => with_kept(json!({"text": text}), extra, FORMAT),
        Part::Thinking { text, extra, .. } => {
            kept(extra, FORMAT)?;
            with_kept(json!({"text": text}), extra, FORMAT)
        }
        Part::ToolCall { id, name, arguments, extra } => {
            let mut call = inner(extra, "functionCall");
            if !marked(extra) {
                call.insert("id".into(), id.as_str().into());
            }
            call.insert("name".into(), name.as_str().into());
            call.insert("args".into(), arguments.clone());
            let mut fields = with_kept(json!({"functionCall": call}), extra, FORMAT);
            fields.as_object_mut()?.shift_remove(NO_ID);
            fields
        }
        Part::ToolResult { id, content, is_error, extra } => {
            let mut answer = inner(extra, "functionResponse");
            let call = earlier.iter().rev().find_map(|message| called(message, id));
            if !call.is_some_and(|(_, extra)| marked(extra)) && !marked(extra) {
                answer.insert("id".into(), id.as_str().into());
            }
            let name = call.map_or_else(|| Value::from("unknown"), |(name, _)| name.into());
            answer.entry("name").or_insert(name);
            let raw = kept(extra, FORMAT).and_then(|known| known.get("response"));
            let raw = raw.filter(|raw| result_of(raw) == (content.clone(), *is_error)).cloned();
            let key = if *is_error { "error" } else { "output" };
            answer.insert("response".into(), raw.unwrap_or_else(|| json!({key: content})));
            let mut fields = with_kept(json!({"functionResponse": answer}), extra, FORMAT);
            fields.as_object_mut()?.retain(|key, _| key != NO_ID && key != "response");
            fields
        }
        Part::Unknown(value) => native_of(value, FORMAT)?.clone(),
    })
}

/// The name and the extra fields of a call.
fn called<'a>(message: &'a Message, wanted: &str) -> Option<(&'a str, &'a Extra)> {
    message.content.iter().find_map(|part| match part {
        Part::ToolCall { id, name, extra, .. } if id == wanted => Some((name.as_str(), extra)),
        _ => None,
    })
}

fn marked(extra: &Extra) -> bool {
    kept(extra, FORMAT).is_some_and(|known| known.contains_key(NO_ID))
}

fn inner(extra: &Extra, key: &str) -> JsonObject {
    kept(extra, FORMAT).and_then(|known| known.get(key)?.as_object()).cloned().unwrap_or_default()
}

/// What a function answered: the words, and whether they are an error.
fn result_of(response: &Value) -> (String, bool) {
    let only = |key: &str| {
        let fields = response.as_object().filter(|fields| fields.len() == 1)?;
        Some(fields.get(key)?.as_str()?.to_owned())
    };
    match (only("output").or_else(|| only("result")), only("error")) {
        (Some(text), _) => (text, false),
        (None, Some(text)) => (text, true),
        (None, None) => (response.to_string(), false),
    }
}

/// A part of a message; a call without an id gets one from its place.
fn decode_part(part: Value, place: &str) -> Result<Part, WireError> {
    let mut part = object(part, "a part")?;
    let mut extra = Extra::new();
    if part.get("functionCall").is_some_and(Value::is_object) {
        let mut call = object(part.shift_remove("functionCall").unwrap_or_default(), "a call")?;
        let name = need_text(&mut call, "name", "a call")?;
        let arguments = call.shift_remove("args").unwrap_or_else(|| json!({}));
        let id = take_text(&mut call, "id").filter(|id| !id.is_empty());
        if id.is_none() {
            part.insert(NO_ID.into(), true.into());
        }
        if !call.is_empty() {
            part.insert("functionCall".into(), call.into());
        }
        keep(&mut extra, FORMAT, part);
        return Ok(Part::ToolCall { id: id.unwrap_or_else(|| format!("call_{place}")), name, arguments, extra });
    }
    if part.get("functionResponse").is_some_and(Value::is_object) {
        let mut answer = object(part.shift_remove("functionResponse").unwrap_or_default(), "an answer")?;
        let response = answer.shift_remove("response").unwrap_or_default();
        let (content, is_error) = result_of(&response);
        let key = if is_error { "error" } else { "output" };
        if response != json!({key: content}) {
            part.insert("response".into(), response);
        }
        let id = take_text(&mut answer, "id").unwrap_or_default();
        if id.is_empty() {
            part.insert(NO_ID.into(), true.into());
        }
        part.insert("functionResponse".into(), answer.into());
        keep(&mut extra, FORMAT, part);
        return Ok(Part::ToolResult { id, content, is_error, extra });
    }
    if !part.get("text").is_some_and(Value::is_string) {
        return Ok(native(FORMAT, part.into()));
    }
    let text = take_text(&mut part, "text").unwrap_or_default();
    let thought = part.get("thought").is_some_and(|thought| thought == true);
    keep(&mut extra, FORMAT, part);
    Ok(if thought { Part::Thinking { text, signature: None, extra } } else { Part::Text { text, extra } })
}

pub(super) fn encode_reply(response: &Response) -> Value {
    let mut known = kept(&response.extra, FORMAT).cloned().unwrap_or_default();
    let parts: Vec<Value> = response.message.content.iter().filter_map(|part| encode_part(part, &[])).collect();
    let mut candidate = match known.shift_remove("candidate") {
        Some(Value::Object(candidate)) => candidate,
        _ => JsonObject::from_iter([("index".into(), 0.into())]),
    };
    let mut content = match candidate.shift_remove("content") {
        Some(Value::Object(content)) => content,
        _ => JsonObject::from_iter([("role".into(), "model".into())]),
    };
    content.insert("parts".into(), parts.into());
    candidate.insert("content".into(), content.into());
    let calls = response.message.tool_calls().next().is_some();
    if candidate.get("finishReason").is_none_or(|raw| stop_of(raw, calls) != response.stop) {
        candidate.insert("finishReason".into(), stop_word(&response.stop).into());
    }
    // Searches are told by what was looked for, not among the tokens.
    let counted = Usage { web_searches: 0, ..response.usage };
    if known.get("usageMetadata").is_none_or(|raw| usage_of(raw) != counted) {
        known.insert("usageMetadata".into(), encode_usage(response.usage));
    }
    let more = match known.shift_remove("candidates") {
        Some(Value::Array(more)) => more,
        _ => Vec::new(),
    };
    let candidates: Vec<Value> = std::iter::once(candidate.into()).chain(more).collect();
    let mut body = json!({"candidates": candidates, "modelVersion": response.model});
    if let Some(body) = body.as_object_mut() {
        body.extend(known);
    }
    body
}

pub(super) fn decode_reply(body: Value) -> Result<Response, WireError> {
    let mut body = object(body, "the answer")?;
    let model = take_text(&mut body, "modelVersion").unwrap_or_default();
    let usage = body.get("usageMetadata").map(usage_of).unwrap_or_default();
    let mut candidates = take_list(&mut body, "candidates")?.into_iter();
    let mut extra = Extra::new();
    let Some(candidate) = candidates.next() else {
        // A question the server will not answer has no candidates.
        if body.get("promptFeedback").is_none_or(|feedback| feedback.get("blockReason").is_none()) {
            return Err(shape("the answer has no `candidates`"));
        }
        keep(&mut extra, FORMAT, body);
        let message = Message::new(Role::Assistant, Vec::new());
        return Ok(Response { message, usage, model, stop: Stop::ContentFilter, extra });
    };
    let mut candidate = object(candidate, "the answer's candidate")?;
    let searched = candidate.get("groundingMetadata").and_then(|found| found.get("webSearchQueries")?.as_array());
    let usage = Usage { web_searches: searched.map_or(0, |queries| queries.len() as u64), ..usage };
    let mut content = match candidate.shift_remove("content") {
        Some(Value::Object(content)) => content,
        _ => JsonObject::new(),
    };
    let parts = take_list(&mut content, "parts")?;
    let parts = parts.into_iter().enumerate().map(|(index, part)| decode_part(part, &index.to_string()));
    let message = Message::new(Role::Assistant, parts.collect::<Result<_, _>>()?);
    let calls = message.tool_calls().next().is_some();
    let stop = candidate.get("finishReason").map_or(Stop::End, |raw| stop_of(raw, calls));
    candidate.insert("content".into(), content.into());
    body.insert("candidate".into(), candidate.into());
    if candidates.len() > 0 {
        body.insert("candidates".into(), candidates.collect());
    }
    keep(&mut extra, FORMAT, body);
    Ok(Response { message, usage, model, stop, extra })
}

/// What tokens were used: the input there counts what was cached, the output does not count the thoughts.
fn usage_of(usage: &Value) -> Usage {
    let cache_read = count(usage, &["cachedContentTokenCount"]);
    let reasoning = count(usage, &["thoughtsTokenCount"]);
    let input = count(usage, &["promptTokenCount"]) + count(usage, &["toolUsePromptTokenCount"]);
    Usage {
        input: input.saturating_sub(cache_read),
        cache_read,
        output: count(usage, &["candidatesTokenCount"]) + reasoning,
        reasoning,
        ..Usage::default()
    }
}

fn encode_usage(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.input + usage.cache_read + usage.cache_write,
        "cachedContentTokenCount": usage.cache_read, "thoughtsTokenCount": usage.reasoning,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning), "totalTokenCount": usage.total(),
    })
}

fn stop_of(reason: &Value, calls: bool) -> Stop {
    match reason.as_str() {
        None | Some("STOP") if calls => Stop::ToolCalls,
        None | Some("STOP") => Stop::End,
        Some("MAX_TOKENS") => Stop::Length,
        Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => Stop::ContentFilter,
        Some(other) => Stop::Other(other.to_owned()),
    }
}

fn stop_word(stop: &Stop) -> &str {
    match stop {
        Stop::End | Stop::ToolCalls => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::ContentFilter => "SAFETY",
        Stop::Other(word) => word,
    }
}
