//! Why a session could not go on.

use super::Uncounted;
use crate::agent::NoAgent;
use crate::ids::{NodeId, SessionId};
use crate::plan::diagnostic::Diagnostic;
use crate::process::SpawnError;
use crate::state::IllegalEvent;
use crate::workspace::{self, LockError};
use crate::{git, record};

/// Why a session could not go on. What was recorded before stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A record could not be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A worktree could not be used.
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
    /// The session was cancelled before it began to work. Who called it off records that.
    #[error("session {session} was cancelled while its worktree was set up")]
    Cancelled {
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
