//! Streams of generateContent.

use serde_json::{Value, json};

use crate::llm::wire::json::{JsonObject, WireError, object, shape, take_list};
use crate::llm::wire::sse;

/// A streamed answer being put together: every event is an answer of its own, with the next pieces.
#[derive(Debug, Clone, Default)]
pub(in crate::llm::wire) struct GeminiStream {
    body: JsonObject,
    candidates: Vec<JsonObject>,
    blocked: bool,
}

impl GeminiStream {
    pub(in crate::llm::wire) fn push(&mut self, chunk: Value) -> Result<(), WireError> {
        let mut chunk = object(chunk, "a piece of the answer")?;
        for (place, candidate) in take_list(&mut chunk, "candidates")?.into_iter().enumerate() {
            let mut candidate = object(candidate, "a candidate")?;
            let index = candidate.get("index").and_then(Value::as_u64).map_or(place, |index| index as usize);
            if index > self.candidates.len() {
                return Err(shape(format!("candidate {index} comes after {}", self.candidates.len())));
            }
            if index == self.candidates.len() {
                self.candidates.push(JsonObject::from_iter([("content".into(), json!({"parts": []}))]));
            }
            let whole = &mut self.candidates[index];
            let content = match candidate.shift_remove("content") {
                Some(Value::Object(content)) => content,
                _ => JsonObject::new(),
            };
            whole.extend(candidate);
            if let Some(Value::Object(all)) = whole.get_mut("content") {
                add_content(all, content);
            }
        }
        self.blocked |= chunk.get("promptFeedback").is_some_and(|feedback| feedback.get("blockReason").is_some());
        self.body.extend(chunk);
        Ok(())
    }

    pub(in crate::llm::wire) fn has_begun(&self) -> bool {
        let parts = |candidate: &JsonObject| candidate.get("content")?.get("parts")?.as_array().map(Vec::len);
        self.candidates.iter().any(|candidate| parts(candidate).is_some_and(|parts| parts > 0))
    }

    pub(in crate::llm::wire) fn is_done(&self) -> bool {
        let ended = |candidate: &JsonObject| candidate.get("finishReason").is_some_and(Value::is_string);
        self.blocked || !self.candidates.is_empty() && self.candidates.iter().all(ended)
    }

    pub(in crate::llm::wire) fn finish(mut self) -> Value {
        if !self.candidates.is_empty() {
            self.body.insert("candidates".into(), self.candidates.into_iter().map(Value::Object).collect());
        }
        self.body.into()
    }
}

/// Words go on where they stopped; everything else is a part of its own.
fn add_content(all: &mut JsonObject, mut content: JsonObject) {
    let parts = match content.shift_remove("parts") {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    all.extend(content);
    let Some(Value::Array(known)) = all.get_mut("parts") else { return };
    let plain =
        |part: &Value| part.as_object().is_some_and(|part| part.keys().all(|key| key == "text" || key == "thought"));
    for part in parts {
        let same = |last: &Value| plain(last) && plain(&part) && last.get("thought") == part.get("thought");
        match (known.last_mut().filter(|last| same(last)), part["text"].as_str()) {
            (Some(Value::Object(last)), Some(piece)) => {
                let text = last.get("text").and_then(Value::as_str).unwrap_or_default();
                let text = format!("{text}{piece}");
                last.insert("text".into(), text.into());
            }
            _ => known.push(part),
        }
    }
}

pub(in crate::llm::wire) fn stream_reply(body: &Value) -> Vec<sse::SseEvent> {
    let mut base = body.clone();
    if let Some(base) = base.as_object_mut() {
        base.shift_remove("candidates");
    }
    let mut events = Vec::new();
    for (index, candidate) in body["candidates"].as_array().into_iter().flatten().enumerate() {
        let parts = candidate["content"]["parts"].as_array().cloned().unwrap_or_default();
        for part in parts {
            let mut chunk = base.clone();
            let mut content = candidate["content"].clone();
            content["parts"] = json!([part]);
            chunk["candidates"] = json!([{"index": index, "content": content}]);
            events.push(chunk);
        }
        let mut last = base.clone();
        let mut end = candidate.clone();
        end["content"]["parts"] = json!([]);
        end["index"] = index.into();
        last["candidates"] = json!([end]);
        events.push(last);
    }
    events.into_iter().map(|event| sse::SseEvent::new("", event.to_string())).collect()
}
