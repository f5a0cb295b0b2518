//! The client's side of a conversation: what to say to an agent, and what to make of its answers. It knows lines only;
//! `session` has the pipes and the clock.

use std::collections::VecDeque;
use std::path::PathBuf;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::policy::{self, PermissionPolicy};
use super::schema::{AuthMethod, Initialized, OpenedSession, Permission, Prompted, SessionUpdate, Update, VERSION};
use super::state::AcpState;
use super::turn_builder::TurnBuilder;
use crate::agent::rpc::{self, AUTH_REQUIRED, INTERNAL, RpcError, RpcMessage};
use crate::agent::{AgentError, End, Turn, TurnVerdict};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::text::listed;

/// How many models or modes a message names.
const NAMED: usize = 12;

/// What an agent is to do.
#[derive(Debug, Clone)]
pub(super) struct AcpTask {
    /// The task.
    pub prompt: String,
    /// Where it works.
    pub cwd: PathBuf,
    /// The servers of its tools.
    pub servers: Vec<Value>,
    /// The session to resume.
    pub resume: Option<AcpState>,
    /// The model it shall use.
    pub model: Option<String>,
    /// The mode it shall work in.
    pub mode: Option<String>,
    /// What it is allowed.
    pub policy: PermissionPolicy,
    /// Whose home its sessions are kept in.
    pub home: &'static str,
    /// What the agent is called until it says so itself.
    pub name: String,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum AcpAction {
    /// Say this.
    Say(Vec<u8>),
    /// A turn is over.
    Turn(Box<Turn>),
    /// The conversation is over.
    End(AcpEnd),
}

/// How a conversation ended.
#[derive(Debug, PartialEq)]
pub(super) enum AcpEnd {
    /// The agent is done.
    Done,
    /// It says that it is done, which only changed files can confirm, for this reason.
    Doubtful(String),
    /// It was asked to stop and did.
    Cancelled,
    /// It came to a limit.
    Limit(String),
    /// It failed.
    Failed(AgentError),
}

impl AcpEnd {
    /// How an agent that ended is to be taken, after what was answered to its last turn.
    pub fn into_end(self, verdict: TurnVerdict) -> Result<End, AgentError> {
        Ok(match self {
            Self::Failed(error) => return Err(error),
            Self::Cancelled => End::Stopped,
            _ if verdict == TurnVerdict::Stop => End::Stopped,
            Self::Done => End::Done,
            Self::Doubtful(why) => End::Doubtful(why),
            Self::Limit(why) => End::Limit(why),
        })
    }

    /// Why the agent's last words are not to be taken for an answer.
    pub fn failed(&self) -> Option<String> {
        match self {
            Self::Done | Self::Doubtful(_) | Self::Limit(_) => None,
            Self::Cancelled => Some("stopped".to_owned()),
            Self::Failed(error) => Some(error.to_string()),
        }
    }
}

/// The answer that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Initialize,
    Authenticate,
    New,
    Load,
    Choice,
    Prompt,
    Nothing,
}

/// One conversation.
#[derive(Debug)]
pub(super) struct AcpClient {
    ask: AcpTask,
    awaited: Awaited,
    last_id: u64,
    can_load: bool,
    logins: Vec<AuthMethod>,
    has_logged_in: bool,
    /// Requests to be made before the task is given.
    choices: VecDeque<(&'static str, Value)>,
    session: Option<String>,
    model: String,
    turn_builder: Option<TurnBuilder>,
    answer: Option<Prompted>,
    is_cancelled: bool,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// The first line that was no message.
    pub noise: Option<String>,
}

impl AcpClient {
    /// A conversation, and the first thing to say.
    pub fn new(ask: AcpTask) -> (Self, Vec<u8>) {
        let mut client = Self {
            model: ask.name.clone(),
            ask,
            awaited: Awaited::Nothing,
            last_id: 0,
            can_load: false,
            logins: Vec::new(),
            has_logged_in: false,
            choices: VecDeque::new(),
            session: None,
            turn_builder: None,
            answer: None,
            is_cancelled: false,
            warnings: Vec::new(),
            noise: None,
        };
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "pleach", "title": "pleach", "version": env!("CARGO_PKG_VERSION")},
        });
        let hello = client.request(Awaited::Initialize, "initialize", params);
        (client, hello)
    }

    /// Whether the agent has been given its task.
    pub fn has_prompted(&self) -> bool {
        self.turn_builder.is_some()
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// What is needed to resume the session later; none when the agent cannot.
    pub fn state(&self) -> Option<Value> {
        let session = self.session.as_ref().filter(|_| self.can_load)?;
        let cost_usd = self.turn_builder.as_ref().map(TurnBuilder::cost).unwrap_or_default();
        Some(AcpState { session: session.clone(), cost_usd, home: self.ask.home.to_owned() }.to_json())
    }

    /// The model, as far as the agent says; else its own name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The agent's newest words.
    pub fn words(&self) -> &str {
        self.turn_builder.as_ref().map(TurnBuilder::words).unwrap_or_default()
    }

    /// Takes in a line.
    pub fn receive(&mut self, line: &str) -> Vec<AcpAction> {
        match rpc::parse(line) {
            RpcMessage::Noise => {
                if self.noise.is_none() && !line.trim().is_empty() {
                    self.noise = Some(line.trim().to_owned());
                }
                Vec::new()
            }
            RpcMessage::Request { id, method, params } => vec![AcpAction::Say(self.answer(&id, &method, params))],
            RpcMessage::Notification { method, params } if method == "session/update" => self.update(params),
            RpcMessage::Notification { .. } => Vec::new(),
            RpcMessage::Response { id, result } if id == json!(self.last_id) && self.awaited != Awaited::Nothing => {
                let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
                match self.handle_response(awaited, result) {
                    Ok(said) => vec![AcpAction::Say(said)],
                    Err(ended) => vec![AcpAction::End(ended)],
                }
            }
            // An answer to nothing that was asked.
            RpcMessage::Response { .. } => Vec::new(),
        }
    }

    /// Asks the agent to stop. It still answers the prompt.
    pub fn cancel(&mut self) -> Option<Vec<u8>> {
        let session = self.session.as_ref().filter(|_| self.awaited == Awaited::Prompt && !self.is_cancelled)?;
        self.is_cancelled = true;
        Some(rpc::notification("session/cancel", json!({"sessionId": session})))
    }

    /// The turn that was in flight at the end; none when the agent was never given its task.
    pub fn last_turn(&mut self, failed: Option<&str>) -> Option<Turn> {
        let answer = self.answer.take();
        let turn = self.turn_builder.as_mut()?.last(answer.as_ref(), failed);
        let warnings = std::mem::take(&mut self.warnings);
        Some(Turn { state_ref: self.state(), warnings, ..turn })
    }

    fn request(&mut self, awaited: Awaited, method: &str, params: Value) -> Vec<u8> {
        self.last_id += 1;
        self.awaited = awaited;
        rpc::request(self.last_id, method, params)
    }

    /// Answers what the agent asks.
    fn answer(&mut self, id: &Value, method: &str, params: Value) -> Vec<u8> {
        if method != "session/request_permission" {
            return rpc::not_offered(id, method);
        }
        let asked = Permission::deserialize(params);
        let result = match &asked {
            Ok(asked) if !self.is_cancelled => self.ask.policy.answer(asked),
            _ => policy::cancelled(),
        };
        // Some agents tell of a tool for the first time here.
        if let (Ok(asked), Some(turn_builder), Awaited::Prompt) = (asked, &mut self.turn_builder, self.awaited) {
            turn_builder.tool(asked.tool_call);
        }
        rpc::answer(id, result)
    }

    fn update(&mut self, params: Value) -> Vec<AcpAction> {
        // While a session is loaded its past is replayed.
        let (Awaited::Prompt, Some(turn_builder)) = (self.awaited, &mut self.turn_builder) else { return Vec::new() };
        let update = SessionUpdate::deserialize(params).map_or(Update::Other, |params| params.update);
        let Some(turn) = turn_builder.take(update) else { return Vec::new() };
        vec![AcpAction::Turn(Box::new(Turn { state_ref: self.state(), ..turn }))]
    }

    /// What is said after an answer.
    fn handle_response(&mut self, awaited: Awaited, result: Result<Value, RpcError>) -> Result<Vec<u8>, AcpEnd> {
        match (awaited, result) {
            (Awaited::Initialize, result) => {
                let answer = result.map_err(|error| failed(format!("cannot talk to the agent: {error}")))?;
                let answer: Initialized = read("initialize", answer)?;
                self.initialized(answer)
            }
            (Awaited::New | Awaited::Load, Err(error)) if error.code == AUTH_REQUIRED && !self.has_logged_in => {
                self.log_in(&error)
            }
            (Awaited::Authenticate, Ok(_)) => Ok(self.open()),
            (Awaited::Authenticate, Err(error)) => Err(logged_out(format!("logging in to the agent failed: {error}"))),
            (Awaited::New, Ok(answer)) => {
                let opened: OpenedSession = read("session/new", answer)?;
                let id = opened.session_id.clone();
                self.session = Some(id.ok_or_else(|| failed("the agent opened a session without an id".into()))?);
                self.choose(opened)
            }
            (Awaited::New, Err(error)) => Err(failed(format!("the agent opens no session: {error}"))),
            (Awaited::Load, Ok(answer)) => {
                self.session = self.ask.resume.as_ref().map(|state| state.session.clone());
                self.choose(OpenedSession::deserialize(answer).unwrap_or_default())
            }
            (Awaited::Load, Err(error)) => {
                let text = format!("the agent could not resume its session and starts a new one: {error}");
                self.warnings.push(WarningCode::AgentCannotResume.with(text));
                self.ask.resume = None;
                Ok(self.open())
            }
            (Awaited::Choice, Ok(_)) => Ok(self.next()),
            (Awaited::Choice, Err(error)) => Err(failed(format!("the agent rejects the settings: {error}"))),
            (Awaited::Prompt, Ok(answer)) => {
                let answer: Prompted = read("session/prompt", answer)?;
                let ended = self.ended(&answer.stop_reason);
                self.answer = Some(answer);
                Err(ended)
            }
            (Awaited::Prompt, Err(error)) if self.is_cancelled => {
                let text = format!("the agent returned an error when it was stopped: {error}");
                self.warnings.push(WarningCode::AgentStopError.with(text));
                Err(AcpEnd::Cancelled)
            }
            (Awaited::Prompt, Err(error)) => {
                let why = format!("the agent gave up: {error}");
                Err(AcpEnd::Failed(match error.code {
                    INTERNAL => AgentError::Transient(why),
                    AUTH_REQUIRED => AgentError::Environment(format!("{why}{LOGIN}")),
                    _ => AgentError::Terminal(why),
                }))
            }
            (Awaited::Nothing, _) => Err(failed("the agent answered a request that was never sent".into())),
        }
    }

    fn initialized(&mut self, answer: Initialized) -> Result<Vec<u8>, AcpEnd> {
        if answer.protocol_version != VERSION {
            let theirs = answer.protocol_version;
            return Err(failed(format!(
                "the agent speaks version {theirs} of the Agent Client Protocol, pleach speaks {VERSION}; use a release of it \
             that matches"
            )));
        }
        self.can_load = answer.agent_capabilities.load_session;
        self.logins = answer.auth_methods;
        if !answer.agent_info.name.is_empty() {
            self.model = answer.agent_info.name;
        }
        if self.ask.resume.is_some() && !self.can_load {
            let text = "the agent cannot resume a session, so it starts a new one";
            self.warnings.push(WarningCode::AgentCannotResume.with(text));
            self.ask.resume = None;
        }
        Ok(self.open())
    }

    fn log_in(&mut self, error: &RpcError) -> Result<Vec<u8>, AcpEnd> {
        self.has_logged_in = true;
        // Of several ways the one with a key needs no browser.
        let by_key = |login: &&AuthMethod| login.id.to_lowercase().replace('_', "-").contains("api-key");
        let login = self.logins.iter().find(by_key).or(self.logins.first());
        let Some(login) = login.map(|login| login.id.clone()) else {
            return Err(logged_out(format!("the agent requires a login: {error}")));
        };
        Ok(self.request(Awaited::Authenticate, "authenticate", json!({"methodId": login})))
    }

    fn open(&mut self) -> Vec<u8> {
        let (cwd, servers) = (self.ask.cwd.to_string_lossy().into_owned(), self.ask.servers.clone());
        match &self.ask.resume {
            Some(AcpState { session, .. }) => {
                let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": servers});
                self.request(Awaited::Load, "session/load", params)
            }
            None => self.request(Awaited::New, "session/new", json!({"cwd": cwd, "mcpServers": servers})),
        }
    }

    /// Asks for the mode and the model the settings name, where the agent offers them.
    fn choose(&mut self, opened: OpenedSession) -> Result<Vec<u8>, AcpEnd> {
        let session = json!(self.session);
        if let Some(mode) = &self.ask.mode {
            let modes: Vec<&str> = opened.modes.available_modes.iter().map(|mode| mode.id.as_str()).collect();
            if !modes.contains(&mode.as_str()) {
                return Err(not_offered("permission mode", mode, &modes));
            }
            self.choices.push_back(("session/set_mode", json!({"sessionId": session, "modeId": mode})));
        }
        let option = opened.config_options.iter().find(|option| option.category == "model");
        let current =
            opened.models.current_model_id.as_ref().or(option.and_then(|option| option.current_value.as_ref()));
        if let Some(current) = current {
            self.model.clone_from(current);
        }
        if let Some(model) = &self.ask.model {
            let offered: Vec<&str> =
                opened.models.available_models.iter().map(|model| model.model_id.as_str()).collect();
            let values = option.map(|option| &option.options).into_iter().flatten();
            let values: Vec<&str> = values.map(|value| value.value.as_str()).collect();
            if offered.contains(&model.as_str()) {
                self.choices.push_back(("session/set_model", json!({"sessionId": session, "modelId": model})));
            } else if let Some(option) = option.filter(|_| values.contains(&model.as_str())) {
                let params = json!({"sessionId": session, "configId": option.id, "value": model});
                self.choices.push_back(("session/set_config_option", params));
            } else {
                let all: Vec<&str> = offered.into_iter().chain(values).collect();
                return Err(not_offered("model", model, &all));
            }
            self.model.clone_from(model);
        }
        Ok(self.next())
    }

    /// Makes the next choice, or gives the task.
    fn next(&mut self) -> Vec<u8> {
        if let Some((method, params)) = self.choices.pop_front() {
            return self.request(Awaited::Choice, method, params);
        }
        let prompt = self.ask.prompt.clone();
        let before = self.ask.resume.as_ref().map(|state| state.cost_usd).unwrap_or_default();
        self.turn_builder = Some(TurnBuilder::new(prompt.clone(), self.model.clone(), before));
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": prompt}]});
        self.request(Awaited::Prompt, "session/prompt", params)
    }

    fn ended(&self, reason: &str) -> AcpEnd {
        match reason {
            "end_turn" => AcpEnd::Done,
            "cancelled" if self.is_cancelled => AcpEnd::Cancelled,
            "cancelled" => AcpEnd::Failed(AgentError::Transient("the agent stopped by itself".into())),
            "max_tokens" => AcpEnd::Limit("the agent's answer was cut off at its token limit".into()),
            "max_turn_requests" => AcpEnd::Limit("the agent was not done after as many turns as it may take".into()),
            "refusal" => failed("the agent refuses to work on this task".into()),
            other => failed(format!("the agent stopped for a reason this version does not know: `{other}`")),
        }
    }
}

/// What to do about an agent that does not let one in.
const LOGIN: &str = "; log in with the agent's own program first";

fn failed(why: String) -> AcpEnd {
    AcpEnd::Failed(AgentError::Terminal(why))
}

fn logged_out(why: String) -> AcpEnd {
    AcpEnd::Failed(AgentError::Environment(format!("{why}{LOGIN}")))
}

fn not_offered(what: &str, wanted: &str, offered: &[&str]) -> AcpEnd {
    failed(match offered {
        [] => format!("the agent has no {what} to choose, so it cannot use `{wanted}`"),
        _ => format!("the agent has no {what} `{wanted}`; it has {}", listed(offered, NAMED)),
    })
}

/// Reads an answer.
fn read<T: serde::de::DeserializeOwned>(method: &str, answer: Value) -> Result<T, AcpEnd> {
    serde_json::from_value(answer).map_err(|error| {
        failed(format!("the agent's answer to `{method}` does not follow the Agent Client Protocol: {error}"))
    })
}
