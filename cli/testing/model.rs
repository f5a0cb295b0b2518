//! The fake agent's conversation with a model: it asks, does what it is told, and asks again at once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::language::{Answer, Call, Language, Said, text};

/// How one kind of server is talked to.
pub struct Model {
    base: String,
    pub key: String,
    pub language: Language,
    streamed: bool,
}

impl Model {
    /// The server of this language, where the environment says it is. Answers come as streams, or `whole`.
    pub fn of(language: &str, manner: Option<&str>) -> Result<Self, String> {
        let unknown = || format!("`{language}` is no language of a model");
        let language = Language::of(language).ok_or_else(unknown)?;
        let streamed = match manner {
            None => true,
            Some("whole") => false,
            Some(other) => return Err(format!("answers come `whole` or not at all, never `{other}`")),
        };
        let read = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        let (base, key) = language.variables();
        Ok(Self { base: read(base)?, key: read(key)?, language, streamed })
    }

    /// Talks until the model asks for nothing more, and gives its last words.
    pub fn converse(&self, task: &str) -> Result<String, String> {
        self.talk(task, usize::MAX)
    }

    /// The same, but leaves after so many answers, once it has done what the last of them says.
    pub fn talk(&self, task: &str, answers: usize) -> Result<String, String> {
        let mut messages = vec![self.language.task(task)];
        let mut words = String::new();
        for _ in 0..answers {
            let said = self.ask(&messages)?;
            words = said.text;
            if said.calls.is_empty() {
                break;
            }
            messages.extend(said.repeated);
            let run = |call: Call| {
                let answer = self.run(&call.name, &call.given);
                (call, answer)
            };
            let results: Vec<(Call, Answer)> = said.calls.into_iter().map(run).collect();
            messages.extend(self.language.results(&results));
        }
        Ok(words)
    }

    /// One question and its answer.
    fn ask(&self, messages: &[Value]) -> Result<Said, String> {
        let tools = [
            ("Write", json!({"file_path": {}, "content": {}})),
            ("Bash", json!({"command": {}})),
            ("Task", json!({"prompts": {"type": "array"}})),
        ];
        let body = self.language.request(messages, &tools, self.streamed);
        let mut stream = self.post(self.language.path(self.streamed), &body)?;
        if self.streamed {
            return self.read_stream(stream, false);
        }
        let mut reply = String::new();
        stream.read_to_string(&mut reply).map_err(|error| error.to_string())?;
        self.language.read(&serde_json::from_str(&reply).map_err(|error| format!("{error}: {reply}"))?)
    }

    /// Reads a streamed answer up to its last event, and not until the stream ends; who is `hasty`, to its last word.
    pub fn read_stream(&self, mut stream: TcpStream, hasty: bool) -> Result<Said, String> {
        let mut got = Vec::new();
        let mut body = self.language.nothing();
        loop {
            let Some(end) = got.windows(2).position(|pair| pair == b"\n\n") else {
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
            if self.language.take(data, &mut body)? || hasty && data.contains("\"finish_reason\":\"") {
                return self.language.read(&body);
            }
        }
    }

    /// The host of the server, and a path on it.
    pub fn place(&self, path: &str) -> Result<(String, String), String> {
        let rest = self.base.strip_prefix("http://").ok_or("the server is not on this machine")?;
        let (host, base) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        Ok((host.to_owned(), format!("{base}{path}")))
    }

    /// Posts a body and gives the stream of the answer's, if it is one.
    pub fn post(&self, path: &str, body: &Value) -> Result<TcpStream, String> {
        let (host, path) = self.place(path)?;
        let mut stream = TcpStream::connect(&host).map_err(|error| format!("{host}: {error}"))?;
        let body = body.to_string();
        // In this version of the protocol, the body is what comes until the end.
        let head = format!(
            "POST {path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\nx-api-key: {0}\r\n\
             x-goog-api-key: {0}\r\nauthorization: Bearer {0}\r\ncontent-length: {1}\r\n\r\n",
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
