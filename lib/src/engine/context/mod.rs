//! A context of a session: a chain of records, what they fold to, and a place to work. A session has `main` and may have
//! more; each is written by itself.

mod copy;
mod memory;
mod node;
mod recording;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) use copy::moved_aside_warning;
pub(super) use node::{Begun, NodeEnd, RecordedTurn};
pub(super) use recording::{MadeStep, PendingRecord, Writers};

use self::memory::Memory;
use super::session::SessionPlan;
use super::{Engine, Error};
use crate::event::{Notification, Recorded, Warning};
use crate::git::{Repo, TreeId};
use crate::ids::{CommitId, ContextId, NodeId, RepoName};
use crate::record::Recorder;
use crate::state::State;
use crate::workspace::{self, BranchFollower, Lock, Workspace};

/// One chain of records this process may write to.
#[derive(Debug)]
pub struct Context {
    /// Its name in the session.
    pub id: ContextId,
    /// What has become of it. Whoever carries a node out has what it was when that was started.
    pub state: Arc<State>,
    pub(super) plan: Arc<SessionPlan>,
    pub(super) engine: Arc<Engine>,
    pub(super) repo: Repo,
    pub(super) recorder: Recorder,
    /// Its worktrees, while no node runs.
    pub(super) workspace: Option<Workspace>,
    /// Its branches, which follow the record.
    pub(super) followers: BTreeMap<RepoName, BranchFollower>,
    /// The lock of its worktrees, also held by the supervisor of everything that was started there: what a killed run had
    /// started dies by itself, and until then this one is taken.
    pub(super) lock: Lock,
    /// What is folded and not yet written.
    pub(super) pending: Option<PendingRecord>,
    /// What is on disk and nobody was told yet: it is told when what follows from it is in place.
    written: Vec<Recorded>,
    pub(super) memory: Memory,
    /// The tree of the newest step, and what it is without logs and reports.
    pub(super) code: Option<(TreeId, CommitId)>,
    /// A session that was resumed tells its first agent a summary instead of the whole conversation.
    pub(super) degrade: bool,
    events_since_state: usize,
    /// How large the state was when it was kept last.
    kept_state_bytes: usize,
    /// The repositories with a checkout that has followed its branch, which the worker does not know yet.
    followed: Vec<RepoName>,
    /// What a person should know and was not told yet.
    pub(super) warnings: Vec<Warning>,
}

/// A context that was just made or found, before anything is done with it.
pub(super) struct Opened {
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
    pub(super) fn new(engine: Arc<Engine>, repo: Repo, plan: Arc<SessionPlan>, opened: Opened) -> Self {
        let Opened { id, state, recorder, lock, workspace, events, written } = opened;
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
    pub(super) fn announce(&mut self) {
        for recorded in std::mem::take(&mut self.written) {
            let by = Some((self.plan.id.clone(), self.id.clone()));
            self.engine.events.send(Notification { by, recorded: Arc::new(recorded) });
        }
    }

    /// The node it is at.
    pub(super) fn here(&self) -> NodeId {
        self.state.next_node().or(self.state.completed.last()).unwrap_or(&self.plan.start_node).clone()
    }

    /// The worktrees, which are here while no node runs.
    pub(super) fn working(&self) -> &Workspace {
        self.workspace.as_ref().expect("the worktrees are back when no node runs")
    }

    pub(super) fn working_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("the worktrees are back when no node runs")
    }

    /// The repositories with a checkout that has followed its branch since this was last asked.
    pub(super) fn take_followed(&mut self) -> Vec<RepoName> {
        std::mem::take(&mut self.followed)
    }

    /// Makes sure that nobody moved its branches.
    pub(super) fn check_branches(&self) -> Result<(), workspace::Error> {
        self.followers.values().try_for_each(BranchFollower::check)
    }

    /// Tries once more to bring branches forward that could not follow.
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        Ok(self.followers.values_mut().try_for_each(BranchFollower::catch_up)?)
    }

    /// What a person should know and was not told yet.
    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        let of_branches = self.followers.values_mut().flat_map(BranchFollower::take_warnings);
        let of_branches: Vec<Warning> = of_branches.collect();
        std::mem::take(&mut self.warnings).into_iter().chain(of_branches).collect()
    }

    /// Brings branch and worktree to the newest record.
    pub(super) async fn go_on(&mut self) -> Result<Option<String>, Error> {
        let kept = self.make_copy().await?;
        self.load_interrupted()?;
        self.degrade = true;
        Ok(kept)
    }
}
