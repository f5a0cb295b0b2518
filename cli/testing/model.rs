//! The fake agent's conversation with a model: it asks, does what it is told, and asks again at once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// A tool the model asked for: id, name, arguments.
type Call = (String, String, Value);

/// How one kind of server is talked to.
pub struct Model {
    base: String,
    key: String,
    anthropic: bool,
}

impl Model {
    /// The server of this language, where the environment says it is.
    pub fn of(language: &str) -> Result<Self, String> {
        let (base, key, anthropic) = match language {
            "anthropic" => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", true),
            "openai" => ("OPENAI_BASE_URL", "OPENAI_API_KEY", false),
            other => return Err(format!("`{other}` is no language of a model")),
        };
        let read = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        Ok(Self { base: read(base)?, key: read(key)?, anthropic })
    }

    /// Talks until the model asks for nothing more, and gives its last words.
    pub fn converse(&self, task: &str) -> Result<String, String> {
        let mut messages = vec![json!({"role": "user", "content": task})];
        loop {
            let (said, text, calls) = self.ask(&messages)?;
            if calls.is_empty() {
                return Ok(text);
            }
            messages.push(said);
            let results: Vec<(String, Result<String, String>)> =
                calls.into_iter().map(|(id, name, given)| (id, self.run(&name, &given))).collect();
            self.tell(&mut messages, results);
        }
    }

    fn tell(&self, messages: &mut Vec<Value>, results: Vec<(String, Result<String, String>)>) {
        let words = |result: &Result<String, String>| match result {
            Ok(text) | Err(text) => text.clone(),
        };
        if self.anthropic {
            let block = |(id, result): &(String, Result<String, String>)| json!({"type": "tool_result", "tool_use_id": id, "content": words(result), "is_error": result.is_err()});
            let mut blocks: Vec<Value> = results.iter().map(block).collect();
            // Real ones say such things too; no task begins with it.
            blocks.push(json!({"type": "text", "text": "<system-reminder>Mind your list.</system-reminder>"}));
            messages.push(json!({"role": "user", "content": blocks}));
        } else {
            messages.extend(
                results
                    .iter()
                    .map(|(id, result)| json!({"role": "tool", "tool_call_id": id, "content": words(result)})),
            );
        }
    }

    /// One question: the answer as it is repeated to the server, its words, its calls.
    fn ask(&self, messages: &[Value]) -> Result<(Value, String, Vec<Call>), String> {
        let tools = [
            ("Write", json!({"file_path": {}, "content": {}})),
            ("Bash", json!({"command": {}})),
            ("Task", json!({"prompts": {"type": "array"}})),
        ];
        let schema = |properties: &Value| json!({"type": "object", "properties": properties});
        if self.anthropic {
            let tools: Vec<Value> =
                tools.iter().map(|(name, given)| json!({"name": name, "input_schema": schema(given)})).collect();
            let body = json!({"model": "fake", "max_tokens": 99, "stream": true, "messages": messages, "tools": tools});
            return read_stream(self.post("/v1/messages", &body)?);
        }
        let function = |name: &str, given: &Value| json!({"name": name, "parameters": schema(given)});
        let tools: Vec<Value> =
            tools.iter().map(|(name, given)| json!({"type": "function", "function": function(name, given)})).collect();
        let body = json!({"model": "fake", "messages": messages, "tools": tools});
        let mut reply = String::new();
        self.post("/chat/completions", &body)?.read_to_string(&mut reply).map_err(|error| error.to_string())?;
        let reply: Value = serde_json::from_str(&reply).map_err(|error| format!("{error}: {reply}"))?;
        let said = reply["choices"][0]["message"].clone();
        let calls = said["tool_calls"].as_array().cloned().unwrap_or_default();
        let calls = calls.iter().map(|call| {
            let given = serde_json::from_str(text(&call["function"]["arguments"])).unwrap_or_default();
            (text(&call["id"]).to_owned(), text(&call["function"]["name"]).to_owned(), given)
        });
        Ok((said.clone(), text(&said["content"]).to_owned(), calls.collect()))
    }

    /// Posts a body and gives the stream of the answer's, if it is one.
    fn post(&self, path: &str, body: &Value) -> Result<TcpStream, String> {
        let rest = self.base.strip_prefix("http://").ok_or("the server is not on this machine")?;
        let (host, base) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        let mut stream = TcpStream::connect(host).map_err(|error| format!("{host}: {error}"))?;
        let body = body.to_string();
        // In this version of the protocol, the body is what comes until the end.
        let head = format!(
            "POST {base}{path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\nx-api-key: {0}\r\n\
             authorization: Bearer {0}\r\ncontent-length: {1}\r\n\r\n",
            self.key,
            body.len()
        );
        stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .map_err(|e| e.to_string())?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).map_err(|error| format!("no answer: {error}"))?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        if head.split(' ').nth(1) == Some("200") {
            return Ok(stream);
        }
        let mut refusal = String::new();
        let _ = stream.read_to_string(&mut refusal);
        Err(format!("{}: {refusal}", head.lines().next().unwrap_or_default()))
    }

    /// Does what the model asks for. Its helpers are conversations at the same time.
    fn run(&self, name: &str, given: &Value) -> Result<String, String> {
        match name {
            "Write" => {
                let path = Path::new(text(&given["file_path"]));
                if let Some(dir) = path.parent() {
                    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
                }
                std::fs::write(path, text(&given["content"])).map_err(|error| error.to_string())?;
                Ok("written".into())
            }
            "Bash" => {
                let ran = Command::new("sh").args(["-c", text(&given["command"])]).output();
                let ran = ran.map_err(|error| error.to_string())?;
                let said = String::from_utf8_lossy(&ran.stdout).into_owned();
                if ran.status.success() { Ok(said) } else { Err(format!("{} {said}", ran.status)) }
            }
            "Task" => {
                let prompts = given["prompts"].as_array().cloned().unwrap_or_default();
                let said: Vec<Result<String, String>> = std::thread::scope(|scope| {
                    let helpers: Vec<_> =
                        prompts.iter().map(|prompt| scope.spawn(|| self.converse(text(prompt)))).collect();
                    helpers.into_iter().map(|helper| helper.join().expect("helpers do not panic")).collect()
                });
                said.into_iter().collect::<Result<Vec<_>, _>>().map(|said| said.join("\n"))
            }
            other => Err(format!("there is no tool `{other}`")),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Reads a streamed answer up to its last word, and not until the stream ends.
fn read_stream(mut stream: TcpStream) -> Result<(Value, String, Vec<Call>), String> {
    let mut got = Vec::new();
    let mut blocks: Vec<Value> = Vec::new();
    loop {
        let end = got.windows(2).position(|pair| pair == b"\n\n");
        let Some(end) = end else {
            let mut piece = [0; 4096];
            match stream.read(&mut piece) {
                Ok(0) => return Err("the answer broke off".into()),
                Ok(read) => got.extend_from_slice(&piece[..read]),
                Err(error) => return Err(error.to_string()),
            }
            continue;
        };
        let event: Vec<u8> = got.drain(..end + 2).collect();
        let event = String::from_utf8_lossy(&event).into_owned();
        let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) else { continue };
        let event: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        match text(&event["type"]) {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => {
                let (from, to) = match text(&event["delta"]["type"]) {
                    "text_delta" => ("text", "text"),
                    "input_json_delta" => ("partial_json", "raw"),
                    _ => continue,
                };
                let said = format!("{}{}", text(&blocks[index][to]), text(&event["delta"][from]));
                blocks[index][to] = said.into();
            }
            "message_stop" => break,
            "error" => return Err(event.to_string()),
            _ => {}
        }
    }
    let mut calls = Vec::new();
    for block in &mut blocks {
        if let Some(raw) = block.as_object_mut().and_then(|block| block.remove("raw")) {
            block["input"] = serde_json::from_str(text(&raw)).map_err(|error| error.to_string())?;
        }
        if block["type"] == "tool_use" {
            calls.push((text(&block["id"]).to_owned(), text(&block["name"]).to_owned(), block["input"].clone()));
        }
    }
    let words: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let words = words.join("\n");
    Ok((json!({"role": "assistant", "content": blocks}), words, calls))
}
