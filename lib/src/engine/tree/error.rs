//! Why a run over a tree could not go on.

use super::refusal::Refusal;
use crate::git::{self, LandError};
use crate::ids::{BranchName, CommitId, InvalidId, TaskId};
use crate::workspace::LockError;
use crate::{engine, record};

/// Why a run over a tree could not go on. What was committed and recorded before stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A session could not go on.
    #[error(transparent)]
    Session(#[from] engine::Error),
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A record could not be read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// Another run has the target.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The target could not be moved over a step that brings no work.
    #[error("{0}")]
    NotMoved(String),
    /// The state could not be read.
    #[error(transparent)]
    Progress(#[from] super::progress::Error),
    /// The target is not there.
    #[error("there is no branch `{0}`; `git branch` shows what there is")]
    NoTarget(BranchName),
    /// A task would be worked with something that nobody was asked about.
    #[error("{0} changed after you approved this run; approve it again to continue")]
    Unasked(TaskId),
    /// Finished work could not land.
    #[error("{} waits on `{}`: {}", .0.task, .0.branch, .0.why)]
    Refused(Refusal),
    /// An object a task's work needs is not what its id says.
    #[error("{task} cannot continue: {what}; then `pleach reset {task}` to have it done again")]
    Overwritten {
        /// The task.
        task: TaskId,
        /// Which object.
        what: git::Error,
    },
    /// Nothing to be decided about.
    #[error("`{tree}` has no task `{task}`; `pleach status -v` lists the tasks")]
    NoTask {
        /// The tree's file.
        tree: String,
        /// What was asked for.
        task: TaskId,
    },
    /// What a run has done and landed is not read as done.
    #[error(
        "{task} has landed and still reads as {status}{}",
        .because.map(|commit| format!(": {} counts as newer than its steps", commit.short())).unwrap_or_default()
    )]
    StillOpen {
        /// The task.
        task: TaskId,
        /// What it reads as.
        status: &'static str,
        /// The step that counts as its newest.
        because: Option<CommitId>,
        /// It is a task, and not the tests of a phase.
        is_task: bool,
    },
    /// Files are named after the target, and no file can have such a name.
    #[error("the name of the branch `{0}` is too long to name files after")]
    LongName(BranchName),
    /// A name gives no valid branch.
    #[error(transparent)]
    Name(#[from] InvalidId),
    /// The pipeline of a task cannot be used.
    #[error("the pipeline `{path}` of task {task} cannot be used: {why}")]
    Pipeline {
        /// Its file.
        path: String,
        /// The task.
        task: TaskId,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// What ended the work on a task, with the task where it can be done again.
    pub(super) fn at(self, task: &TaskId, repo: &git::Repo) -> Self {
        match self {
            Self::Git(error) | Self::Session(engine::Error::Git(error)) => {
                match git::diagnose_corruption(repo, error) {
                    what @ git::Error::Overwritten { .. } => Self::Overwritten { task: task.clone(), what },
                    error => Self::Git(error),
                }
            }
            other => other,
        }
    }
}

impl From<LandError> for Error {
    fn from(error: LandError) -> Self {
        match error {
            LandError::Git(error) => Self::Git(error),
            error => Self::NotMoved(error.without_work()),
        }
    }
}
