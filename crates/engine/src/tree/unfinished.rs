//! The sessions of earlier runs: which exist, and which can be resumed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Error;
use crate::env::lock_name;
use git::Repo;
use git::record::History;
use git::workspace::{Lock, branch_ref};
use pleach_core::event::{PipelineStarted, TaskOf};
use pleach_core::ids::{BranchName, CommitId, SessionId, TaskId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::plan::{self, GATE_PIPELINE, Inputs};
use pleach_core::state::{Phase, State};
use pleach_core::step::TreeName;

/// A session a run may resume, with its pipeline: the one it was started with, which may not be in this clone.
#[derive(Debug)]
pub struct OpenSession {
    /// The session.
    pub session: SessionId,
    /// Its task.
    pub task: TaskId,
    /// Where its pipeline was read from, for messages.
    pub path: String,
    /// Its pipeline as recorded, before variables are expanded.
    pub pipeline: Pipeline,
    /// What its agents would see first: its newest commit, and the files overlaid on it.
    pub at: Vec<CommitId>,
}

impl OpenSession {
    /// The session of a record; `None` for the tests of a phase, which start over, and for a session that is unreadable
    /// or cannot be resumed.
    pub(super) fn of(history: &History, state: &State) -> Option<Self> {
        let started = &history.started;
        let task = started.task.as_ref().filter(|_| !is_gate(started))?.id.clone();
        // As written: that is what gets approved, whatever the name of its task.
        let inputs = Inputs { files: started.files.clone(), values: BTreeMap::new() };
        let pipeline = plan::load_for_tasks(&started.dot, &inputs).0?;
        let laid =
            state.task.as_ref().and_then(|task| task.attempt.as_ref()?.laid).filter(|_| state.work == state.base);
        let at = state.work.values().chain(started.base.values()).take(1).copied().chain(laid).collect();
        Some(Self { session: history.session.clone(), task, path: started.dot_path.clone(), pipeline, at })
    }
}

/// A session as found at the start of a run.
#[derive(Debug, Clone)]
pub(super) struct Unfinished {
    pub id: SessionId,
    /// The first record, with the content that was approved.
    pub first: CommitId,
    /// It was submitted for approval.
    pub given: bool,
}

/// Whether a session runs the tests of a phase, judged by its pipeline alone. Its node today does not tell: a phase may
/// have become a task since, or a task a phase. Nothing else in a record is trusted, because it may have been fetched:
/// the pipeline of such a session is not submitted for approval, and only the built-in one needs none.
pub(super) fn is_gate(started: &PipelineStarted) -> bool {
    started.dot == GATE_PIPELINE
}

/// The unfinished session of a task, if it has not landed and was not cancelled.
pub(super) fn open_session_of(
    repo: &Repo,
    target: &BranchName,
    tree: &TreeName,
    task: &TaskId,
) -> Result<Option<SessionId>, Error> {
    Ok(open_histories(repo, target, tree)?.remove(task).map(|history| history.session))
}

/// The sessions a tree run could resume, for callers that do not hold the target: a run that does finds fewer.
pub fn open_sessions(repo: &Repo, target: &BranchName, tree: &TreeName) -> Result<Vec<OpenSession>, Error> {
    let open = open_histories(repo, target, tree)?;
    Ok(open.values().filter_map(|history| OpenSession::of(history, &state_of(history).ok()?)).collect())
}

/// The unfinished sessions of a tree's tasks that have not landed and were not cancelled.
fn open_histories(repo: &Repo, target: &BranchName, tree: &TreeName) -> Result<BTreeMap<TaskId, History>, Error> {
    let open = Before::of(repo, target, |_| true)?.open.into_iter().filter(|history| is_of(history, tree)).collect();
    newest_of_each(open, |history, _| Ok(state_of(history).is_ok_and(|state| state.phase != Phase::Cancelled)))
}

/// Creates the branches of tasks worked on in another clone if only the records were fetched: the record is the truth,
/// and a branch follows it. If a branch is missing in the clone that worked on the task, it was removed there.
pub(super) fn bring_branches(repo: &Repo, target: &BranchName) -> Result<(), Error> {
    // A session that another run starts has its lock before its record.
    let is_elsewhere = |id: &SessionId| !Lock::exists(repo.common_dir(), &lock_name(id));
    let mut elsewhere = Before::of(repo, target, is_elsewhere)?.open;
    // If a task has several sessions, the newest gets the branch.
    elsewhere.sort_by_key(|history| Reverse(history.started_at));
    for history in elsewhere {
        let Ok(state) = state_of(&history) else { continue };
        let has_steps = state.task.as_ref().is_some_and(|task| task.landed.is_none() && task.status.is_some());
        let Some(task) = &history.started.task else { continue };
        let tip = state.on_branches().get(&task.repo).copied();
        let (Some(tip), Some(branch)) = (tip, history.started.branches.get(&task.repo)) else { continue };
        let name = branch_ref(branch);
        if has_steps && state.phase != Phase::Cancelled && repo.refs().find(&name)?.is_none() {
            repo.refs().swap(&name, None, tip, "pleach: as recorded").map_err(git::Error::from)?;
        }
    }
    Ok(())
}

/// The existing sessions on tasks.
pub(super) struct Before {
    /// The records of unlanded sessions on a target.
    pub(super) open: Vec<History>,
    /// The landed sessions, on any target.
    pub(super) landed: Vec<(TaskId, SessionId)>,
}

impl Before {
    /// The existing sessions among those wanted.
    pub(super) fn of(repo: &Repo, target: &BranchName, wanted: impl Fn(&SessionId) -> bool) -> Result<Self, Error> {
        let mut before = Self { open: Vec::new(), landed: Vec::new() };
        for id in History::sessions(repo)?.into_iter().filter(wanted) {
            // An unreadable session cannot be resumed; the session commands report what is wrong with it.
            let Ok(Some(summary)) = History::task_summary(repo, &id) else { continue };
            if summary.landed.is_some() {
                before.landed.push((summary.task, id));
                continue;
            }
            let Ok(history) = History::newest(repo, &id) else { continue };
            if history.started.task.as_ref().is_some_and(|task| task.target == *target) {
                before.open.push(history);
            }
        }
        Ok(before)
    }
}

/// Whether a session works on a task of a tree.
fn is_of(history: &History, tree: &TreeName) -> bool {
    history.started.task.as_ref().is_some_and(|task| tree.is_named(&task.tree, &task.id))
}

/// The newest session of each task, among those that pass.
pub(super) fn newest_of_each(
    open: Vec<History>,
    passes: impl Fn(&History, &TaskOf) -> Result<bool, Error>,
) -> Result<BTreeMap<TaskId, History>, Error> {
    let mut found: BTreeMap<TaskId, History> = BTreeMap::new();
    for history in open {
        let Some(task) = &history.started.task else { continue };
        let newer = found.get(&task.id).is_none_or(|other| other.started_at < history.started_at);
        if passes(&history, task)? && newer {
            found.insert(task.id.clone(), history);
        }
    }
    Ok(found)
}

pub(super) fn state_of(history: &History) -> Result<State, Error> {
    let pipeline = crate::view::recorded_pipeline(&history.started)?;
    Ok(crate::view::recorded_state(history, &pipeline)?)
}
