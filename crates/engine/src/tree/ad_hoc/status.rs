//! What became of ad-hoc tasks, read from their step commits: nothing of it is stored with the task.

use std::collections::BTreeMap;
use std::fmt;

use super::store::StoredTask;
use crate::env;
use crate::tree::progress::{self, ProgressReader};
use crate::tree::{self, open_sessions};
use crate::view::Summary;
use git::Repo;
use git::record::History;
use git::workspace::{Lock, LockHolder, branch_ref, task_branch, task_lock};
use pleach_core::budget::Amount;
use pleach_core::ids::{BranchName, CommitId, SessionId, TaskId};
use pleach_core::plan::ad_hoc::AdHocTask;
use pleach_core::progress::{Progress, TaskState, TaskStatus};
use pleach_core::redact::Redactor;
use pleach_core::step::{Feedback, TreeName};

/// Where an ad-hoc task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdHocStatus {
    /// A process works on it.
    Running,
    /// It is finished on its branch and waits to land.
    Finished,
    /// It was begun, and nobody works on it.
    Stopped,
    /// It can start.
    Ready,
    /// It waits for other tasks.
    Blocked,
    /// It was given up.
    Failed,
    /// It is on its target.
    Landed,
    /// A person does not want it any more.
    Cancelled,
}

impl AdHocStatus {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Landed => "landed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether something is left to do: it has neither landed nor been cancelled.
    pub fn is_open(self) -> bool {
        !matches!(self, Self::Landed | Self::Cancelled)
    }

    /// Whether a start would work on it, as long as nobody else does.
    pub fn can_start(self) -> bool {
        matches!(self, Self::Ready | Self::Stopped | Self::Finished)
    }
}

impl fmt::Display for AdHocStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A task another one waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The task.
    pub task: TaskId,
    /// Where it is; none if there is no such task any more.
    pub status: Option<AdHocStatus>,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{} ({status})", self.task),
            None => write!(f, "{} (gone)", self.task),
        }
    }
}

/// An ad-hoc task and what became of it.
#[derive(Debug)]
pub struct TaskView {
    /// The task.
    pub task: AdHocTask,
    /// Where it is.
    pub status: AdHocStatus,
    /// What it waits for.
    pub blockers: Vec<Blocker>,
    /// What its commits say.
    pub state: TaskState,
    /// The session that resumes it.
    pub open_session: Option<SessionId>,
    /// That, or the one that did its newest step.
    pub session: Option<SessionId>,
    /// The process that works on it.
    pub holder: Option<LockHolder>,
    /// Its branch, with its tip if there is one.
    pub branch: Option<(BranchName, Option<CommitId>)>,
    /// Why nothing is known of it: the branch it lands on is gone.
    pub is_astray: bool,
}

/// What became of tasks, in their order. `prefix` is the prefix of pleach's branches, `base` the base branch of the
/// settings.
pub fn view_tasks(
    repo: &Repo,
    tasks: Vec<StoredTask>,
    prefix: &str,
    base: Option<&BranchName>,
) -> Result<Vec<TaskView>, tree::Error> {
    let mut targets: BTreeMap<BranchName, OnTarget> = BTreeMap::new();
    for StoredTask { task, .. } in &tasks {
        if !targets.contains_key(&task.target) {
            targets.insert(task.target.clone(), OnTarget::read(repo, &task.target, prefix, base)?);
        }
    }
    let mut views = Vec::with_capacity(tasks.len());
    for StoredTask { task, .. } in tasks {
        let on = &targets[&task.target];
        let state = on.progress.task(&task.id).clone();
        let holder = Lock::holder(repo.common_dir(), &task_lock(&task.target, &task.id));
        let open = on.sessions.get(&task.id).cloned();
        let branch = task_branch(prefix, &task.target, &task.id).ok();
        let branch = match branch {
            Some(branch) => Some((branch.clone(), repo.refs().find(&branch_ref(&branch))?)),
            None => None,
        };
        let status = status(&task, &state, holder.is_some(), open.is_some());
        let session = open.clone().or_else(|| state.session.clone());
        views.push(TaskView {
            task,
            status,
            blockers: Vec::new(),
            state,
            open_session: open,
            session,
            holder,
            branch,
            is_astray: on.is_gone,
        });
    }
    let known: BTreeMap<TaskId, (AdHocStatus, BranchName)> =
        views.iter().map(|view| (view.task.id.clone(), (view.status, view.task.target.clone()))).collect();
    for view in &mut views {
        let target = view.task.target.clone();
        let on = &targets[&target];
        let is_met = |needed: &TaskId| match known.get(needed) {
            Some((status, needed_target)) => *status == AdHocStatus::Landed && *needed_target == target,
            // Its commits are there though its ref is gone.
            None => on.progress.is_done(needed),
        };
        let open = view.task.depends.iter().filter(|needed| !is_met(needed));
        view.blockers = open
            .map(|task| Blocker { task: task.clone(), status: known.get(task).map(|(status, _)| *status) })
            .collect();
        if view.status == AdHocStatus::Ready && !view.blockers.is_empty() {
            view.status = AdHocStatus::Blocked;
        }
    }
    Ok(views)
}

/// What the next attempt at a task is told: what its session has gathered, else what its commits and records say.
pub fn feedback_of(
    repo: &Repo,
    view: &TaskView,
    redactor: &Redactor,
    prefix: &str,
    base: Option<&BranchName>,
) -> Result<Vec<Feedback>, tree::Error> {
    if view.is_astray || !view.status.is_open() {
        return Ok(Vec::new());
    }
    let resumed = view.open_session.as_ref().and_then(|session| Summary::newest(repo, session).ok()?.state.task);
    if let Some(work) = resumed.filter(|work| !work.feedback.is_empty()) {
        return Ok(work.feedback);
    }
    let progress = ProgressReader::new(repo, &view.task.target, prefix, base).read(&TreeName::Tasks)?;
    Ok(tree::feedback(repo, &progress, redactor, view.state.feedback_steps()))
}

/// What the sessions on a task have spent.
pub fn spent_on(repo: &Repo, task: &TaskId) -> Result<Amount, env::Error> {
    let mut spent = Amount::default();
    for id in History::sessions(repo)? {
        let is_its = History::task_summary(repo, &id).ok().flatten().is_some_and(|summary| summary.task == *task);
        // What cannot be read is reported by the commands on sessions.
        if let Some(summary) = is_its.then(|| Summary::newest(repo, &id).ok()).flatten() {
            spent += summary.spent;
        }
    }
    Ok(spent)
}

/// What a target has of ad-hoc tasks.
#[derive(Default)]
struct OnTarget {
    progress: Progress,
    sessions: BTreeMap<TaskId, SessionId>,
    is_gone: bool,
}

impl OnTarget {
    fn read(repo: &Repo, target: &BranchName, prefix: &str, base: Option<&BranchName>) -> Result<Self, tree::Error> {
        let progress = match ProgressReader::new(repo, target, prefix, base).read(&TreeName::Tasks) {
            Err(progress::Error::NoTarget(_)) => return Ok(Self { is_gone: true, ..Self::default() }),
            progress => progress?,
        };
        let sessions = open_sessions(repo, target, &TreeName::Tasks)?;
        let sessions = sessions.into_iter().map(|open| (open.task, open.session)).collect();
        Ok(Self { progress, sessions, is_gone: false })
    }
}

fn status(task: &AdHocTask, state: &TaskState, is_held: bool, has_session: bool) -> AdHocStatus {
    match state.status {
        TaskStatus::Complete if state.landed => AdHocStatus::Landed,
        _ if is_held => AdHocStatus::Running,
        _ if task.cancelled.is_some() => AdHocStatus::Cancelled,
        TaskStatus::Complete => AdHocStatus::Finished,
        TaskStatus::Failed => AdHocStatus::Failed,
        TaskStatus::Pending if !has_session => AdHocStatus::Ready,
        _ => AdHocStatus::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use pleach_core::ids::RepoName;

    #[test]
    fn the_newest_fact_decides_where_a_task_is() {
        let (repo_name, target) = (RepoName::new("repo").unwrap(), BranchName::new("main").unwrap());
        let task =
            AdHocTask::new("task-aaaaaa".parse().unwrap(), "x", repo_name, target, Timestamp::UNIX_EPOCH).unwrap();
        let mut cancelled = task.clone();
        cancelled.cancelled = Some(Timestamp::UNIX_EPOCH);
        let at = |status, landed| {
            let mut state = TaskState::default();
            (state.status, state.landed) = (status, landed);
            state
        };
        let pending = at(TaskStatus::Pending, false);
        assert_eq!(status(&task, &pending, false, false), AdHocStatus::Ready);
        assert_eq!(status(&task, &pending, false, true), AdHocStatus::Stopped);
        assert_eq!(status(&task, &pending, true, true), AdHocStatus::Running);
        assert_eq!(status(&cancelled, &pending, true, true), AdHocStatus::Running, "until its process has ended");
        assert_eq!(status(&cancelled, &pending, false, true), AdHocStatus::Cancelled);
        assert_eq!(status(&task, &at(TaskStatus::Testing, false), false, false), AdHocStatus::Stopped);
        assert_eq!(status(&task, &at(TaskStatus::Complete, false), false, false), AdHocStatus::Finished);
        assert_eq!(status(&task, &at(TaskStatus::Failed, true), false, false), AdHocStatus::Failed);
        assert_eq!(
            status(&cancelled, &at(TaskStatus::Complete, true), false, false),
            AdHocStatus::Landed,
            "it was too late"
        );
    }
}
