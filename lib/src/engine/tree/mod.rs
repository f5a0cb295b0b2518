//! Runs task trees: one task after another, each in a session on a branch of its own, landed on the target when it
//! ends. What is done is read from the step commits of the target and of the branches ahead of it.

mod attempts;
mod begin;
mod bookkeeping;
mod branches;
mod changed;
mod delete_branches;
mod edited;
mod failed_attempts;
mod feedback;
mod land;
mod logs;
mod loop_guard;
mod mark;
mod pending_trust;
mod phase;
mod plan;
mod planning;
pub mod progress;
mod pump;
mod refusal;
mod run;
mod spending;
mod step_cache;
mod step_scan;
mod testing;
mod trust;
mod unfinished;

pub use edited::Stamp;
pub use feedback::told;
pub use logs::{Log, logs, report};
pub use mark::{Mark, Marked, Marking, Prepared};
pub use pending_trust::{Brought, Start};
pub use phase::as_merged_now;
pub use plan::{TaskPipeline, TreePlan};
pub use planning::{PlanError, Planner, planner_node};
pub use refusal::{First, Refusal, RefusalCode};
pub use run::{TreeEnded, TreeRun, begun_again, check_target, target_lock};
pub use unfinished::{Left, has_landed, left};

use crate::engine;
use crate::git::{self, LandError};
use crate::ids::{BranchName, CommitId, InvalidId, TaskId};
use crate::record;
use crate::workspace::LockError;

/// The built-in pipeline of a task.
pub const TASK_PIPELINE: &str = include_str!("../../../pipelines/task.dot");

/// The built-in pipeline of a phase's tests.
pub const GATE_PIPELINE: &str = include_str!("../../../pipelines/gate.dot");

/// The attributes settings put into the pipelines of tasks: who works a step, with which model, and for how long.
pub const STEP_ATTRIBUTES: [&str; 3] = ["agent", "llm_model", "timeout"];

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
    Progress(#[from] progress::Error),
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
    fn at(self, task: &TaskId, repo: &git::Repo) -> Self {
        match self {
            Self::Git(error) | Self::Session(engine::Error::Git(error)) => match repo.blame(error) {
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
