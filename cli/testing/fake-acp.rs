//! A real program that plays an agent of the Agent Client Protocol by a script, for tests: `fake-acp SCRIPT LOG`.
//!
//! It speaks JSON-RPC on its standard streams, writes every message it reads into the file LOG, a line each, and plays
//! the steps of SCRIPT when it is given a task. Lines of the script before the first step say what kind of agent it is:
//!
//! ```text
//! version N            the version of the protocol it speaks, 1 if not said
//! load                 it can take sessions up again; while it does, it tells a word of their past
//! login METHOD         it wants to be logged in to by METHOD before it opens a session
//! silent METHOD        it never answers METHOD
//! stay                 it goes on when its input ends, and when TERM comes
//! loaded               the steps from here on are those of a session that was taken up again
//! ```
//!
//! Steps; a word is what is between spaces, TEXT goes to the end of the line:
//!
//! ```text
//! say TEXT             a piece of a message
//! write PATH TEXT      a tool call that writes a line to a file, told before and after
//! ask PATH TEXT        the same, but it asks first, and writes only if it may
//! shell TEXT           a tool call that runs `sh -c TEXT`
//! converse LANGUAGE    works on the task with a model, as `fake-agent` does, and says its last words; a call that is
//!                      refused is an internal error
//! attempt LANGUAGE     the same, but without a word about a call that fails, and goes on
//! want METHOD          asks the client for METHOD and says the code of the error it gets
//! usage N              the context holds N tokens
//! cost USD             the session has cost so much
//! noise TEXT           a line on standard output that is no message
//! complain TEXT        a line on standard error
//! fail CODE TEXT       answers the task with an error
//! exit CODE            ends
//! hang                 goes on only when it is cancelled; then it answers that
//! stop REASON          answers the task for this reason; `end_turn` if the steps end before
//! ```

#![expect(clippy::disallowed_macros, reason = "its streams are pipes of the pleach that runs it")]
#![expect(clippy::disallowed_methods, reason = "an agent is a program of its own, outside pleach's doors")]

#[path = "language.rs"]
mod language;
#[path = "model.rs"]
mod model;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

/// The id of every session it opens.
const SESSION: &str = "session-1";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [script, log] = args.as_slice() else { return failed("usage: fake-acp SCRIPT LOG") };
    let text = match fs::read_to_string(script) {
        Ok(text) => text,
        Err(error) => return failed(&format!("{script}: {error}")),
    };
    let log = OpenOptions::new().create(true).append(true).open(log).expect("the log can be written");
    let mut agent = Agent { log, ..Agent::of(&text) };
    if agent.stays && ignore_term().is_err() {
        return failed("TERM cannot be ignored");
    }
    agent.serve();
    if agent.stays {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

fn failed(why: &str) -> ExitCode {
    eprintln!("fake-acp: {why}");
    ExitCode::from(64)
}

struct Agent {
    log: File,
    version: u64,
    loads: bool,
    login: Option<String>,
    silent: Vec<String>,
    stays: bool,
    /// The steps of a new session, and of one that was taken up again.
    steps: [Vec<String>; 2],
    is_loaded: bool,
    is_cancelled: bool,
    calls: u64,
}

impl Agent {
    fn of(script: &str) -> Self {
        let mut agent = Self {
            log: File::open("/dev/null").expect("/dev/null"),
            version: 1,
            loads: false,
            login: None,
            silent: Vec::new(),
            stays: false,
            steps: [Vec::new(), Vec::new()],
            is_loaded: false,
            is_cancelled: false,
            calls: 0,
        };
        let mut of_loaded = 0;
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "version" => agent.version = rest.parse().expect("a number"),
                "load" => agent.loads = true,
                "login" => agent.login = Some(rest.to_owned()),
                "silent" => agent.silent.push(rest.to_owned()),
                "stay" => agent.stays = true,
                "loaded" => of_loaded = 1,
                _ => agent.steps[of_loaded].push(line.to_owned()),
            }
        }
        agent
    }

    /// Reads a message; none when the input has ended.
    fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => {
                self.log.write_all(line.as_bytes()).expect("the log can be written");
                Some(serde_json::from_str(&line).expect("a message"))
            }
        }
    }

    fn serve(&mut self) {
        while let Some(message) = self.read() {
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            let id = &message["id"];
            if id.is_null() || self.silent.contains(&method) {
                continue;
            }
            match method.as_str() {
                "initialize" => answer(
                    id,
                    json!({
                        "protocolVersion": self.version,
                        "agentCapabilities": {"loadSession": self.loads},
                        "agentInfo": {"name": "fake-acp", "version": "1"},
                        "authMethods": self.login.iter().map(|login| json!({"id": login})).collect::<Vec<_>>(),
                    }),
                ),
                "authenticate" if message["params"]["methodId"].as_str() == self.login.as_deref() => {
                    self.login = None;
                    answer(id, json!({}));
                }
                "session/new" | "session/load" if self.login.is_some() => refuse(id, -32000, "Authentication required"),
                "session/new" => answer(id, json!({"sessionId": SESSION})),
                "session/load" if message["params"]["sessionId"] == SESSION => {
                    self.is_loaded = true;
                    update(json!({"sessionUpdate": "agent_message_chunk", "content": text("from the past")}));
                    answer(id, Value::Null);
                }
                "session/prompt" => {
                    let task = message["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                    self.play(id, &task);
                }
                _ => refuse(id, -32601, "no such method"),
            }
        }
    }

    fn play(&mut self, id: &Value, task: &str) {
        for step in self.steps[usize::from(self.is_loaded)].clone() {
            let (word, rest) = step.split_once(' ').unwrap_or((&step, ""));
            let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
            match word {
                "say" => update(json!({"sessionUpdate": "agent_message_chunk", "content": text(rest)})),
                "write" => self.tool("edit", &format!("Write {first}"), &[first], |_| write(first, second)),
                "ask" => self.tool("edit", &format!("Write {first}"), &[first], |agent| {
                    if agent.may("edit", first) { write(first, second) } else { false }
                }),
                "shell" => self.tool("execute", rest, &[], |_| {
                    let status =
                        Command::new("sh").args(["-c", rest]).stdin(Stdio::null()).stdout(Stdio::null()).status();
                    status.is_ok_and(|status| status.success())
                }),
                "converse" | "attempt" => {
                    let model = model::Model::of(rest, None).expect("a model");
                    match model.converse(task) {
                        Ok(said) => update(json!({"sessionUpdate": "agent_message_chunk", "content": text(&said)})),
                        Err(_) if word == "attempt" => {}
                        Err(why) => return refuse(id, -32603, &why),
                    }
                }
                "want" => {
                    let answer = self.request(rest, json!({"sessionId": SESSION, "path": "x"}));
                    let code = answer["error"]["code"].to_string();
                    update(json!({"sessionUpdate": "agent_message_chunk", "content": text(&code)}));
                }
                "usage" => update(json!({"sessionUpdate": "usage_update", "used": number(rest), "size": 100_000})),
                "cost" => {
                    let cost = json!({"amount": number(rest), "currency": "USD"});
                    update(json!({"sessionUpdate": "usage_update", "cost": cost}));
                }
                "noise" => println!("{rest}"),
                "complain" => eprintln!("{rest}"),
                "fail" => return refuse(id, first.parse().expect("a code"), second),
                "exit" => std::process::exit(rest.parse().expect("a code")),
                "hang" => {
                    while !self.is_cancelled {
                        match self.read() {
                            Some(message) => self.is_cancelled = message["method"] == "session/cancel",
                            None => return,
                        }
                    }
                    return answer(id, json!({"stopReason": "cancelled"}));
                }
                "stop" => return answer(id, json!({"stopReason": rest})),
                other => panic!("there is no step `{other}`"),
            }
        }
        let usage = json!({"inputTokens": 100, "outputTokens": 10, "totalTokens": 110});
        answer(id, json!({"stopReason": "end_turn", "usage": usage}));
    }

    /// Does something as a tool, which is told before and after.
    fn tool(&mut self, kind: &str, title: &str, paths: &[&str], act: impl FnOnce(&mut Self) -> bool) {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let locations: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
        update(json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "in_progress",
            "locations": locations,
        }));
        let status = if act(self) { "completed" } else { "failed" };
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status}));
    }

    /// Asks whether it may.
    fn may(&mut self, kind: &str, path: &str) -> bool {
        let options = json!([
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "once", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]);
        let call = json!({"toolCallId": format!("call-{}", self.calls), "kind": kind, "locations": [{"path": path}]});
        let params = json!({"sessionId": SESSION, "toolCall": call, "options": options});
        let answer = self.request("session/request_permission", params);
        answer["result"]["outcome"]["optionId"] == "once"
    }

    /// Asks the client for something and waits for the answer.
    fn request(&mut self, method: &str, params: Value) -> Value {
        send(&json!({"jsonrpc": "2.0", "id": "mine", "method": method, "params": params}));
        loop {
            match self.read() {
                Some(message) if message["id"] == "mine" => return message,
                Some(message) => self.is_cancelled |= message["method"] == "session/cancel",
                None => return Value::Null,
            }
        }
    }
}

fn number(text: &str) -> Value {
    serde_json::from_str(text).expect("a number")
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn write(path: &str, line: &str) -> bool {
    let path = Path::new(path);
    let made = path.parent().is_none_or(|parent| fs::create_dir_all(parent).is_ok());
    made && fs::write(path, format!("{line}\n")).is_ok()
}

fn update(update: Value) {
    send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}));
}

fn answer(id: &Value, result: Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn refuse(id: &Value, code: i64, message: &str) {
    send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
}

fn send(message: &Value) {
    // Nobody may be listening any more.
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

/// Takes TERM and does nothing about it. What is registered once stays so, also without the runtime.
fn ignore_term() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        Ok(())
    })
}
