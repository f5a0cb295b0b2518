//! Reports of a worker: turns, and the end of its node.

use std::time::Duration;

use serde_json::Value;

use crate::env::{self, BudgetVerdict, NoChoice};
use crate::session::task::StepReport;
use git::workspace::{Changes, Error};
use os::process::SpawnError;
use pleach_core::budget::Allowance;
use pleach_core::event::{AgentTurn, Event, HumanInteraction, Outcome, PauseReason, ToolExecution, Warning};
use pleach_core::ids::{RepoName, RepoPath};

/// A turn to record.
#[derive(Debug)]
pub(crate) struct TurnReport {
    /// The turn; its message numbers are filled in when it is recorded.
    pub turn: AgentTurn,
    /// When it ended.
    pub at: jiff::Timestamp,
    /// Its new messages.
    pub messages: Vec<Value>,
    pub changes: Changes,
}

/// The loop's answer once a turn is on disk.
#[derive(Debug)]
pub(crate) struct TurnAnswer {
    /// The changes, which become the new state of the worktrees.
    pub changes: Changes,
    /// Whether to continue.
    pub verdict: BudgetVerdict,
    /// The remaining allowance.
    pub allowance: Allowance,
    /// Repositories whose checkout followed the branch.
    pub followed: Vec<RepoName>,
}

/// A message from a worker to the loop.
#[derive(Debug)]
pub(crate) enum WorkerReport {
    /// A turn ended. The worker waits for the answer.
    Turn(Box<TurnReport>),
    /// The node ended.
    Done(Box<NodeFinished>),
    /// The worker panicked, which is a bug in pleach.
    Lost(String),
}

/// The end of a node.
#[derive(Debug)]
pub(crate) struct NodeFinished {
    /// The outcome, or why there is none.
    pub result: Result<Outcome, Stopped>,
    /// What is recorded with it.
    pub effect: Effect,
    /// The branches that were brought together.
    pub joined: Option<Box<JoinReport>>,
    pub duration: Duration,
    pub warnings: Vec<Warning>,
    pub response: Option<String>,
    /// The standard error of the agent's program.
    pub stderr: String,
    /// The report of the node's step of a task.
    pub step: Option<StepReport>,
    /// Its agent was told to stop before it had ended, or it may not run here: a failure ends the run.
    pub cut_short: bool,
}

impl NodeFinished {
    /// An end with nothing but a result.
    pub fn of(result: Result<Outcome, Stopped>) -> Self {
        Self {
            result,
            effect: Effect::None,
            joined: None,
            duration: Duration::ZERO,
            warnings: Vec::new(),
            response: None,
            stderr: String::new(),
            step: None,
            cut_short: false,
        }
    }
}

/// Why a node has no outcome.
#[derive(Debug)]
pub enum Stopped {
    /// The run pauses here.
    Paused(PauseReason),
    /// The agent could not work, for reasons outside of the job. If the run can continue with it, this failure is the
    /// outcome; otherwise the node counts as not run, and the user has to fix the cause first.
    Environment(Box<Outcome>),
    /// A command was not started, which says nothing about it. The node counts as not run, whatever would follow its
    /// failure, and the user has to fix the cause first.
    NotStarted(SpawnError),
    /// The gate's answer is not one of its choices.
    NoAnswer(String, NoChoice),
    /// A gate was answered while files were in conflict.
    Unresolved(Vec<RepoPath>),
    /// The worktree cannot be used.
    Broken(Error),
    /// The work could not start: it cannot be derived, or the worktrees cannot be set up again.
    Unable(Box<env::Error>),
}

/// What is recorded with a node's end.
#[derive(Debug, Default)]
pub(crate) enum Effect {
    /// Nothing.
    #[default]
    None,
    /// A command ran.
    Tool(Box<ToolEffect>),
    /// A gate was answered.
    Human(Box<HumanEffect>),
    /// An agent left changes after its last turn.
    Leftover(Box<TurnReport>),
}

impl Effect {
    /// The changes it brings, which are not recorded yet.
    pub fn changes_mut(&mut self) -> Option<&mut Changes> {
        match self {
            Self::None => None,
            Self::Tool(tool) => Some(&mut tool.changes),
            Self::Human(human) => human.changes.as_mut(),
            Self::Leftover(report) => Some(&mut report.changes),
        }
    }
}

/// A command and its changes.
#[derive(Debug)]
pub(crate) struct ToolEffect {
    /// The run; its message number is filled in when it is recorded.
    pub tool: ToolExecution,
    /// Its output, as a message.
    pub output: Value,
    pub changes: Changes,
}

/// An answered gate.
#[derive(Debug)]
pub(crate) struct HumanEffect {
    /// The answer.
    pub answer: HumanInteraction,
    /// What the person changed in the worktrees, where that was theirs to do.
    pub changes: Option<Changes>,
}

/// Branches that were brought together.
#[derive(Debug)]
pub(crate) struct JoinReport {
    /// What is recorded of it.
    pub events: Vec<Event>,
    /// The merge commits. The worktrees have their files.
    pub changes: Changes,
}

/// A command's output, as recorded.
pub(crate) fn output_message(output: &str) -> Value {
    serde_json::json!({"role": "tool", "content": [{"type": "text", "text": output}]})
}
