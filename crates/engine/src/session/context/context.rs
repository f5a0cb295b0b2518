//! The parts of a context.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PendingRecord;
use super::memory::Memory;
use crate::env::{Engine, Error};
use crate::session::session_plan::SessionPlan;
use git::record::Recorder;
use git::workspace::{self, BranchFollower, Lock, WorkingCopy, Workspace};
use git::{Repo, TreeId};
use pleach_core::event::{Notification, Recorded, TaskOf, Warning};
use pleach_core::ids::{CommitId, ContextId, NodeId, RepoName};
use pleach_core::state::{State, TaskWork};
use pleach_core::step::AttemptNumber;

/// A chain of records that this process may write to.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its name within the session.
    pub id: ContextId,
    /// The folded state. A worker holds the state from when its node started.
    pub state: Arc<State>,
    pub(crate) plan: Arc<SessionPlan>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) repo: Repo,
    pub(crate) recorder: Recorder,
    /// Its worktrees, while no node runs.
    pub(crate) workspace: Option<Workspace>,
    /// Its branches, which follow the record.
    pub(crate) followers: BTreeMap<RepoName, BranchFollower>,
    /// The lock of its worktrees. The supervisor of every process started there holds it too, so after a crash the lock
    /// stays taken until the orphans have exited.
    pub(crate) lock: Lock,
    /// Events folded but not yet written.
    pub(crate) pending: Option<PendingRecord>,
    /// Events on disk but not yet published. They are published once their consequences are in place.
    pub(super) written: Vec<Recorded>,
    pub(crate) memory: Memory,
    /// The tree of the newest step, and the id of that tree without logs and reports.
    pub(crate) code: Option<(TreeId, CommitId)>,
    /// After a resume, the first agent gets a summary instead of the whole conversation.
    pub(crate) degrade: bool,
    pub(super) events_since_state: usize,
    /// The size of the state when it was last stored.
    pub(super) kept_state_bytes: usize,
    /// The bytes of events that this process had written by then.
    pub(super) event_bytes_at_state: usize,
    /// Repositories whose checkout followed its branch and whose worker has not been informed yet.
    pub(super) followed: Vec<RepoName>,
    /// Warnings not yet reported.
    pub(crate) warnings: Vec<Warning>,
}

/// A newly created or opened context.
pub(crate) struct OpenedContext {
    pub id: ContextId,
    pub state: State,
    pub recorder: Recorder,
    pub lock: Lock,
    /// The worktrees, if another session of this process released them.
    pub workspace: Option<Workspace>,
    /// Number of events read or written since its state was last stored.
    pub events: usize,
    /// Those not yet published.
    pub written: Vec<Recorded>,
}

impl Context {
    pub(crate) fn new(engine: Arc<Engine>, repo: Repo, plan: Arc<SessionPlan>, opened: OpenedContext) -> Self {
        let OpenedContext { id, state, recorder, lock, workspace, events, written } = opened;
        Self {
            id,
            state: Arc::new(state),
            plan,
            engine,
            repo,
            recorder,
            workspace,
            followers: BTreeMap::new(),
            lock,
            pending: None,
            written,
            memory: Memory::default(),
            code: None,
            degrade: false,
            events_since_state: events,
            kept_state_bytes: 0,
            event_bytes_at_state: 0,
            followed: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Takes the state of a return that is on disk.
    pub(crate) fn returned(&mut self, state: State, event: Recorded) {
        self.state = Arc::new(state);
        self.written.push(event);
        self.events_since_state = 0;
    }

    /// Publishes events that are on disk but not yet published.
    pub(crate) fn announce(&mut self) {
        for recorded in std::mem::take(&mut self.written) {
            let by = Some((self.plan.run.session.clone(), self.id.clone()));
            self.engine.events.send(Notification { by, recorded: Arc::new(recorded) });
        }
    }

    /// The current node.
    pub(crate) fn here(&self) -> NodeId {
        self.state.next_node().or(self.state.completed.last()).unwrap_or(&self.plan.start_node).clone()
    }

    /// The worktrees, which are available while no node runs.
    pub(crate) fn working(&self) -> &Workspace {
        self.workspace.as_ref().expect("the worktrees are back when no node runs")
    }

    pub(crate) fn working_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("the worktrees are back when no node runs")
    }

    /// The repositories whose checkout followed its branch since the last call.
    pub(crate) fn take_followed(&mut self) -> Vec<RepoName> {
        std::mem::take(&mut self.followed)
    }

    /// Checks that no other process moved its branches.
    pub(crate) fn check_branches(&self) -> Result<(), workspace::Error> {
        self.followers.values().try_for_each(BranchFollower::check)
    }

    /// Retries moving branches that could not follow.
    pub(crate) fn catch_up(&mut self) -> Result<(), Error> {
        Ok(self.followers.values_mut().try_for_each(BranchFollower::catch_up)?)
    }

    /// Takes the warnings not yet reported.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let of_branches = self.followers.values_mut().flat_map(BranchFollower::take_warnings);
        let of_branches: Vec<Warning> = of_branches.collect();
        std::mem::take(&mut self.warnings).into_iter().chain(of_branches).collect()
    }

    /// The worktree of its task's repository.
    pub(crate) fn task_copy(&self) -> &WorkingCopy {
        let copy = self.working().copy(&self.task_of().repo);
        copy.expect("a session on a task has a worktree of the task's repository")
    }

    pub(crate) fn task_copy_mut(&mut self) -> &mut WorkingCopy {
        let repo = self.task_of().repo.clone();
        let copy = self.working_mut().copy_mut(&repo);
        copy.expect("a session on a task has a worktree of the task's repository")
    }

    /// The tip of the task's branch according to the record.
    pub(crate) fn task_branch_tip(&self) -> CommitId {
        let follower = self.followers.get(&self.task_of().repo);
        follower.expect("a session on a task has a branch in the task's repository").tip()
    }

    pub(crate) fn task_of(&self) -> &TaskOf {
        self.plan.started.task.as_ref().expect("only sessions on tasks do this")
    }

    /// The state of its task.
    pub(crate) fn task_work(&self) -> &TaskWork {
        self.state.task.as_deref().expect("only sessions on tasks do this")
    }

    pub(crate) fn task_tip(&self) -> CommitId {
        self.task_work().step
    }

    pub(crate) fn attempt(&self) -> Option<AttemptNumber> {
        let attempt = self.task_work().attempt.as_ref()?;
        let attempts = self.plan.job.as_ref().map_or(attempt.of, |job| job.attempts);
        Some(AttemptNumber { number: attempt.number, of: attempts.max(attempt.number) })
    }
}
