//! What a context is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PendingRecord;
use super::memory::Memory;
use crate::engine::session_plan::SessionPlan;
use crate::engine::{Engine, Error};
use crate::event::{Notification, Recorded, TaskOf, Warning};
use crate::git::{Repo, TreeId};
use crate::ids::{CommitId, ContextId, NodeId, RepoName};
use crate::record::Recorder;
use crate::state::{State, TaskWork};
use crate::step::AttemptNumber;
use crate::workspace::{self, BranchFollower, Lock, WorkingCopy, Workspace};

/// One chain of records this process may write to.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its name in the session.
    pub id: ContextId,
    /// What has become of it. Whoever carries a node out has what it was when that was started.
    pub state: Arc<State>,
    pub(in crate::engine) plan: Arc<SessionPlan>,
    pub(in crate::engine) engine: Arc<Engine>,
    pub(in crate::engine) repo: Repo,
    pub(in crate::engine) recorder: Recorder,
    /// Its worktrees, while no node runs.
    pub(in crate::engine) workspace: Option<Workspace>,
    /// Its branches, which follow the record.
    pub(in crate::engine) followers: BTreeMap<RepoName, BranchFollower>,
    /// The lock of its worktrees, also held by the supervisor of everything that was started there: what a killed run had
    /// started dies by itself, and until then this one is taken.
    pub(in crate::engine) lock: Lock,
    /// What is folded and not yet written.
    pub(in crate::engine) pending: Option<PendingRecord>,
    /// What is on disk and nobody was told yet: it is told when what follows from it is in place.
    pub(super) written: Vec<Recorded>,
    pub(in crate::engine) memory: Memory,
    /// The tree of the newest step, and what it is without logs and reports.
    pub(in crate::engine) code: Option<(TreeId, CommitId)>,
    /// A session that was resumed tells its first agent a summary instead of the whole conversation.
    pub(in crate::engine) degrade: bool,
    pub(super) events_since_state: usize,
    /// How large the state was when it was kept last.
    pub(super) kept_state_bytes: usize,
    /// The repositories with a checkout that has followed its branch, which the worker does not know yet.
    pub(super) followed: Vec<RepoName>,
    /// What a person should know and was not told yet.
    pub(in crate::engine) warnings: Vec<Warning>,
}

/// A context that was just made or found, before anything is done with it.
pub(in crate::engine) struct OpenedContext {
    pub id: ContextId,
    pub state: State,
    pub recorder: Recorder,
    pub lock: Lock,
    /// The worktrees, where another session of this process has left them.
    pub workspace: Option<Workspace>,
    /// How many events were read or written since its state was kept.
    pub events: usize,
    /// What of these nobody was told yet.
    pub written: Vec<Recorded>,
}

impl Context {
    pub(in crate::engine) fn new(
        engine: Arc<Engine>,
        repo: Repo,
        plan: Arc<SessionPlan>,
        opened: OpenedContext,
    ) -> Self {
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
            followed: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Tells what is on disk and nobody was told yet.
    pub(in crate::engine) fn announce(&mut self) {
        for recorded in std::mem::take(&mut self.written) {
            let by = Some((self.plan.id.clone(), self.id.clone()));
            self.engine.events.send(Notification { by, recorded: Arc::new(recorded) });
        }
    }

    /// The node it is at.
    pub(in crate::engine) fn here(&self) -> NodeId {
        self.state.next_node().or(self.state.completed.last()).unwrap_or(&self.plan.start_node).clone()
    }

    /// The worktrees, which are here while no node runs.
    pub(in crate::engine) fn working(&self) -> &Workspace {
        self.workspace.as_ref().expect("the worktrees are back when no node runs")
    }

    pub(in crate::engine) fn working_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("the worktrees are back when no node runs")
    }

    /// The repositories with a checkout that has followed its branch since this was last asked.
    pub(in crate::engine) fn take_followed(&mut self) -> Vec<RepoName> {
        std::mem::take(&mut self.followed)
    }

    /// Makes sure that nobody moved its branches.
    pub(in crate::engine) fn check_branches(&self) -> Result<(), workspace::Error> {
        self.followers.values().try_for_each(BranchFollower::check)
    }

    /// Tries once more to bring branches forward that could not follow.
    pub(in crate::engine) fn catch_up(&mut self) -> Result<(), Error> {
        Ok(self.followers.values_mut().try_for_each(BranchFollower::catch_up)?)
    }

    /// What a person should know and was not told yet.
    pub(in crate::engine) fn take_warnings(&mut self) -> Vec<Warning> {
        let of_branches = self.followers.values_mut().flat_map(BranchFollower::take_warnings);
        let of_branches: Vec<Warning> = of_branches.collect();
        std::mem::take(&mut self.warnings).into_iter().chain(of_branches).collect()
    }

    /// The worktree of its task's repository.
    pub(in crate::engine) fn task_copy(&self) -> &WorkingCopy {
        let copy = self.working().copy(&self.task_of().repo);
        copy.expect("a session on a task has a worktree of the task's repository")
    }

    pub(in crate::engine) fn task_copy_mut(&mut self) -> &mut WorkingCopy {
        let repo = self.task_of().repo.clone();
        let copy = self.working_mut().copy_mut(&repo);
        copy.expect("a session on a task has a worktree of the task's repository")
    }

    /// Where the record has the task's branch.
    pub(in crate::engine) fn task_branch_tip(&self) -> CommitId {
        let follower = self.followers.get(&self.task_of().repo);
        follower.expect("a session on a task has a branch in the task's repository").tip()
    }

    pub(in crate::engine) fn task_of(&self) -> &TaskOf {
        self.plan.started.task.as_ref().expect("only sessions on tasks do this")
    }

    /// What has become of its task.
    pub(in crate::engine) fn task_work(&self) -> &TaskWork {
        self.state.task.as_deref().expect("only sessions on tasks do this")
    }

    pub(in crate::engine) fn task_tip(&self) -> CommitId {
        self.task_work().step
    }

    pub(in crate::engine) fn attempt(&self) -> Option<AttemptNumber> {
        let attempt = self.task_work().attempt.as_ref()?;
        let of = self.plan.job.as_ref().map_or(attempt.of, |job| job.attempts);
        Some(AttemptNumber { number: attempt.number, of: of.max(attempt.number) })
    }
}
