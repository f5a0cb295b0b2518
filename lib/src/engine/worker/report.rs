//! What a worker reports: turns, and how its node ended.

use std::time::Duration;

use serde_json::Value;

use crate::budget::Allowance;
use crate::engine::budget::BudgetVerdict;
use crate::engine::task::StepReport;
use crate::engine::{self, NoChoice};
use crate::event::{AgentTurn, HumanInteraction, Outcome, PauseReason, ToolExecution, Warning};
use crate::ids::RepoName;
use crate::workspace::{Changes, Error};

/// A turn to be recorded.
#[derive(Debug)]
pub(crate) struct TurnReport {
    /// The turn; its message numbers are filled in when it is recorded.
    pub turn: AgentTurn,
    /// When it ended.
    pub at: jiff::Timestamp,
    /// Its new messages.
    pub messages: Vec<Value>,
    /// What it changed.
    pub changes: Changes,
}

/// What the loop answers once a turn is on disk.
#[derive(Debug)]
pub(crate) struct TurnAnswer {
    /// The changes, to be taken as the new state of the worktrees.
    pub changes: Changes,
    /// Whether to go on.
    pub verdict: BudgetVerdict,
    /// What may be spent from now on.
    pub allowance: Allowance,
    /// The repositories with a checkout that has followed the branch.
    pub followed: Vec<RepoName>,
}

/// What a worker tells the loop.
#[derive(Debug)]
pub(crate) enum WorkerReport {
    /// A turn ended. The worker waits for the answer.
    Turn(Box<TurnReport>),
    /// The node ended.
    Done(Box<NodeFinished>),
    /// The worker broke, which is a mistake of this program.
    Lost(String),
}

/// How a node ended.
#[derive(Debug)]
pub(crate) struct NodeFinished {
    /// The outcome, or why there is none.
    pub result: Result<Outcome, Stopped>,
    /// What goes into the record with it.
    pub effect: Effect,
    /// How long it took.
    pub duration: Duration,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    /// The answer of an agent.
    pub response: Option<String>,
    /// What the agent's program said beside its answers.
    pub stderr: String,
    /// What is to be told of the step of a task it stands for.
    pub step: Option<StepReport>,
    /// Its agent was told to stop and had not come to its end.
    pub cut_short: bool,
}

impl NodeFinished {
    /// An end of which there is nothing more to say.
    pub fn of(result: Result<Outcome, Stopped>) -> Self {
        Self {
            result,
            effect: Effect::None,
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
    /// The run is to pause here.
    Paused(PauseReason),
    /// The agent could not work, for reasons outside of the job. What it left is this failure, where the run can go on
    /// with it; else the node has not been worked on, and somebody has to see to those reasons first.
    Environment(Box<Outcome>),
    /// The gate's answer is none of its choices.
    NoAnswer(String, NoChoice),
    /// The worktree cannot be used.
    Broken(Error),
    /// Nobody could begin: what is to be done cannot be made out, or the worktrees cannot be set up again.
    Unable(Box<engine::Error>),
}

/// What goes into the record of a node's end.
#[derive(Debug, Default)]
pub(crate) enum Effect {
    /// Nothing further.
    #[default]
    None,
    /// A command ran.
    Tool(Box<ToolEffect>),
    /// A gate was answered.
    Human(Box<HumanInteraction>),
    /// An agent left changes behind after its last turn.
    Leftover(Box<TurnReport>),
}

/// A command that ran, and what it changed.
#[derive(Debug)]
pub(crate) struct ToolEffect {
    /// The run; its message number is filled in when it is recorded.
    pub tool: ToolExecution,
    /// Its output, as a message.
    pub output: Value,
    /// What it changed.
    pub changes: Changes,
}

/// What a command printed, as the record has it.
pub(in crate::engine) fn output_message(output: &str) -> Value {
    serde_json::json!({"role": "tool", "content": [{"type": "text", "text": output}]})
}
