//! The client on what real agents said, and on agents that misbehave.

use std::sync::Arc;

use serde_json::{Value, json};

use super::AcpAgent;
use super::client::{AcpAction, AcpClient, AcpEnd, AcpTask};
use super::policy::PermissionPolicy;
use super::state::AcpState;
use crate::agent::{AgentError, Job, Turn};
use crate::llm::Role;
use os::process::{Sandbox, Spawner};
use pleach_core::config::{AgentSettings, Environment};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::NodeId;

const CLAUDE: &str = include_str!("../../../tests/data/acp/acp_claude.jsonl");
const CODEX: &str = include_str!("../../../tests/data/acp/acp_codex.jsonl");
const GEMINI: &str = include_str!("../../../tests/data/acp/acp_gemini_nofs.jsonl");
const OPENCODE: &str = include_str!("../../../tests/data/acp/acp_opencode.jsonl");

fn ask() -> AcpTask {
    let root = std::path::PathBuf::from("/workspace/repo");
    AcpTask {
        home: "user",
        prompt: "do it".into(),
        servers: Vec::new(),
        cwd: root.clone(),
        resume: None,
        model: None,
        mode: None,
        policy: PermissionPolicy { allows: true, cwd: root.clone(), writable: vec![root] },
        name: "agent".into(),
    }
}

/// A conversation as it is played.
struct Play {
    client: AcpClient,
    /// What was said, oldest first.
    said: Vec<Value>,
    turns: Vec<Turn>,
    ended: Option<AcpEnd>,
}

impl Play {
    fn new(ask: AcpTask) -> Self {
        let (client, hello) = AcpClient::new(ask);
        let mut play = Self { client, said: Vec::new(), turns: Vec::new(), ended: None };
        play.note(&hello);
        play
    }

    fn note(&mut self, line: &[u8]) {
        self.said.push(serde_json::from_slice(line).expect("what is said is JSON"));
    }

    fn hear(&mut self, message: &Value) {
        self.hear_line(&message.to_string());
    }

    fn hear_line(&mut self, line: &str) {
        for act in self.client.receive(line) {
            match act {
                AcpAction::Say(line) => self.note(&line),
                AcpAction::Turn(turn) => self.turns.push(*turn),
                AcpAction::End(ended) => self.ended = Some(ended),
            }
        }
    }

    /// Answers the newest request.
    fn answer(&mut self, result: Value) {
        let id = self.newest()["id"].clone();
        self.hear(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn refuse(&mut self, code: i64, message: &str) {
        let id = self.newest()["id"].clone();
        self.hear(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }

    fn newest(&self) -> &Value {
        self.said.iter().rfind(|said| said["method"].is_string()).expect("something was said")
    }

    fn update(&mut self, update: Value) {
        self.hear(&json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}));
    }

    /// Up to the prompt.
    fn open(ask: AcpTask) -> Self {
        let mut play = Self::new(ask);
        play.answer(json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}));
        play.answer(json!({"sessionId": "s"}));
        assert_eq!(play.newest()["method"], "session/prompt");
        play
    }

    fn methods(&self) -> Vec<&str> {
        self.said.iter().filter_map(|said| said["method"].as_str()).collect()
    }

    fn failure(&self) -> &AgentError {
        match &self.ended {
            Some(AcpEnd::Failed(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Plays what an agent said. Its answers go to the requests they were answers to, whatever their numbers are.
    fn replay(&mut self, capture: &str) {
        let mut asked = std::collections::BTreeMap::new();
        for line in capture.lines() {
            let line: Value = serde_json::from_str(line).expect("a captured line");
            let mut message = line["msg"].clone();
            let id = message["id"].as_u64();
            match (line["dir"].as_str(), id) {
                (Some("out"), Some(id)) if message["method"].is_string() => {
                    asked.insert(id, message["method"].as_str().expect("a method").to_owned());
                }
                (Some("in"), Some(id)) if message["method"].is_null() => {
                    if asked[&id] == "authenticate" {
                        // The captured client logged in without being asked to; this one waits for that.
                        assert_eq!(self.newest()["method"], "session/new");
                        self.refuse(-32000, "Authentication required");
                    }
                    assert_eq!(self.newest()["method"], asked[&id], "the agent was asked the same");
                    message["id"] = self.newest()["id"].clone();
                    self.hear(&message);
                }
                (Some("in"), _) => self.hear(&message),
                _ => {}
            }
        }
        assert_eq!(self.ended, Some(AcpEnd::Done));
        let last = self.client.last_turn(None).expect("a last turn");
        self.turns.push(last);
    }

    /// The options that were chosen when the agent asked.
    fn chosen(&self) -> Vec<&str> {
        self.said.iter().filter_map(|said| said.pointer("/result/outcome/optionId")?.as_str()).collect()
    }
}

/// A turn in a few words.
fn describe(turn: &Turn) -> String {
    let calls: Vec<String> = turn
        .tool_calls
        .iter()
        .map(|call| {
            let paths = ["file_path", "filePath", "paths"].iter().find_map(|key| call.arguments.get(key));
            let error = if call.is_error { "!" } else { "" };
            format!("{}{error}({})", call.name, paths.map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    let usage = &turn.usage;
    format!(
        "{} | {} | {}+{}r+{}w/{} | {:?} | {}",
        turn.intent,
        calls.join(" "),
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.output,
        turn.cost_usd,
        turn.model
    )
}

fn replayed(capture: &str) -> (Play, Vec<String>) {
    let mut play = Play::new(ask());
    play.replay(capture);
    let turns = play.turns.iter().map(describe).collect();
    let ends: Vec<(bool, bool)> = play.turns.iter().map(|turn| (turn.exact, turn.is_last)).collect();
    let (last, before) = ends.split_last().expect("a turn");
    assert_eq!(*last, (true, true));
    assert!(before.iter().all(|end| *end == (false, false)), "what is between calls is inferred");
    (play, turns)
}

#[test]
fn claude_code_is_understood() {
    let (play, turns) = replayed(CLAUDE);
    let root = "/workspace/repo";
    assert_eq!(
        turns,
        [
            format!(
                "Turn 1: I will write hello.txt. | Write(\"{root}/hello.txt\") | 1111+0r+0w/0 | None | claude-opus-5-5"
            ),
            format!(
                "Turn 2: edit hello.txt and add src/two.txt. | Edit(\"{root}/hello.txt\") Write(\"{root}/src/two.txt\") | \
                 2222+0r+0w/0 | None | claude-opus-5-5"
            ),
            "Done: two turns wrote files. |  | 2667+600r+0w/66 | Some(0.02574) | claude-opus-5-5".to_owned(),
        ]
    );
    assert_eq!(play.chosen(), ["allow-once"; 3]);
    assert_eq!(play.methods(), ["initialize", "session/new", "session/prompt"]);
    assert_eq!(play.client.words(), "Done: two turns wrote files.");
    let state = play.turns[2].state_ref.clone().expect("it can load sessions");
    let session = "b040daad-ba76-4aae-9689-c8aa5c010816";
    assert_eq!(state, json!({"agent": "acp", "session": session, "cost_usd": 0.02574, "home": "user"}));
    let roles = |turn: &Turn| turn.messages.iter().map(|message| message.role).collect::<Vec<_>>();
    assert_eq!(roles(&play.turns[0]), [Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(roles(&play.turns[1]), [Role::Assistant, Role::Tool]);
    assert!(play.turns[2].messages.last().is_some_and(crate::llm::Message::is_answer));
}

#[test]
fn codex_is_understood() {
    let (play, turns) = replayed(CODEX);
    let first = "Warning: Model metadata for `mock-model` not found.";
    assert!(turns[0].starts_with(first), "{turns:?}");
    assert!(
        turns[0].ends_with(" | edit([\"/workspace/repo/p.txt\"]) | 1111+0r+0w/0 | None | mock-model[medium]"),
        "{turns:?}"
    );
    assert_eq!(
        turns[1..],
        [
            "patch two | edit([\"/workspace/repo/p.txt\",\"/workspace/repo/q.txt\"]) | 2222+0r+0w/0 | None | mock-model[medium]",
            "Done patch. |  | 2667+600r+0w/66 | None | mock-model",
        ]
    );
    assert_eq!(play.chosen(), [""; 0]);
}

#[test]
fn gemini_logs_in_when_required() {
    let (play, turns) = replayed(GEMINI);
    let root = "/workspace/repo";
    assert_eq!(
        turns,
        [
            format!(
                "Turn 1: I will write hello.txt. | edit([\"{root}/hello.txt\"]) | 0+0r+0w/0 | None | gemini-2.5-pro"
            ),
            format!(
                "Turn 2: edit hello.txt and add src/two.txt. | edit([\"{root}/hello.txt\"]) edit([\"{root}/src/two.txt\"]) | \
                 0+0r+0w/0 | None | gemini-2.5-pro"
            ),
            "Done: two turns wrote files. |  | 6600+0r+0w/66 | None | gemini-2.5-pro".to_owned(),
        ]
    );
    assert_eq!(play.chosen(), ["proceed_once"; 3]);
    assert_eq!(play.methods(), ["initialize", "session/new", "authenticate", "session/new", "session/prompt"]);
    assert_eq!(play.said[2]["params"], json!({"methodId": "gemini-api-key"}));
    let offered = &play.said[0]["params"]["clientCapabilities"];
    assert_eq!(*offered, json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false}));
}

#[test]
fn opencode_is_understood() {
    let (_, turns) = replayed(OPENCODE);
    let root = "/workspace/repo";
    assert_eq!(
        turns,
        [
            format!(
                "Turn 1: I will write hello.txt. | edit(\"{root}/hello.txt\") | 0+0r+0w/0 | None | mock/mock-model"
            ),
            format!(
                "Turn 2: edit hello.txt and add src/two.txt. | edit(\"{root}/hello.txt\") edit(\"{root}/src/two.txt\") | \
                 0+0r+0w/0 | None | mock/mock-model"
            ),
            "Done: two turns wrote files. |  | 3000+300r+0w/33 | Some(0.01917) | mock/mock-model".to_owned(),
        ]
    );
}

#[test]
fn another_version_of_the_protocol_is_refused() {
    let mut play = Play::new(ask());
    play.answer(json!({"protocolVersion": 2}));
    let AgentError::Terminal(why) = play.failure() else { panic!("{:?}", play.ended) };
    assert!(why.contains("version 2") && why.contains("pleach speaks 1"), "{why}");
    let mut play = Play::new(ask());
    play.answer(json!({"protocolVersion": "one"}));
    assert!(play.failure().to_string().contains("answer to `initialize`"), "{:?}", play.ended);
}

#[test]
fn unknown_messages_are_ignored_and_unsupported_requests_refused() {
    let mut play = Play::open(ask());
    for line in ["Loading models…", "", "[]", r#"{"method":"_new/thing","params":7}"#, r#"{"id":99,"result":{}}"#] {
        play.hear_line(line);
    }
    play.update(json!({"sessionUpdate": "plan", "entries": []}));
    play.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "…"}, "new": 1}));
    play.update(json!({"sessionUpdate": "agent_message_chunk"}));
    let said = play.said.len();
    play.hear(&json!({"id": "x", "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}));
    assert_eq!(play.said[said]["error"]["code"], -32601);
    assert_eq!(play.said[said]["id"], "x");
    play.answer(json!({"stopReason": "end_turn", "usage": "none"}));
    assert_eq!(play.ended, Some(AcpEnd::Done));
    let last = play.client.last_turn(None).expect("a turn");
    assert_eq!(last.messages.last().expect("an answer").text(), "[image]");
    assert_eq!(play.client.noise.as_deref(), Some("Loading models…"));
}

#[test]
fn words_start_a_turn_once_all_tools_have_ended() {
    let mut play = Play::open(ask());
    let say = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let tool = |id: &str, status: &str| json!({"sessionUpdate": "tool_call", "toolCallId": id, "status": status});
    play.update(say("one"));
    play.update(tool("1", "in_progress"));
    play.update(say("still one"));
    play.update(tool("1", "failed"));
    play.update(tool("2", "completed"));
    assert_eq!(play.turns.len(), 0);
    play.update(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}));
    assert_eq!(play.turns.len(), 1);
    play.update(say("two"));
    play.update(tool("3", "pending"));
    play.answer(json!({"stopReason": "end_turn"}));
    let last = play.client.last_turn(None).expect("a turn");
    let failed: Vec<bool> = play.turns[0].tool_calls.iter().map(|call| call.is_error).collect();
    assert_eq!(failed, [true, false]);
    assert_eq!(last.tool_calls.len(), 1);
    assert!(last.messages.last().is_some_and(crate::llm::Message::is_answer), "a job that is done has an answer");
}

#[test]
fn one_message_around_its_tools_is_one_turn() {
    let mut play = Play::open(ask());
    let say = |text: &str, id: &str| json!({"sessionUpdate": "agent_message_chunk", "messageId": id, "content": {"type": "text", "text": text}});
    play.update(say("before", "m1"));
    play.update(json!({"sessionUpdate": "tool_call", "toolCallId": "1", "status": "completed"}));
    play.update(say("after", "m1"));
    assert_eq!(play.turns.len(), 0);
    play.update(say("next", "m2"));
    assert_eq!(play.turns.len(), 1);
}

#[test]
fn a_session_is_resumed_where_the_agent_can() {
    let state = json!({"agent": "acp", "session": "old", "cost_usd": 1.5, "messages": {"first": 1, "last": 2}});
    let again = AcpTask { resume: AcpState::read(&state), ..ask() };
    assert_eq!(AcpState::read(&json!({"agent": "claude", "session": "old"})), None);
    let mut play = Play::new(again.clone());
    play.answer(json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}));
    assert_eq!(play.newest()["method"], "session/load");
    assert_eq!(play.newest()["params"], json!({"sessionId": "old", "cwd": "/workspace/repo", "mcpServers": []}));
    // Its past is told again, which is no news.
    play.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old words"}}));
    play.answer(Value::Null);
    assert_eq!(play.newest()["params"]["sessionId"], "old");
    play.update(json!({"sessionUpdate": "usage_update", "used": 9, "cost": {"amount": 2.0, "currency": "USD"}}));
    play.answer(json!({"stopReason": "end_turn"}));
    let last = play.client.last_turn(None).expect("a turn");
    assert_eq!((last.cost_usd, last.usage.input), (Some(0.5), 9));
    assert_eq!(last.state_ref, Some(json!({"agent": "acp", "session": "old", "cost_usd": 2.0, "home": "user"})));
    assert!(!last.messages.iter().any(|message| message.text().contains("old words")));

    let mut unable = Play::new(again.clone());
    unable.answer(json!({"protocolVersion": 1}));
    assert_eq!(unable.newest()["method"], "session/new");
    assert_eq!(unable.client.warnings.len(), 1);
    unable.answer(json!({"sessionId": "s"}));
    assert_eq!(unable.client.last_turn(None).expect("a turn").state_ref, None);

    let mut lost = Play::new(again);
    lost.answer(json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}));
    lost.refuse(-32602, "no such session");
    assert_eq!(lost.newest()["method"], "session/new");
    let [Warning { code: WarningCode::AgentCannotResume, text }] = &lost.client.warnings[..] else { panic!() };
    assert!(text.contains("no such session"), "{text}");
}

#[test]
fn offered_models_and_modes_are_selected() {
    let wish = AcpTask { model: Some("big".into()), mode: Some("auto".into()), ..ask() };
    let open = |offers: Value| {
        let mut play = Play::new(wish.clone());
        play.answer(json!({"protocolVersion": 1}));
        play.answer(offers);
        play
    };
    let modes = json!({"availableModes": [{"id": "ask"}, {"id": "auto"}]});
    let mut play = open(json!({"sessionId": "s", "modes": modes, "models": {"availableModels": [{"modelId": "big"}]}}));
    assert_eq!(play.newest()["params"], json!({"sessionId": "s", "modeId": "auto"}));
    play.answer(json!({}));
    assert_eq!(play.newest()["method"], "session/set_model");
    play.answer(Value::Null);
    assert_eq!(play.newest()["method"], "session/prompt");

    let options = json!([{"id": "m", "category": "model", "currentValue": "small", "options": [{"value": "big"}]}]);
    let mut play = open(json!({"sessionId": "s", "modes": modes, "configOptions": options}));
    play.answer(json!({}));
    assert_eq!(play.newest()["method"], "session/set_config_option");
    assert_eq!(play.newest()["params"], json!({"sessionId": "s", "configId": "m", "value": "big"}));

    let play = open(json!({"sessionId": "s", "modes": modes, "models": {"availableModels": [{"modelId": "small"}]}}));
    assert!(play.failure().to_string().contains("no model `big`; it has small"), "{:?}", play.ended);
    let play = open(json!({"sessionId": "s"}));
    assert!(play.failure().to_string().contains("no permission mode to choose"), "{:?}", play.ended);
}

#[test]
fn a_stop_is_sent_once_and_later_permissions_are_cancelled() {
    let mut play = Play::open(ask());
    let cancel = play.client.cancel().expect("a word to stop");
    assert!(String::from_utf8(cancel).unwrap().contains("session/cancel"));
    assert_eq!(play.client.cancel(), None);
    let options = json!([{"optionId": "yes", "kind": "allow_once"}]);
    let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "1"}, "options": options});
    play.hear(&json!({"id": 5, "method": "session/request_permission", "params": params}));
    assert_eq!(play.said.last().unwrap()["result"], json!({"outcome": {"outcome": "cancelled"}}));
    play.answer(json!({"stopReason": "cancelled"}));
    assert_eq!(play.ended, Some(AcpEnd::Cancelled));
    let last = play.client.last_turn(Some("stopped")).expect("a turn");
    assert!(!last.messages.last().unwrap().is_answer(), "nothing goes on from half an answer");
}

#[test]
fn every_stop_reason_is_reported() {
    let end = |reason: &str| {
        let mut play = Play::open(ask());
        play.answer(json!({"stopReason": reason}));
        play.ended.expect("an end")
    };
    assert!(matches!(end("max_tokens"), AcpEnd::Limit(_)));
    assert!(matches!(end("max_turn_requests"), AcpEnd::Limit(_)));
    assert!(matches!(end("refusal"), AcpEnd::Failed(AgentError::Terminal(_))));
    assert!(matches!(end("cancelled"), AcpEnd::Failed(AgentError::Transient(_))));
    assert!(matches!(end("moonrise"), AcpEnd::Failed(AgentError::Terminal(_))));
    for (code, transient) in [(-32603, true), (-32000, false), (-32602, false)] {
        let mut play = Play::open(ask());
        play.refuse(code, "overloaded");
        assert_eq!(matches!(play.failure(), AgentError::Transient(_)), transient, "{code}");
        assert!(play.failure().to_string().contains("overloaded"));
    }
}

#[test]
fn an_agent_without_a_login_fails_by_name() {
    let mut play = Play::new(ask());
    play.answer(json!({"protocolVersion": 1, "authMethods": []}));
    play.refuse(-32000, "Authentication required");
    assert!(play.failure().to_string().contains("log in with the agent's own program"), "{:?}", play.ended);
    let mut play = Play::new(ask());
    play.answer(json!({"protocolVersion": 1, "authMethods": [{"id": "browser"}]}));
    play.refuse(-32000, "Authentication required");
    play.refuse(-32603, "no browser");
    assert!(play.failure().to_string().contains("no browser"), "{:?}", play.ended);
}

#[test]
fn known_agents_are_recognized_by_bare_name() {
    let title = |program: &str| super::known(program).map(|preset| preset.title.as_str());
    for (program, expected) in [
        ("gemini", Some("Gemini CLI")),
        ("claude-agent-acp", Some("Claude Code")),
        ("claude-code-acp", Some("Claude Code")),
        ("codex-acp", Some("Codex")),
        ("./gemini", None),
        ("/tmp/codex-acp", None),
        ("other-acp", None),
    ] {
        assert_eq!(title(program), expected, "{program}");
    }
}

#[test]
fn a_sandboxed_agent_gets_no_sandbox_of_its_own() {
    let environment = Environment::default();
    let agent = |program: &str| {
        AcpAgent::new([program], Spawner::new(Vec::new(), &environment)).with_known_program(&environment)
    };
    let job = |is_held: bool| {
        let mut job = Job::new(NodeId::new("n").unwrap(), "Work", "/r", "/s/status.json");
        job.sandbox = is_held.then(|| Arc::new(Sandbox::default()));
        job
    };
    let words = |agent: &AcpAgent, job: Job| {
        let argv = agent.command(job, Vec::new(), Vec::new(), None, None).argv;
        argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words(&agent("codex-acp"), job(true)), "codex-acp -c sandbox_mode=danger-full-access");
    assert_eq!(words(&agent("codex-acp"), job(false)), "codex-acp");
    assert_eq!(words(&agent("codex-acp"), Job { tools: false, ..job(true) }), "codex-acp");
    let settings = AgentSettings { permission_mode: Some("read-only".into()), ..AgentSettings::default() };
    assert_eq!(words(&agent("codex-acp").with_settings(&settings), job(true)), "codex-acp", "the settings say it");
    assert_eq!(words(&agent("claude-code-acp"), job(true)), "claude-code-acp", "it asks");
}
