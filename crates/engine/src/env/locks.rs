//! The locks of a run of a session: one for the run, and one for each of its worktrees.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use git::workspace::{FIRST_SLOT, Lock, LockError, StopRequest, task_slot_lock};
use git::{Repo, record};
use pleach_core::ids::{BranchName, ContextId, RunId, SessionId};

/// The locks held by a process that writes to a session.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) session: Lock,
    /// One per context, for its worktree. The supervisor of every process started there holds it too, so after a crash
    /// the lock stays taken until the orphans have exited.
    pub(crate) worktrees: BTreeMap<ContextId, Lock>,
}

impl Locks {
    /// Takes all locks, or reports the holder of one.
    pub(crate) fn take(repo: &Repo, run: impl Into<RunId>) -> Result<Self, Error> {
        Self::take_with(repo, &run.into(), BTreeMap::new())
    }

    /// Like [`Locks::take`], with the lock of the root's worktree already held because sessions share it.
    pub(crate) fn beside(repo: &Repo, id: &SessionId, worktree: Lock) -> Result<Self, Error> {
        Self::take_with(repo, &id.into(), BTreeMap::from([(ContextId::main(), worktree)]))
    }

    fn take_with(repo: &Repo, run: &RunId, mut worktrees: BTreeMap<ContextId, Lock>) -> Result<Self, Error> {
        let session = Lock::take(repo.common_dir(), &lock_name(run), &format!("session {run}"))?;
        // Requests to the previous holder are obsolete.
        StopRequest::forget(repo.common_dir(), &lock_name(run));
        for context in contexts_of(repo, run)? {
            if let Entry::Vacant(free) = worktrees.entry(context) {
                let lock = worktree_lock(repo, &run.session, free.key())?;
                free.insert(lock);
            }
        }
        Ok(Self { session, worktrees })
    }

    /// Runs `work` on a session that must exist. If it does not, the lock files are removed as well.
    pub(crate) fn with<T>(self, work: impl FnOnce() -> Result<T, Error>) -> Result<(Self, T), Error> {
        match work() {
            Err(gone @ Error::Record(record::Error::Missing { .. })) => {
                self.remove()?;
                Err(gone)
            }
            other => other.map(|value| (self, value)),
        }
    }

    /// Releases the locks and removes their files, because the session is gone.
    pub(crate) fn remove(self) -> Result<(), LockError> {
        for worktree in self.worktrees.into_values() {
            worktree.remove()?;
        }
        self.session.remove()
    }
}

/// The user of a worktree.
#[derive(Debug, Clone, Copy)]
pub enum Copy<'a> {
    /// A run of a session in its own worktree.
    OfRun(&'a RunId),
    /// The tasks of a target, which share one worktree.
    OfTasks(&'a BranchName),
}

/// Waits until the orphans of a killed run have exited from a worktree, as whoever takes its lock does. `say` is called once
/// with the process it waits for.
pub fn wait_for_orphans(repo: &Repo, copy: Copy<'_>, mut say: impl FnMut(&str)) {
    let names = match copy {
        // A read error is reported when the session is opened next.
        Copy::OfRun(run) => {
            contexts_of(repo, run).unwrap_or_default().iter().map(|at| worktree_lock_name(&run.session, at)).collect()
        }
        Copy::OfTasks(target) => slot_locks(repo, target),
    };
    let mut said = false;
    for name in names {
        Lock::outwait(repo.common_dir(), &name, |holder| {
            if !std::mem::replace(&mut said, true) {
                say(&format!("waiting for processes of a killed run to end ({})", holder.text));
            }
        });
    }
}

/// The locks of the slots a target's tasks have used.
fn slot_locks(repo: &Repo, target: &BranchName) -> Vec<String> {
    let first = task_slot_lock(target, FIRST_SLOT);
    let further = (FIRST_SLOT + 1..).map(|number| task_slot_lock(target, number));
    let further = further.take_while(|name| Lock::exists(repo.common_dir(), name));
    std::iter::once(first).chain(further).collect()
}

/// The contexts of a run. Its root exists even before the first record.
fn contexts_of(repo: &Repo, run: &RunId) -> Result<BTreeSet<ContextId>, git::Error> {
    Ok(record::run_contexts(repo, run)?.into_iter().chain([run.root.clone()]).collect())
}

/// The name of a run's lock.
pub fn lock_name(run: impl Into<RunId>) -> String {
    format!("session-{}", run.into()).replace('/', "-")
}

/// Takes the lock of a context's worktree, or reports its holder.
pub(crate) fn worktree_lock(repo: &Repo, id: &SessionId, context: &ContextId) -> Result<Lock, LockError> {
    let what = format!("the worktree of session {id}");
    Lock::take(repo.common_dir(), &worktree_lock_name(id, context), &what)
}

/// The name of the lock of a context's worktree.
pub(crate) fn worktree_lock_name(id: &SessionId, context: &ContextId) -> String {
    format!("worktree-{id}-{context}")
}
