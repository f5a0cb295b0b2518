//! Streams of Chat Completions.

use serde_json::{Value, json};

use crate::llm::wire::json::{JsonObject, WireError, object, shape, take_list};
use crate::llm::wire::sse;
use pleach_core::text::counted;

/// A streamed answer being put together.
#[derive(Debug, Clone, Default)]
pub(in crate::llm::wire) struct ChatStream {
    body: JsonObject,
    choices: Vec<JsonObject>,
    /// The numbers the server gives the tool calls of each choice, in their order.
    numbers: Vec<Vec<u64>>,
}

impl ChatStream {
    pub(in crate::llm::wire) fn push(&mut self, chunk: Value) -> Result<(), WireError> {
        let mut chunk = object(chunk, "a piece of the answer")?;
        for choice in take_list(&mut chunk, "choices")? {
            self.add(object(choice, "a choice")?)?;
        }
        chunk.shift_remove("object");
        // Counts come once, at the end; before that they are nothing.
        self.body.extend(chunk.into_iter().filter(|(_, value)| !value.is_null()));
        Ok(())
    }

    fn add(&mut self, mut piece: JsonObject) -> Result<(), WireError> {
        let index = piece.get("index").and_then(Value::as_u64).unwrap_or_default() as usize;
        if index > self.choices.len() {
            return Err(shape(format!("choice {index} comes after {}", counted(self.choices.len(), "choice"))));
        }
        if index == self.choices.len() {
            let message = json!({"role": "assistant", "content": null});
            self.choices.push(JsonObject::from_iter([("message".into(), message)]));
            self.numbers.push(Vec::new());
        }
        let (choice, numbers) = (&mut self.choices[index], &mut self.numbers[index]);
        let delta = match piece.shift_remove("delta") {
            Some(Value::Object(delta)) => delta,
            _ => JsonObject::new(),
        };
        for (key, value) in piece {
            if !value.is_null() || !choice.contains_key(&key) {
                choice.insert(key, value);
            }
        }
        let Some(Value::Object(message)) = choice.get_mut("message") else { return Ok(()) };
        for (key, value) in delta {
            match (key.as_str(), value) {
                ("tool_calls", Value::Array(calls)) => {
                    let all = message.entry(key).or_insert_with(|| json!([]));
                    calls.into_iter().try_for_each(|call| add_call(all, numbers, call))?;
                }
                (_, Value::Null) => {}
                (_, value) => add_text(message, &key, value, &["role"]),
            }
        }
        Ok(())
    }

    pub(in crate::llm::wire) fn has_begun(&self) -> bool {
        let says = |(key, value): (&String, &Value)| match value {
            Value::Null => false,
            Value::String(text) => key != "role" && !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => true,
        };
        let messages = self.choices.iter().filter_map(|choice| choice.get("message")?.as_object());
        messages.flatten().any(says)
    }

    pub(in crate::llm::wire) fn is_done(&self) -> bool {
        let ended = |choice: &JsonObject| choice.get("finish_reason").is_some_and(Value::is_string);
        !self.choices.is_empty() && self.choices.iter().all(ended)
    }

    pub(in crate::llm::wire) fn finish(mut self) -> Value {
        self.body.insert("object".into(), "chat.completion".into());
        self.body.insert("choices".into(), self.choices.into_iter().map(Value::Object).collect());
        self.body.into()
    }
}

/// Texts grow piece by piece, everything else is said once.
fn add_text(object: &mut JsonObject, key: &str, value: Value, once: &[&str]) {
    match (object.get_mut(key), value) {
        (Some(Value::String(text)), Value::String(piece)) if !once.contains(&key) => text.push_str(&piece),
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (_, value) => drop(object.insert(key.to_owned(), value)),
    }
}

fn add_call(calls: &mut Value, numbers: &mut Vec<u64>, piece: Value) -> Result<(), WireError> {
    let mut piece = object(piece, "a piece of a tool call")?;
    let Value::Array(calls) = calls else { return Err(shape("`tool_calls` is not a list")) };
    let number = piece.shift_remove("index").and_then(|index| index.as_u64());
    let index = match number {
        // Some servers give all calls the same number: the newest goes on, unless another one begins.
        Some(number) => numbers.iter().rposition(|known| *known == number).filter(|at| !begins(&calls[*at], &piece)),
        // Without a number, a piece with an id begins the next call.
        None if piece.contains_key("id") => None,
        None => calls.len().checked_sub(1),
    };
    let index = index.unwrap_or_else(|| {
        calls.push(json!({}));
        numbers.push(number.unwrap_or(u64::MAX));
        calls.len() - 1
    });
    let Value::Object(call) = &mut calls[index] else { return Ok(()) };
    for (key, value) in piece {
        match value {
            Value::Null => {}
            Value::Object(fields) if key == "function" || key == "custom" => {
                if let Value::Object(function) = call.entry(key).or_insert_with(|| json!({})) {
                    for (key, value) in fields {
                        add_text(function, &key, value, &["name"]);
                    }
                }
            }
            value => add_text(call, &key, value, &["id", "type"]),
        }
    }
    Ok(())
}

/// Whether a piece with the number of a call is the beginning of another one: it has a name, and another id.
fn begins(call: &Value, piece: &JsonObject) -> bool {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (known, new) = (text(call.get("id")), text(piece.get("id")));
    let name = text(piece.get("function").or(piece.get("custom")).and_then(|function| function.get("name")));
    !known.is_empty() && !new.is_empty() && known != new && !name.is_empty()
}

pub(in crate::llm::wire) fn stream_reply(body: &Value) -> Vec<sse::SseEvent> {
    let mut base = body.clone();
    base["object"] = "chat.completion.chunk".into();
    let usage = base.as_object_mut().and_then(|base| base.shift_remove("usage"));
    let chunk = |choices: Value| {
        let mut chunk = base.clone();
        chunk["choices"] = choices;
        sse::SseEvent::new("", chunk.to_string())
    };
    let mut events = Vec::new();
    for (index, choice) in body["choices"].as_array().into_iter().flatten().enumerate() {
        let mut delta = choice["message"].clone();
        let calls = delta.as_object_mut().and_then(|delta| delta.shift_remove("tool_calls"));
        events.push(chunk(json!([{"index": index, "delta": delta, "finish_reason": null}])));
        for (nth, call) in calls.as_ref().and_then(Value::as_array).into_iter().flatten().enumerate() {
            let mut call = call.clone();
            call["index"] = nth.into();
            events.push(chunk(json!([{"index": index, "delta": {"tool_calls": [call]}, "finish_reason": null}])));
        }
        let mut end = choice.clone();
        if let Some(end) = end.as_object_mut() {
            end.shift_remove("message");
            end.insert("delta".into(), json!({}));
        }
        events.push(chunk(json!([end])));
    }
    if let Some(usage) = usage {
        let mut last = base.clone();
        last["choices"] = json!([]);
        last["usage"] = usage;
        events.push(sse::SseEvent::new("", last.to_string()));
    }
    events.push(sse::SseEvent::new("", "[DONE]"));
    events
}
