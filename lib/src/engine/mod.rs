//! Runs sessions: the only loop, and the only place that changes anything.
//!
//! [`Session::run`] asks [`crate::route::next`] what to do, hands nodes to a worker, and records what the worker
//! reports before anything else happens. Workers scan and write objects; refs, records and the folded state belong
//! to the loop alone.

mod assignment;
mod bounds;
mod branch;
mod budget;
mod call_off;
mod export;
mod human;
pub mod landing;
mod leftover;
mod locks;
mod node;
mod pause;
mod pool;
mod preamble;
mod recording;
mod remove;
mod resume;
mod run;
mod start;
pub mod status_file;
pub mod task;
pub mod tree;
mod unsecret;
mod view;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

pub use branch::Behind;
pub use budget::{Budget, Purse, Uncounted, Unheld, Unpriced};
pub use call_off::CALL_OFF;
pub use export::ExportError;
pub use human::{Answer, AutoApprove, Choice, Given, Interviewer, Judged, NoChoice, Nobody, Prepared, Question, Reply};
pub use leftover::{Leftover, Places};
pub use locks::{Copy, lock_name, outwait_orphans};
pub use pause::PAUSE;
pub use remove::{Obstacle, Removal, RemoveError, Step};
pub use resume::{recorded_pipeline, recorded_state};
pub use run::Ended;
pub use start::{OnOpen, StartRequest};
pub use view::{
    CostsRead, Deed, Milestone, Moment, NoSession, NodeFailure, Sessions, Standing, Summary, Turn, View, costs,
    resolve_session, session_worktrees,
};

use self::budget::Earlier;
use self::locks::Locks;
use crate::agent::{BoxFuture, NoAgent, Roster, Scribe, WaitListener};
use crate::budget::Exceeded;
use crate::config::Attribution;
use crate::event::{Outcome, PauseReason, PipelineStarted, Recorded, Warning};
use crate::git;
use crate::git::{Repo, TreeId};
use crate::ids::{CommitId, NodeId, SessionId};
use crate::llm::Message;
use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{HandlerKind, Node, Pipeline};
use crate::process::sandbox::Policy;
use crate::process::{Cancel, SpawnError, Spawner};
use crate::record::{self, Recorder};
use crate::redact::Redactor;
use crate::state::{IllegalEvent, State};
use crate::workspace::{self, LockError, WorkingCopy, WorktreeSettings};

/// The directory beside a session's working copy in which its nodes leave their status files, which are of no use when a
/// node has ended, and where agents find what earlier nodes answered and printed.
const RUN_DIR: &str = "run";

/// Is told every event once it is on disk.
pub type Observer<'a> = &'a mut (dyn FnMut(&Recorded) + Send);

/// Is told what an agent says and which tools it asks for as soon as it is known, before it is recorded.
pub type Listener = Arc<dyn Fn(&NodeId, &Message) + Send + Sync>;

/// What runs need from outside.
pub struct Engine {
    /// Starts programs.
    pub spawner: Spawner,
    /// Where machine-local state lives; everything below may be deleted.
    pub state_dir: PathBuf,
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
    /// Hears what agents say.
    pub listener: Option<Listener>,
    /// Hears what agents wait for.
    pub waits: Option<WaitListener>,
    /// Stops the run.
    pub cancel: Cancel,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

impl Engine {
    /// Lets whoever listens hear what an agent said, without secrets.
    fn announce(&self, node: &NodeId, messages: &[Message]) {
        let Some(listener) = &self.listener else { return };
        for message in messages {
            let Ok(mut clean) = serde_json::to_value(message) else { continue };
            self.redactor.json(&mut clean);
            if let Ok(message) = serde_json::from_value(clean) {
                listener(node, &message);
            }
        }
    }

    /// Lets whoever listens hear what an agent waits for, without secrets.
    fn waits(&self) -> Option<WaitListener> {
        let (listener, redactor) = (self.waits.clone()?, self.redactor.clone());
        Some(WaitListener::new(move |why| listener.tell(why.map(|why| redactor.text(why)).as_deref())))
    }

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

/// A session this process may write to.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// What it was started with.
    pub started: PipelineStarted,
    /// What it runs.
    pub pipeline: Arc<Pipeline>,
    /// What has become of it.
    pub state: State,
    engine: Arc<Engine>,
    repo: Repo,
    recorder: Recorder,
    copy: Option<WorkingCopy>,
    locks: Locks,
    /// What is folded and not yet written.
    unwritten: Option<recording::Unwritten>,
    /// The tree of the newest step, and what it is without logs and reports.
    code: Option<(TreeId, CommitId)>,
    /// Events that were recorded before anybody could observe them.
    unseen: Vec<Recorded>,
    /// What each node answered or printed in its newest visit, with the number of the message; read from the record when a
    /// node first needs it.
    answers: BTreeMap<NodeId, (Option<u64>, String)>,
    /// The conversations nodes with full fidelity go on with, likewise.
    threads: BTreeMap<String, Vec<Message>>,
    /// The messages of the node that was interrupted.
    interrupted: Vec<Message>,
    /// What is on record of a node that starts over.
    recorded: Option<assignment::Recording>,
    /// A session that was resumed tells its first agent a summary instead of the whole conversation.
    degrade: bool,
    events_since_state: usize,
    /// How large the state was when it was kept last.
    kept_state_bytes: usize,
    start_node: NodeId,
    /// The task it works on, in a tree.
    job: Option<Arc<task::TaskJob>>,
    /// What sessions before it in the same run have spent.
    earlier: Earlier,
    /// The limit that has stopped it.
    over: Option<Exceeded>,
    /// Its branch could not follow the record.
    behind: Option<Behind>,
    /// A checkout has followed the branch, which the working copy does not know yet.
    followed: bool,
    /// What a person should know and was not told yet.
    warnings: Vec<Warning>,
}

/// A session that was just made or found, before anything is done with it.
struct Opened {
    id: SessionId,
    started: PipelineStarted,
    pipeline: Pipeline,
    state: State,
    start_node: NodeId,
    recorder: Recorder,
    locks: Locks,
}

impl Session {
    fn new(engine: Arc<Engine>, repo: Repo, opened: Opened) -> Self {
        let Opened { id, started, pipeline, state, start_node, recorder, locks } = opened;
        Self {
            id,
            started,
            pipeline: Arc::new(pipeline),
            state,
            engine,
            repo,
            recorder,
            copy: None,
            locks,
            unwritten: None,
            code: None,
            unseen: Vec::new(),
            answers: BTreeMap::new(),
            threads: BTreeMap::new(),
            interrupted: Vec::new(),
            recorded: None,
            degrade: false,
            events_since_state: 0,
            kept_state_bytes: 0,
            start_node,
            job: None,
            earlier: Earlier::default(),
            over: None,
            behind: None,
            followed: false,
            warnings: Vec::new(),
        }
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
    #[error("session {session} has not come to node `{node}`; it can start again at {visited}")]
    NotVisited {
        /// The session.
        session: SessionId,
        /// The node.
        node: NodeId,
        /// Those it has come to, in words.
        visited: String,
    },
    /// The session's record is another than the one somebody has agreed to.
    #[error("the record of session {session} was changed meanwhile")]
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
    #[error("session {session} was interrupted while its working copy was set up")]
    Interrupted {
        /// The session, which can be resumed.
        session: SessionId,
    },
    /// The session was called off before it began to work. Who called it off records that.
    #[error("session {session} was called off while its working copy was set up")]
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
    #[error("`{answer}` fits more than one choice of gate `{node}`: {fitting}")]
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
    #[error("`{node}` cannot go on: {why}")]
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
