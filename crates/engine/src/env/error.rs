//! Why a session could not continue.

use super::Uncounted;
use crate::merging;
use agents::agent::NoAgent;
use git::record::{self, NoCut};
use git::workspace::{self, LockError};
use os::process::SpawnError;
use pleach_core::ids::{CommitId, NodeId, RepoName, RepoPath, RunId, SessionId};
use pleach_core::plan::diagnostic::Diagnostic;
use pleach_core::state::IllegalEvent;

/// Why a session could not continue. Everything recorded before stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A record could not be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A worktree could not be used.
    #[error(transparent)]
    Workspace(#[from] workspace::Error),
    /// A limit counts an unreadable record.
    #[error(transparent)]
    Uncounted(#[from] Uncounted),
    /// Another process holds the lock.
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
    #[error("session {run} has ended: {phase}")]
    Over {
        /// The run.
        run: RunId,
        /// How it ended.
        phase: &'static str,
    },
    /// The run has ended at the point it was to go on from.
    #[error("nothing follows there: run {run} had ended")]
    NothingFollows {
        /// The run.
        run: RunId,
    },
    /// A replay cannot go on in its pipeline.
    #[error("the pipeline does not fit: {why}")]
    PipelineUnfit {
        /// Why.
        why: String,
    },
    /// The history has no such point.
    #[error(transparent)]
    NoCut(#[from] NoCut),
    /// What a return goes back to is in no record before it.
    #[error("record {to}, which the run goes back to, is not before that in its history")]
    NoSuchPoint {
        /// The record.
        to: CommitId,
    },
    /// The code of a point is not in this clone.
    #[error("the repository `{repo}` lacks commit {commit}, or files of it")]
    CommitMissing {
        /// The repository.
        repo: RepoName,
        /// The commit.
        commit: CommitId,
        /// What git says.
        source: Box<git::Error>,
    },
    /// A repository of the session is not open.
    #[error("session {session} also works in the repository `{repo}`, which `workspace.repos` does not have")]
    RepoMissing {
        /// The session.
        session: SessionId,
        /// The name of the repository.
        repo: RepoName,
    },
    /// A restart was requested at a node the session has not reached.
    #[error("session {run} has not reached node `{node}`; it can restart at {visited}")]
    NotVisited {
        /// The run.
        run: RunId,
        /// The node.
        node: NodeId,
        /// The visited nodes, for the message.
        visited: String,
    },
    /// The session's record is not the one that was approved.
    #[error("the record of session {run} was changed by another process")]
    Replaced {
        /// The run.
        run: RunId,
    },
    /// Another machine has continued the session: its remote has records that are not from here.
    #[error(
        "{remote} has records of session {run} that are not from here: another machine has continued it; this run has stopped"
    )]
    ContinuedElsewhere {
        /// The run.
        run: RunId,
        /// The remote, without a password.
        remote: String,
    },
    /// The setup command failed.
    #[error("the setup command `{command}` of session {run} failed ({exit}):\n{output}")]
    Setup {
        /// The run, which can be resumed.
        run: RunId,
        /// The command.
        command: String,
        /// How the command ended.
        exit: String,
        /// The end of its output.
        output: String,
    },
    /// The session was interrupted before it began to work.
    #[error("session {run} was interrupted while its worktree was set up")]
    Interrupted {
        /// The run, which can be resumed.
        run: RunId,
    },
    /// The session was cancelled before it began to work. The canceller records that.
    #[error("session {run} was cancelled while its worktree was set up")]
    Cancelled {
        /// The run.
        run: RunId,
    },
    /// A gate was answered with something that is not among its choices.
    #[error("`{answer}` is not a choice at gate `{node}` (choices: {choices})")]
    UnknownAnswer {
        /// The gate.
        node: NodeId,
        /// The answer.
        answer: String,
        /// The choices of the gate.
        choices: String,
    },
    /// A gate was answered with something that matches several of its choices.
    #[error("`{answer}` matches more than one choice at gate `{node}`: {fitting}")]
    AmbiguousAnswer {
        /// The gate.
        node: NodeId,
        /// The answer.
        answer: String,
        /// The choices it matches.
        fitting: String,
        /// What distinguishes these choices.
        tells_apart: &'static str,
    },
    /// A gate was answered before the conflicts it was given were resolved.
    #[error("{} before `{node}` was answered", merging::left_words(paths))]
    ConflictsLeft {
        /// The gate.
        node: NodeId,
        /// The files.
        paths: Vec<RepoPath>,
    },
    /// The branch prefix gives no valid branch name.
    #[error("{0}; change `branch_prefix` of the repository in pleach.yaml")]
    Name(String),
    /// A recorded message cannot be read.
    #[error("message {number} of the record cannot be read")]
    Message {
        /// Its number.
        number: u64,
        /// The cause.
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
    /// The agent of a node cannot work until the user fixes its environment.
    #[error("`{node}` cannot continue: {why}")]
    Environment {
        /// The node.
        node: NodeId,
        /// The problem, and how to fix it.
        why: String,
    },
    /// The worker ended without a result, which is a bug in pleach.
    #[error("the worker of `{node}` ended without a result: {why}")]
    Worker {
        /// The node.
        node: NodeId,
        /// What is known about it.
        why: String,
    },
}
