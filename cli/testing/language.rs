//! The languages of model servers, as an agent speaks them: written by hand from what the servers say, so that pleach's
//! own codecs are tested against something else than themselves.

use serde_json::{Value, json};

/// A tool the model asked for.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub given: Value,
}

/// What a tool answered.
pub type Answer = Result<String, String>;

/// An answer of the model.
#[derive(Debug)]
pub struct Said {
    /// As it is repeated to the server.
    pub repeated: Vec<Value>,
    pub text: String,
    pub calls: Vec<Call>,
}

/// The language of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

impl Language {
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "anthropic" => Self::Anthropic,
            "responses" => Self::Responses,
            "chat" => Self::Chat,
            "gemini" => Self::Gemini,
            _ => return None,
        })
    }

    /// The variables with the server's address and the key for it.
    pub fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
            Self::Responses | Self::Chat => ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
            Self::Gemini => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
        }
    }

    pub fn path(self, streamed: bool) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::Responses => "/responses",
            Self::Chat => "/chat/completions",
            Self::Gemini if streamed => "/v1beta/models/fake:streamGenerateContent?alt=sse",
            Self::Gemini => "/v1beta/models/fake:generateContent",
        }
    }

    /// The message with the task.
    pub fn task(self, task: &str) -> Value {
        match self {
            Self::Gemini => json!({"role": "user", "parts": [{"text": task}]}),
            Self::Anthropic | Self::Responses | Self::Chat => json!({"role": "user", "content": task}),
        }
    }

    /// The body of a request with the conversation so far. Tools are names and properties.
    pub fn request(self, messages: &[Value], tools: &[(&str, Value)], streamed: bool) -> Value {
        let schema = |properties: &Value| json!({"type": "object", "properties": properties});
        let all = |one: &dyn Fn(&str, Value) -> Value| -> Vec<Value> {
            tools.iter().map(|(name, properties)| one(name, schema(properties))).collect()
        };
        match self {
            Self::Anthropic => {
                let tools = all(&|name, schema| json!({"name": name, "input_schema": schema}));
                json!({"model": "fake", "max_tokens": 99, "stream": streamed, "messages": messages, "tools": tools})
            }
            Self::Responses => {
                let tools = all(&|name, schema| json!({"type": "function", "name": name, "parameters": schema}));
                json!({"model": "fake", "stream": streamed, "store": false, "input": messages, "tools": tools})
            }
            Self::Chat => {
                let function = |name: &str, schema| json!({"name": name, "parameters": schema});
                let tools = all(&|name, schema| json!({"type": "function", "function": function(name, schema)}));
                json!({"model": "fake", "stream": streamed, "messages": messages, "tools": tools})
            }
            Self::Gemini => {
                let tools = all(&|name, schema| json!({"name": name, "parameters": schema}));
                json!({"contents": messages, "tools": [{"functionDeclarations": tools}]})
            }
        }
    }

    /// What tools have answered, as messages.
    pub fn results(self, results: &[(Call, Answer)]) -> Vec<Value> {
        let words = |answer: &Answer| match answer {
            Ok(text) | Err(text) => text.clone(),
        };
        let each = |one: &dyn Fn(&Call, &Answer) -> Value| -> Vec<Value> {
            results.iter().map(|(call, answer)| one(call, answer)).collect()
        };
        match self {
            Self::Anthropic => {
                let mut blocks = each(
                    &|call, answer| json!({"type": "tool_result", "tool_use_id": call.id, "content": words(answer), "is_error": answer.is_err()}),
                );
                // Real ones say such things too; no task begins with it.
                blocks.push(json!({"type": "text", "text": "<system-reminder>Mind your list.</system-reminder>"}));
                vec![json!({"role": "user", "content": blocks})]
            }
            Self::Responses => each(
                &|call, answer| json!({"type": "function_call_output", "call_id": call.id, "output": words(answer)}),
            ),
            Self::Chat => {
                each(&|call, answer| json!({"role": "tool", "tool_call_id": call.id, "content": words(answer)}))
            }
            Self::Gemini => {
                let parts = each(&|call, answer| {
                    let response = json!({"output": words(answer)});
                    if call.id.is_empty() {
                        json!({"functionResponse": {"name": call.name, "response": response}})
                    } else {
                        json!({"functionResponse": {"id": call.id, "name": call.name, "response": response}})
                    }
                });
                vec![json!({"role": "user", "parts": parts})]
            }
        }
    }

    /// Reads an answer.
    pub fn read(self, body: &Value) -> Result<Said, String> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let call =
            |id: &Value, name: &Value, given: Value| Call { id: text(id).into(), name: text(name).into(), given };
        let said = match self {
            Self::Anthropic => {
                let blocks = list(&body["content"]);
                let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
                Said {
                    text: joined(&blocks, |block| block["text"].as_str()),
                    calls: calls.map(|block| call(&block["id"], &block["name"], block["input"].clone())).collect(),
                    repeated: vec![json!({"role": "assistant", "content": blocks})],
                }
            }
            Self::Responses => {
                let items = list(&body["output"]);
                let calls = items.iter().filter(|item| item["type"] == "function_call");
                let calls: Result<Vec<Call>, String> =
                    calls.map(|item| Ok(call(&item["call_id"], &item["name"], parsed(&item["arguments"])?))).collect();
                let parts: Vec<Value> = items.iter().flat_map(|item| list(&item["content"])).collect();
                Said { text: joined(&parts, |part| part["text"].as_str()), calls: calls?, repeated: items }
            }
            Self::Chat => {
                let message = &body["choices"][0]["message"];
                let calls: Result<Vec<Call>, String> = list(&message["tool_calls"])
                    .iter()
                    .map(|asked| {
                        let function = &asked["function"];
                        Ok(call(&asked["id"], &function["name"], parsed(&function["arguments"])?))
                    })
                    .collect();
                Said { text: text(&message["content"]).into(), calls: calls?, repeated: vec![message.clone()] }
            }
            Self::Gemini => {
                let content = &body["candidates"][0]["content"];
                let parts = list(&content["parts"]);
                let calls = parts.iter().filter_map(|part| part.get("functionCall"));
                Said {
                    text: joined(&parts, |part| part["text"].as_str()),
                    calls: calls.map(|asked| call(&asked["id"], &asked["name"], asked["args"].clone())).collect(),
                    repeated: vec![content.clone()],
                }
            }
        };
        if said.text.is_empty() && said.calls.is_empty() {
            Err(format!("an answer without words and calls: {body}"))
        } else {
            Ok(said)
        }
    }

    /// Takes the data of an event into the answer it is part of; true when that is all of it.
    pub fn take(self, data: &str, body: &mut Value) -> Result<bool, String> {
        if data == "[DONE]" {
            return Ok(true);
        }
        let event: Value = serde_json::from_str(data).map_err(|error| format!("{error}: {data}"))?;
        if event["type"] == "error" || event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(event.to_string());
        }
        match self {
            Self::Anthropic => take_block(&event, body),
            Self::Responses => {
                match text(&event["type"]) {
                    "response.output_item.done" => push(&mut body["output"], event["item"].clone()),
                    "response.completed" => return Ok(true),
                    "response.failed" | "response.incomplete" => return Err(event.to_string()),
                    _ => {}
                }
                Ok(false)
            }
            Self::Chat => {
                take_delta(&event["choices"][0]["delta"], &mut body["choices"][0]);
                Ok(false)
            }
            Self::Gemini => {
                let candidate = &event["candidates"][0];
                let content = &mut body["candidates"][0]["content"];
                content["role"] = "model".into();
                for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                    push(&mut content["parts"], part.clone());
                }
                Ok(candidate["finishReason"].is_string())
            }
        }
    }

    /// An answer of which nothing is there yet.
    pub fn nothing(self) -> Value {
        match self {
            Self::Anthropic => json!({"content": []}),
            Self::Responses => json!({"output": []}),
            Self::Chat => json!({"choices": [{"message": {"role": "assistant", "content": null}}]}),
            Self::Gemini => json!({"candidates": [{"content": {"role": "model", "parts": []}}]}),
        }
    }
}

fn take_block(event: &Value, body: &mut Value) -> Result<bool, String> {
    match text(&event["type"]) {
        "content_block_start" => {
            push(&mut body["content"], event["content_block"].clone());
            return Ok(false);
        }
        "message_stop" => return Ok(true),
        _ => {}
    }
    let index = event["index"].as_u64().unwrap_or_default() as usize;
    let Some(block) = body["content"].get_mut(index) else { return Ok(false) };
    match text(&event["type"]) {
        "content_block_delta" => {
            let (from, to) = match text(&event["delta"]["type"]) {
                "text_delta" => ("text", "text"),
                "input_json_delta" => ("partial_json", "raw"),
                _ => return Ok(false),
            };
            block[to] = format!("{}{}", text(&block[to]), text(&event["delta"][from])).into();
        }
        "content_block_stop" => {
            if let Some(raw) = block.as_object_mut().and_then(|block| block.remove("raw")) {
                block["input"] = parsed(&raw)?;
            }
        }
        _ => {}
    }
    Ok(false)
}

fn take_delta(delta: &Value, choice: &mut Value) {
    let message = &mut choice["message"];
    if let Some(words) = delta["content"].as_str() {
        message["content"] = format!("{}{words}", text(&message["content"])).into();
    }
    for piece in delta["tool_calls"].as_array().into_iter().flatten() {
        let index = piece["index"].as_u64().unwrap_or_default() as usize;
        if message["tool_calls"].as_array().map_or(0, Vec::len) <= index {
            let empty = json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}});
            push(&mut message["tool_calls"], empty);
        }
        let call = &mut message["tool_calls"][index];
        for (key, more) in [("name", &piece["function"]["name"]), ("arguments", &piece["function"]["arguments"])] {
            call["function"][key] = format!("{}{}", text(&call["function"][key]), text(more)).into();
        }
        if let Some(id) = piece["id"].as_str() {
            call["id"] = id.into();
        }
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

/// The JSON in a text; nothing is an object without anything in it.
fn parsed(raw: &Value) -> Result<Value, String> {
    match text(raw) {
        "" => Ok(json!({})),
        raw => serde_json::from_str(raw).map_err(|error| format!("{error}: {raw}")),
    }
}

fn joined<'a>(list: &'a [Value], words: impl Fn(&'a Value) -> Option<&'a str>) -> String {
    list.iter().filter_map(words).collect::<Vec<_>>().join("\n")
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
