//! Runs sessions: the only loop, and the only place that changes anything.
//!
//! [`Session::run`] asks [`crate::route::next`] what to do, hands nodes to a worker, and records what the worker
//! reports before anything else happens. Workers scan and write objects; refs, records and the folded state belong
//! to the loop alone.

mod bounds;
mod broadcast;
mod budget;
mod cancel;
mod context;
mod executor;
mod export;
mod fork;
mod human;
pub mod landing;
mod locks;
mod orphans;
mod pause;
mod pool;
mod preamble;
mod pump;
mod remove;
mod resume;
mod run;
mod secret_check;
mod session;
mod spawned;
mod start;
pub mod status_file;
mod supervisor;
pub mod task;
pub mod tree;
mod truster;
mod view;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

pub use broadcast::{Broadcast, Subscription};
pub use budget::{Budget, BudgetVerdict, PlannerBudget, Uncounted, UnmeteredAgent, Unpriced};
pub use cancel::LOOK;
pub use executor::{AgentWork, Assignment, Conversation, Executor, Job, Offered, Recording, Start, Watch, Work};
pub use export::ExportError;
pub use human::{Answer, AutoApprove, Choice, Given, Interviewer, Judged, NoChoice, Nobody, Prepared, Question, Reply};
pub use locks::{Copy, lock_name, wait_for_orphans};
pub use orphans::{Leftover, Places};
pub use remove::{Obstacle, Removal, RemoveError, Step};
pub use resume::{recorded_pipeline, recorded_state};
pub use run::Ended;
pub use session::{Session, SessionPlan};
pub use spawned::SpawnedRun;
pub use start::{OnOpen, StartRequest};
pub use supervisor::Supervisor;
pub use truster::{AgreesToAll, Truster};
pub use view::{
    CostsRead, Deed, Milestone, Moment, NoSession, NodeFailure, Sessions, Standing, Summary, Turn, View, costs,
    resolve_session, session_worktrees,
};

use crate::agent::{BoxFuture, NoAgent, Roster, Scribe};
use crate::config::Attribution;
use crate::event::{Outcome, PauseReason};
use crate::git;
use crate::ids::{NodeId, SessionId};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{HandlerKind, Node, Pipeline};
use crate::process::sandbox::Policy;
use crate::process::{Cancel, SpawnError};
use crate::record;
use crate::redact::Redactor;
use crate::state::IllegalEvent;
use crate::workspace::{self, LockError, WorktreeSettings};

/// The directory beside a session's working copy in which its nodes leave their status files, which are of no use when a
/// node has ended, and where agents find what earlier nodes answered and printed.
const RUN_DIR: &str = "run";

/// What runs need from outside.
pub struct Engine {
    /// What this session or tree shares with others of the process.
    pub supervisor: Arc<Supervisor>,
    /// How working copies are made.
    pub worktrees: WorktreeSettings,
    /// Finds the agent of a node.
    pub agents: Roster,
    /// Answers gates.
    pub interviewer: Box<dyn Interviewer>,
    /// Handlers of the embedding program, by `type`. They win over built-in ones.
    pub handlers: BTreeMap<String, Arc<dyn Handler>>,
    /// Writes the messages of turns' commits, in place of the agent's own words.
    pub scribe: Option<Scribe>,
    /// What agents, tools and tests may touch; everything if not given.
    pub sandbox: Option<Policy>,
    /// How many characters of a failed command's output the next agent is told.
    pub output_chars: usize,
    /// What may be spent.
    pub budget: Budget,
    /// What commits say about the agent beyond their trailers.
    pub attribution: Attribution,
    /// Takes secrets out of records.
    pub redactor: Redactor,
    /// Tells what happens.
    pub events: Broadcast,
    /// Stops the run.
    pub cancel: Cancel,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("supervisor", &self.supervisor).finish_non_exhaustive()
    }
}

impl Engine {
    /// Whether an agent works on a node.
    fn is_of_agent(&self, node: &Node) -> bool {
        node.handler == HandlerKind::Codergen && !self.handlers.contains_key(node.handler.as_str())
    }
}

/// What a handler of the embedding program is given.
#[derive(Debug, Clone)]
pub struct HandlerContext {
    /// The node, with all its attributes.
    pub node: Node,
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// How often the run has come to the node.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// What the nodes have told each other.
    pub context: BTreeMap<String, Value>,
    /// The working copy.
    pub cwd: PathBuf,
    /// Stops the handler.
    pub cancel: Cancel,
}

/// A handler registered by the embedding program.
pub trait Handler: Send + Sync {
    /// Runs the node. What it changes in the working copy is committed as the node's turn; a panic is a failure.
    fn run(&self, context: HandlerContext) -> BoxFuture<'_, Outcome>;
}

impl fmt::Debug for dyn Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

/// Why a session could not go on. What was recorded before stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A record could not be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A working copy could not be used.
    #[error(transparent)]
    Workspace(#[from] workspace::Error),
    /// A limit counts what nobody can read.
    #[error(transparent)]
    Uncounted(#[from] Uncounted),
    /// Another process has it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The record contradicts itself.
    #[error(transparent)]
    State(#[from] IllegalEvent),
    /// A program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The pipeline cannot be run.
    #[error("the pipeline has errors")]
    Invalid {
        /// What is wrong with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// The pipeline contains the value of a secret, and everything in a record can be pushed.
    #[error(
        "{what} contains the value of `{variable}`, and nothing secret is recorded; take it out and read it from the environment instead, or run pleach without `{variable}` if it is no secret"
    )]
    Secret {
        /// Where it was found.
        what: String,
        /// The variable whose value it is.
        variable: String,
    },
    /// The pipeline contains what looks like a token.
    #[error(
        "{what} contains what looks like a token, and nothing secret is recorded; take it out and read it from the environment instead"
    )]
    Token {
        /// Where it was found.
        what: String,
    },
    /// The session has ended.
    #[error("session {session} has ended: {phase}")]
    Over {
        /// The session.
        session: SessionId,
        /// What it is.
        phase: &'static str,
    },
    /// A session was to start again at a node it has not come to.
    #[error("session {session} has not reached node `{node}`; it can restart at {visited}")]
    NotVisited {
        /// The session.
        session: SessionId,
        /// The node.
        node: NodeId,
        /// Those it has come to, in words.
        visited: String,
    },
    /// The session's record is another than the one somebody has agreed to.
    #[error("the record of session {session} was changed by another process")]
    Replaced {
        /// The session.
        session: SessionId,
    },
    /// The setup command failed.
    #[error("the setup command `{command}` of session {session} failed ({exit}):\n{output}")]
    Setup {
        /// The session, which can be resumed.
        session: SessionId,
        /// The command.
        command: String,
        /// How it ended.
        exit: String,
        /// The end of what it printed.
        output: String,
    },
    /// The session was interrupted before it began to work.
    #[error("session {session} was interrupted while its worktree was set up")]
    Interrupted {
        /// The session, which can be resumed.
        session: SessionId,
    },
    /// The session was called off before it began to work. Who called it off records that.
    #[error("session {session} was cancelled while its worktree was set up")]
    CalledOff {
        /// The session.
        session: SessionId,
    },
    /// A gate was answered with something that is not among its choices.
    #[error("`{answer}` is not a choice at gate `{node}` (choices: {choices})")]
    UnknownAnswer {
        /// The gate.
        node: NodeId,
        /// What was answered.
        answer: String,
        /// What could have been.
        choices: String,
    },
    /// A gate was answered with something that fits several of its choices.
    #[error("`{answer}` matches more than one choice at gate `{node}`: {fitting}")]
    AmbiguousAnswer {
        /// The gate.
        node: NodeId,
        /// What was answered.
        answer: String,
        /// What it could mean.
        fitting: String,
        /// What of a choice says which one is meant.
        tells_apart: &'static str,
    },
    /// The branch prefix gives no valid branch name.
    #[error("{0}; change `branch_prefix` of the repository in pleach.yaml")]
    Name(String),
    /// A recorded message cannot be read.
    #[error("message {number} of the record cannot be read")]
    Message {
        /// Its number.
        number: u64,
        /// Why not.
        source: serde_json::Error,
    },
    /// A node has no agent to run it.
    #[error("`{node}` cannot run: {source}")]
    Agent {
        /// The node.
        node: NodeId,
        /// What is missing.
        source: NoAgent,
    },
    /// The agent of a node cannot work before somebody has seen to something.
    #[error("`{node}` cannot continue: {why}")]
    Environment {
        /// The node.
        node: NodeId,
        /// What is wrong, and how to mend it.
        why: String,
    },
    /// The worker ended without a word, which is a mistake of this program.
    #[error("the worker of `{node}` ended without a result: {why}")]
    Worker {
        /// The node.
        node: NodeId,
        /// What is known.
        why: String,
    },
}

/// Why a session stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Why.
    pub reason: PauseReason,
    /// The node it stopped in.
    pub node: Option<NodeId>,
    /// The reason in words, where there is more to say.
    pub why: Option<String>,
    /// What a person is asked, when it waits for one.
    pub question: Option<Box<Question>>,
}

impl Pause {
    /// An interruption between two pieces of work.
    pub(crate) fn interrupted() -> Self {
        Self { reason: PauseReason::Interrupted, node: None, why: None, question: None }
    }
}
