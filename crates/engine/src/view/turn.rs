//! The timeline of a session: turns and checkpoints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{AnswerView, NodeFailure};
use pleach_core::budget::Amount;
use pleach_core::event::{Event, MessageRange, Recorded, Snapshot, Status, ToolCall, Usage};
use pleach_core::ids::{CommitId, ContextId, NodeId, RepoName, RepoPath, TurnId};

/// The work of one turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Deed {
    /// An agent called its model once and ran the tools it asked for.
    Agent {
        /// The kind of agent.
        agent: String,
        /// The model.
        model: String,
        /// The model's provider.
        provider: String,
        /// The tokens it used.
        tokens: Usage,
        /// The cost in dollars, if known.
        cost_usd: Option<f64>,
        /// Whether it is not billed by the token.
        unbilled: bool,
        /// The tools it called.
        tool_calls: Vec<ToolCall>,
    },
    /// A tool node's command ran.
    Tool {
        /// The command line.
        command: String,
        /// How it ended.
        exit: String,
        /// How long it took.
        duration_ms: u64,
    },
}

/// One turn of a session: an agent's, or a tool node's run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnView {
    /// Its id.
    pub turn: TurnId,
    /// When it ended.
    pub at: Timestamp,
    /// The node it belongs to.
    pub node: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// The work done.
    #[serde(flatten)]
    pub deed: Deed,
    /// The paths whose content changed.
    pub files: BTreeMap<RepoName, Vec<RepoPath>>,
    /// Its commit, if a file changed.
    pub commit: Option<Snapshot>,
    /// The commit's message without trailers.
    pub message: Option<String>,
    /// Its new messages.
    pub messages: Option<MessageRange>,
    /// Why its attempt failed, if this is the last turn of a failed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<NodeFailure>,
    /// The run was forked from another one after it, whose turn it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// The run has gone back behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

impl TurnView {
    /// The model, or `tool`.
    pub fn model(&self) -> &str {
        match &self.deed {
            Deed::Agent { model, .. } => model,
            Deed::Tool { .. } => "tool",
        }
    }

    /// Its tokens; zero for a tool.
    pub fn tokens(&self) -> Usage {
        match &self.deed {
            Deed::Agent { tokens, .. } => *tokens,
            Deed::Tool { .. } => Usage::default(),
        }
    }

    /// The number of changed paths.
    pub fn changed(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// Its commit in a repository.
    pub fn commit_in(&self, repo: &RepoName) -> Option<CommitId> {
        self.commit.as_ref()?.get(repo).copied()
    }

    /// What an event tells of one, if it does.
    pub fn read(recorded: &Recorded) -> Option<Self> {
        let spent = match &recorded.event {
            Event::AgentTurn(data) => Amount::of_turn(data),
            _ => Amount::default(),
        };
        match &recorded.event {
            Event::AgentTurn(data) => Some(Self {
                turn: data.turn.clone(),
                at: recorded.at,
                node: data.node_id.clone(),
                visit: data.visit,
                attempt: data.attempt,
                deed: Deed::Agent {
                    agent: data.agent.clone(),
                    model: data.model.clone(),
                    provider: data.provider.clone(),
                    tokens: spent.tokens,
                    cost_usd: spent.known_usd().filter(|_| spent.unpriced == 0),
                    unbilled: data.unbilled,
                    tool_calls: data.tool_calls.clone(),
                },
                files: data.files_written.clone(),
                commit: data.git_sha.clone(),
                message: data.commit_message.clone(),
                messages: data.messages,
                failure: None,
                inherited: false,
                left: false,
            }),
            Event::ToolExecution(data) => Some(Self {
                turn: data.turn.clone(),
                at: recorded.at,
                node: data.node_id.clone(),
                visit: data.visit,
                attempt: data.attempt,
                deed: Deed::Tool {
                    command: data.command.clone(),
                    exit: data.exit.clone(),
                    duration_ms: data.duration_ms,
                },
                files: data.files_written.clone(),
                commit: data.git_sha.clone(),
                message: data.commit_message.clone(),
                messages: data.output.map(|number| MessageRange { first: number, last: number }),
                failure: None,
                inherited: false,
                left: false,
            }),
            _ => None,
        }
    }
}

/// A checkpoint between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Milestone {
    /// When it was recorded.
    pub at: Timestamp,
    /// The context that recorded it.
    pub context: ContextId,
    /// The node just completed.
    pub node: NodeId,
    /// How it ended.
    pub outcome: Option<Status>,
    /// The next node; `None` at the end.
    pub next_node: Option<NodeId>,
    /// The commits of the session at that point.
    pub commit: Snapshot,
    /// The record that holds the checkpoint.
    pub record: CommitId,
    /// The run has gone back behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// A turn, a failed attempt, an answer, or a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// A turn.
    Turn(Box<TurnView>),
    /// An attempt failed.
    Failure(NodeFailure),
    /// A gate was answered.
    Answer(AnswerView),
    /// A checkpoint.
    Checkpoint(Milestone),
}
