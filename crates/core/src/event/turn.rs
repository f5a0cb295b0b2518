//! What agents and tools did, and what it cost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, Snapshot};
use crate::ids::{BranchName, CommitId, NodeId, RepoName, RepoPath, TurnId};

/// Tokens of one or more model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Those of them that are kept for an hour, which costs more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
    /// Searches of the web the provider made for the model, which are paid for one by one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub web_searches: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
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
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.web_searches = self.web_searches.saturating_add(other.web_searches);
    }
}

impl std::ops::Sub for Usage {
    type Output = Self;

    /// What was used since.
    fn sub(self, before: Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            cache_write_1h: self.cache_write_1h.saturating_sub(before.cache_write_1h),
            output: self.output.saturating_sub(before.output),
            reasoning: self.reasoning.saturating_sub(before.reasoning),
            web_searches: self.web_searches.saturating_sub(before.web_searches),
        }
    }
}

/// A model call beside those of a turn's own conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideCall {
    /// What it was for: `commit_message`, …
    pub purpose: String,
    /// The model.
    pub model: String,
    /// The model's provider.
    pub provider: String,
    /// What it cost in tokens.
    pub token_usage: Usage,
    /// What it cost in dollars, where that is known.
    pub cost_usd: Option<f64>,
    /// Whether some of it is estimated, where the provider did not say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
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

/// See [`Event::AgentTurn`](super::Event::AgentTurn).
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
    /// Whether some of it is estimated, where the provider did not say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Whether it is not billed by the token, because a login pays for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unbilled: bool,
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
    /// What the agent needs to continue after this turn.
    pub agent_state_ref: Option<Value>,
    /// Whether nothing of the agent ran any more when it was recorded: only then its answer is its last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::ToolExecution`](super::Event::ToolExecution).
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

/// See [`Event::TurnCommitted`](super::Event::TurnCommitted).
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
