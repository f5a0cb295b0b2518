//! Why a tree run could not continue.

use super::refusal::Refusal;
use crate::env;
use crate::landing::QueueError;
use git::LandError;
use git::record::{self, EntryError};
use git::workspace::LockError;
use pleach_core::ids::{BranchName, CommitId, InvalidId, TaskId};
use pleach_core::step::TreeName;

/// Why a tree run could not continue. Everything committed and recorded before stays.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A session could not continue.
    #[error(transparent)]
    Session(#[from] env::Error),
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A record could not be read.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// Another run holds the target.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The merge queue could not go on.
    #[error(transparent)]
    Queue(Box<QueueError>),
    /// The target could not be moved to a commit without code.
    #[error("{0}")]
    NotMoved(String),
    /// The progress of the tree could not be read.
    #[error(transparent)]
    Progress(#[from] super::progress::Error),
    /// The target does not exist.
    #[error("there is no branch `{0}`; `git branch` shows what there is")]
    NoTarget(BranchName),
    /// A task needs something that is not approved.
    #[error("{0} changed after you approved this run; approve it again to continue")]
    Unasked(TaskId),
    /// Finished work could not land.
    #[error("{} waits on `{}`: {}", .0.task, .0.branch, .0.why)]
    Refused(Refusal),
    /// The content of an object that a task's work needs does not match its id.
    #[error("{task} cannot continue: {what}; then `pleach reset {task}` to have it done again")]
    Overwritten {
        /// The task.
        task: TaskId,
        /// The object.
        what: git::Error,
    },
    /// The tree has no such task.
    #[error("there is no task `{task}` in {tree}; `pleach status -v` lists the tasks")]
    NoTask {
        /// The tree.
        tree: TreeName,
        /// The requested task.
        task: TaskId,
    },
    /// A task that was done and landed still reads as open.
    #[error(
        "{task} has landed and still reads as {status}{}",
        .because.map(|commit| format!(": {} counts as newer than its steps", commit.short())).unwrap_or_default()
    )]
    StillOpen {
        /// The task.
        task: TaskId,
        /// The status it reads as.
        status: &'static str,
        /// The step that counts as its newest.
        because: Option<CommitId>,
        /// It is a task, not the tests of a phase.
        is_task: bool,
    },
    /// The target's name is too long for the files named after it.
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
        /// The problem.
        why: String,
    },
}

impl From<QueueError> for Error {
    fn from(error: QueueError) -> Self {
        Self::Queue(Box::new(error))
    }
}

impl From<EntryError> for Error {
    fn from(error: EntryError) -> Self {
        QueueError::from(error).into()
    }
}

impl Error {
    /// Adds the task to an error that can be fixed by doing the task again.
    pub(super) fn at(self, task: &TaskId, repo: &git::Repo) -> Self {
        match self {
            Self::Git(error) | Self::Session(env::Error::Git(error)) => match git::diagnose_corruption(repo, error) {
                what @ git::Error::Overwritten { .. } => Self::Overwritten { task: task.clone(), what },
                error => Self::Git(error),
            },
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
