//! The one vocabulary of the program. Engine, records, renderers and tests all speak [`Event`].
//!
//! An event is a fact that happened in a session. Records hold events in order; [`crate::state`] folds them.
//! The JSON shape of each is fixed (`docs/records.md`): fields are only ever added, and a reader keeps the fields it
//! does not know in `extra`.

mod budget;
mod task;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

pub use budget::{BudgetExceeded, PriceUnknown, SideCall};
pub use task::{AttemptStarted, Commits, Feedback, FeedbackKind, Landed, Landing, StepFinished, TaskOf};

use crate::ids::{BranchName, CommitId, NodeId, PipelineName, RepoName, RepoPath, TurnId};

/// The version this program writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// Fields of a newer writer, kept so that rewriting a record loses nothing.
pub type Extra = Map<String, Value>;

/// A commit for each repository of the workspace.
pub type Snapshot = BTreeMap<RepoName, CommitId>;

/// An event and when it happened, as records hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When it happened, to the millisecond.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// Why a recorded event could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Written by a newer pleach.
    #[error(
        "event `{kind}` has version {version}, this pleach reads up to {VERSION}; install a newer pleach to read this session"
    )]
    Newer {
        /// The event's type.
        kind: String,
        /// The version it was written with.
        version: u32,
    },
    /// The JSON does not have the shape of its type.
    #[error("event `{kind}` cannot be read")]
    Malformed {
        /// The event's type.
        kind: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A fact of a session.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $($(#[$doc])* $name($name),)+
            /// A type this pleach does not know; kept as it is, without effect on the state.
            Unknown {
                /// The type as written.
                kind: String,
                /// The data as written.
                data: Value,
            },
        }

        $(impl From<$name> for Event {
            fn from(data: $name) -> Self {
                Self::$name(data)
            }
        })+

        impl Event {
            /// The type as records name it: `dev.orchestra.AgentTurn`.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => concat!("dev.orchestra.", stringify!($name)),)+
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// The event's data as JSON.
            pub fn data(&self) -> Value {
                serde_json::to_value(self).expect("event data are structs with text keys, which always serialise")
            }

            /// Whether it only repeats what events before it have told: such an event holds nothing new that would
            /// have to be kept from the record, and grows with the run.
            pub fn is_derived(&self) -> bool {
                matches!(self, Self::Checkpoint(_))
            }

            fn from_data(kind: String, data: Value) -> Result<Self, EventError> {
                let read = match kind.as_str() {
                    $(concat!("dev.orchestra.", stringify!($name)) => serde_json::from_value(data).map(Self::$name),)+
                    _ => return Ok(Self::Unknown { kind, data }),
                };
                read.map_err(|source| EventError::Malformed { kind, source })
            }
        }

        /// As its data.
        impl Serialize for Event {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(data) => data.serialize(serializer),)+
                    Self::Unknown { data, .. } => data.serialize(serializer),
                }
            }
        }
    };
}

events! {
    /// The session began: everything needed to run it again.
    PipelineStarted,
    /// A later process took the session up again.
    Resumed,
    /// The session's branch exists.
    SessionBranchCreated,
    /// The session's working copy exists.
    WorktreeCreated,
    /// A node's handler was started.
    NodeStarted,
    /// An agent finished one model call and the tools it asked for.
    AgentTurn,
    /// A limit of the budget was reached.
    BudgetExceeded,
    /// A model's tokens count, and their price is not known.
    PriceUnknown,
    /// A tool node's command ran.
    ToolExecution,
    /// The session branch carries a turn's commit.
    TurnCommitted,
    /// A person (or what stood in for one) answered a gate.
    HumanInteraction,
    /// A node finished an attempt: its outcome and where the run goes from there.
    NodeExecution,
    /// The next attempt of a node is due at a time.
    RetryAt,
    /// The run stands between two nodes.
    Checkpoint,
    /// The commits the workspace stood at, at a checkpoint that changed them.
    SnapshotRecorded,
    /// The next pass through a task's pipeline begins.
    AttemptStarted,
    /// A step of a task ended, and this is its commit.
    StepFinished,
    /// The target is about to move over a task's commits.
    Landing,
    /// The target has moved.
    Landed,
    /// The run stopped and can be resumed.
    PipelinePaused,
    /// The run reached its exit.
    PipelineCompleted,
    /// The run ended without reaching its goal.
    PipelineFailed,
    /// The run was called off.
    PipelineCancelled,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    at: Timestamp,
    data: Value,
}

/// Writes a time with its three digits of milliseconds, zeros included; with more where it has more.
pub fn to_the_millisecond<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = at.subsec_nanosecond() % 1_000_000 == 0;
    if whole { serializer.collect_str(&format_args!("{at:.3}")) } else { at.serialize(serializer) }
}

impl Serialize for Recorded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            version: u32,
            #[serde(serialize_with = "to_the_millisecond")]
            at: Timestamp,
            data: &'a Event,
        }
        Written { kind: self.event.kind(), version: VERSION, at: self.at, data: &self.event }.serialize(serializer)
    }
}

impl Recorded {
    /// The JSON object records hold.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("events are structs with text keys, which always serialise")
    }

    /// What [`Recorded::to_json`] gives, as text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("events are structs with text keys, which always serialise")
    }

    /// Reads what [`Recorded::to_json`] wrote.
    pub fn from_json(json: Value) -> Result<Self, EventError> {
        let malformed = |source| EventError::Malformed { kind: "?".into(), source };
        let envelope: Envelope = serde_json::from_value(json).map_err(malformed)?;
        if envelope.version > VERSION {
            return Err(EventError::Newer { kind: envelope.kind, version: envelope.version });
        }
        Ok(Self { at: envelope.at, event: Event::from_data(envelope.kind, envelope.data)? })
    }
}

/// See [`Event::PipelineStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineStarted {
    /// The pipeline's name as branches and trailers have it.
    pub name: PipelineName,
    /// The graph's goal after expansion.
    pub goal: String,
    /// The DOT file, byte for byte.
    pub dot: String,
    /// Where the DOT file was read from, for messages only.
    pub dot_path: String,
    /// Files the DOT file names (`@file` prompts), by the name it uses.
    pub files: BTreeMap<String, String>,
    /// `k=v` inputs.
    pub inputs: BTreeMap<String, String>,
    /// The resolved configuration, without keys and machine paths.
    pub config: Value,
    /// Where each repository stood.
    pub base: Snapshot,
    /// The session branch of each repository.
    pub branches: BTreeMap<RepoName, BranchName>,
    /// The branch the user had checked out, where there was one: what a finished run is merged into.
    pub target: Option<BranchName>,
    /// No agent was configured: agent nodes only pretend.
    #[serde(default)]
    pub simulated: bool,
    /// The task of a tree it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskOf>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::Resumed`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::SessionBranchCreated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionBranchCreated {
    /// The repository.
    pub repo: RepoName,
    /// Its session branch.
    pub branch: BranchName,
    /// The commit it starts at.
    pub base: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::WorktreeCreated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorktreeCreated {
    /// The repository.
    pub repo: RepoName,
    /// The working copy's name inside the session: `main`, or the parallel agent's.
    pub name: String,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::NodeStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStarted {
    /// The node.
    pub node_id: NodeId,
    /// How often the run has come to the node, from 1.
    pub visit: u32,
    /// The attempt within the visit, from 1.
    pub attempt: u32,
    /// The handler's type: `codergen`, `tool`, …
    pub handler: String,
    /// The commits the working copies stood at.
    pub base: Snapshot,
    /// The handler was interrupted, cannot continue and begins again from `base`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_over: bool,
    /// How much of the run so far an agent node is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<String>,
    /// The conversation an agent node goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Tokens of one or more model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// All tokens, in and out.
    pub fn total(&self) -> u64 {
        [self.cache_read, self.cache_write, self.output].into_iter().fold(self.input, u64::saturating_add)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// Messages of a context by number, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRange {
    /// The first message's number.
    pub first: u64,
    /// The last message's number.
    pub last: u64,
}

/// A tool an agent used in a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id in the conversation.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it was given.
    pub arguments: Value,
    /// Whether the tool answered with an error.
    pub is_error: bool,
}

/// See [`Event::AgentTurn`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTurn {
    /// The turn's id.
    pub turn: TurnId,
    /// Its number alone.
    pub turn_number: u64,
    /// The node it belongs to.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// The kind of agent: `builtin`, `command`, …
    pub agent: String,
    /// The model, as the agent names it.
    pub model: String,
    /// The provider of the model.
    pub provider: String,
    /// The messages that are new in this turn.
    pub messages: Option<MessageRange>,
    /// The tools it used.
    pub tool_calls: Vec<ToolCall>,
    /// The paths whose content changed.
    pub files_written: BTreeMap<RepoName, Vec<RepoPath>>,
    /// What it cost in tokens.
    pub token_usage: Usage,
    /// What it cost in dollars, where that is known.
    pub cost_usd: Option<f64>,
    /// Model calls beside the agent's own, such as the one for the commit's message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_calls: Vec<SideCall>,
    /// The turn's commit, or null when no file changed.
    pub git_sha: Option<Snapshot>,
    /// The agent's own HEAD, when it committed by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_head: Option<Snapshot>,
    /// The commit's message without its trailers.
    pub commit_message: Option<String>,
    /// How the turn's end was found: `exact` or `inferred`.
    pub boundary: String,
    /// What the agent needs to go on after this turn.
    pub agent_state_ref: Option<Value>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::ToolExecution`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolExecution {
    /// The turn the run took.
    pub turn: TurnId,
    /// Its number alone.
    pub turn_number: u64,
    /// The node.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// The command line.
    pub command: String,
    /// How it ended, for people: `exit 0`, `signal 9`, `timed out after 5s`.
    pub exit: String,
    /// How long it took.
    pub duration_ms: u64,
    /// The message that holds its output.
    pub output: Option<u64>,
    /// The paths whose content changed.
    pub files_written: BTreeMap<RepoName, Vec<RepoPath>>,
    /// The commit, or null when no file changed.
    pub git_sha: Option<Snapshot>,
    /// The commit's message without its trailers.
    pub commit_message: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::TurnCommitted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnCommitted {
    /// The turn.
    pub turn: TurnId,
    /// The repository.
    pub repo: RepoName,
    /// The branch that carries it.
    pub branch: BranchName,
    /// The commit.
    pub git_sha: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::HumanInteraction`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanInteraction {
    /// The gate.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// What was asked.
    pub question: String,
    /// The choices, by the label shown.
    pub options: Vec<String>,
    /// The choice taken, or free text.
    pub answer: String,
    /// Where the answer came from: `console`, `file`, `auto-approve`, `default`.
    pub source: String,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How a node's attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Status {
    /// It did what it was asked to.
    Success,
    /// It did part of it, which the node accepts.
    PartialSuccess,
    /// It asks to be run again.
    Retry,
    /// It failed.
    Fail,
    /// It was passed over; what came before stands.
    Skipped,
    /// A word of the pipeline's own, for its conditions; goes on like a success, but satisfies no goal gate.
    Custom(String),
}

impl Status {
    /// The word conditions compare with.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Success => "success",
            Self::PartialSuccess => "partial_success",
            Self::Retry => "retry",
            Self::Fail => "fail",
            Self::Skipped => "skipped",
            Self::Custom(word) => word,
        }
    }

    /// Whether a goal gate is content with it.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success | Self::PartialSuccess)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<Status> for String {
    fn from(status: Status) -> String {
        status.as_str().to_owned()
    }
}

/// An outcome without a word in it.
#[derive(Debug, thiserror::Error)]
#[error("an outcome must be a word like success, fail, retry or partial_success")]
pub struct EmptyStatus;

impl TryFrom<String> for Status {
    type Error = EmptyStatus;
    fn try_from(text: String) -> Result<Self, EmptyStatus> {
        // Agents also shout. A `FAIL` taken for a word of the pipeline's own would go on like a success.
        match text.trim().to_ascii_lowercase().as_str() {
            "" => Err(EmptyStatus),
            "success" | "succeeded" => Ok(Self::Success),
            "partial_success" => Ok(Self::PartialSuccess),
            "retry" => Ok(Self::Retry),
            "fail" | "failed" => Ok(Self::Fail),
            "skipped" => Ok(Self::Skipped),
            _ => Ok(Self::Custom(text.trim().to_owned())),
        }
    }
}

/// Whether trying again may help after a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureClass {
    /// The network, a rate limit, a provider's bad day.
    Transient,
    /// Anything else.
    #[default]
    Terminal,
}

impl FailureClass {
    fn is_terminal(&self) -> bool {
        *self == Self::Terminal
    }
}

/// What a node's handler answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The edge label it would like to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_label: Option<String>,
    /// The nodes it would like to go to, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_next_ids: Vec<String>,
    /// What it wants the rest of the run to know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_updates: BTreeMap<String, Value>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Whether a failure may pass by itself.
    #[serde(default, skip_serializing_if = "FailureClass::is_terminal")]
    pub failure_class: FailureClass,
}

impl Outcome {
    /// An outcome with this status and nothing else.
    pub fn of(status: Status) -> Self {
        Self {
            status,
            preferred_label: None,
            suggested_next_ids: Vec::new(),
            context_updates: BTreeMap::new(),
            notes: None,
            failure_reason: None,
            failure_class: FailureClass::Terminal,
        }
    }

    /// Success.
    pub fn success() -> Self {
        Self::of(Status::Success)
    }

    /// Failure that trying again will not mend.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self { failure_reason: Some(reason.into()), ..Self::of(Status::Fail) }
    }

    /// Failure that may pass by itself.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self { failure_class: FailureClass::Transient, ..Self::fail(reason) }
    }

    /// A request to be run again.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { failure_reason: Some(reason.into()), ..Self::of(Status::Retry) }
    }
}

/// Where the run goes after a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Route {
    /// Along an edge.
    Edge {
        /// The next node.
        to: NodeId,
    },
    /// To a retry target, because the node failed and no edge takes failures.
    FailureTarget {
        /// The next node.
        to: NodeId,
    },
    /// Back from the exit, because a goal gate is not satisfied.
    GateRetry {
        /// The gate.
        gate: NodeId,
        /// The next node.
        to: NodeId,
    },
    /// Along a `loop_restart` edge: the run begins again at this node with a fresh context.
    Restart {
        /// The next node.
        to: NodeId,
    },
    /// The same node once more; a `RetryAt` says when.
    Retry,
    /// The run is complete.
    Complete,
    /// The run has failed.
    Fail {
        /// Why.
        reason: String,
    },
}

/// See [`Event::NodeExecution`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeExecution {
    /// The node.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Where the run goes from here.
    pub route: Route,
    /// How long it took.
    pub duration_ms: u64,
    /// The message with the prompt an agent was given.
    pub prompt: Option<u64>,
    /// The message with its last answer.
    pub response: Option<u64>,
    /// The trees the working copies ended with, by which a run that goes in circles is noticed.
    #[serde(default)]
    pub trees: Snapshot,
    /// What a person should know: files held back, changes outside the working copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::RetryAt`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryAt {
    /// The node.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt that comes.
    pub attempt: u32,
    /// When it is due.
    #[serde(serialize_with = "to_the_millisecond")]
    pub at: Timestamp,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::Checkpoint`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The node just completed.
    pub current_node: NodeId,
    /// All nodes completed, in order.
    pub completed_nodes: Vec<NodeId>,
    /// The newest outcome of each node.
    pub node_outcomes: BTreeMap<NodeId, Status>,
    /// What the nodes have told each other.
    pub context: BTreeMap<String, Value>,
    /// Retries used by each node in its newest visit.
    pub node_retries: BTreeMap<NodeId, u32>,
    /// How often the run has come to each node.
    pub visits: BTreeMap<NodeId, u32>,
    /// The node that comes next, none at the end.
    pub next_node: Option<NodeId>,
    /// Where the session branches stand, when that has changed since the last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_snapshot: Option<Snapshot>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::SnapshotRecorded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRecorded {
    /// Where the session branches stand.
    pub workspace_snapshot: Snapshot,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PipelinePaused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelinePaused {
    /// Why.
    pub reason: PauseReason,
    /// The node it stopped in, if it stopped inside one.
    pub node_id: Option<NodeId>,
    /// The reason in words, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The user interrupted it.
    Interrupted,
    /// A gate waits for a person and nobody could be asked.
    WaitsForPerson,
    /// A limit of the budget was reached.
    OverBudget,
}

/// See [`Event::PipelineCompleted`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineCompleted {
    /// Where the session branches ended.
    pub workspace_snapshot: Snapshot,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PipelineFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineFailed {
    /// Why.
    pub reason: String,
    /// The node it failed in.
    pub node_id: Option<NodeId>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PipelineCancelled`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineCancelled {
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
