//! The locks of a session: one for the session, one for its worktree.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Error;
use super::task::SharedWorktree;
use crate::git::Repo;
use crate::ids::{BranchName, ContextId, SessionId};
use crate::record;
use crate::workspace::{Lock, LockError, StopRequest};

/// What a process holds that writes to a session.
#[derive(Debug)]
pub(super) struct Locks {
    pub(super) session: Lock,
    /// One for the worktree of each context. Also held by the supervisor of everything that was started there: what a
    /// killed run had started dies by itself, and until then it is taken.
    pub(super) worktrees: BTreeMap<ContextId, Lock>,
}

impl Locks {
    /// Takes all, or says who has one of them.
    pub(super) fn take(repo: &Repo, id: &SessionId) -> Result<Self, Error> {
        Self::take_with(repo, id, BTreeMap::new())
    }

    /// The same where the root's worktree is held already, because sessions share it.
    pub(super) fn beside(repo: &Repo, id: &SessionId, worktree: Lock) -> Result<Self, Error> {
        Self::take_with(repo, id, BTreeMap::from([(record::root(), worktree)]))
    }

    fn take_with(repo: &Repo, id: &SessionId, mut worktrees: BTreeMap<ContextId, Lock>) -> Result<Self, Error> {
        let session = Lock::take(repo.common_dir(), &lock_name(id), &format!("session {id}"))?;
        // What was wished of who had it before is of no use any more.
        StopRequest::forget(repo.common_dir(), &lock_name(id));
        for context in contexts_of(repo, id)? {
            if let Entry::Vacant(free) = worktrees.entry(context) {
                let lock = worktree_lock(repo, id, free.key())?;
                free.insert(lock);
            }
        }
        Ok(Self { session, worktrees })
    }

    /// Does something with a session that must be there. When it is not, nothing is left of the locks either.
    pub(super) fn with<T>(self, work: impl FnOnce() -> Result<T, Error>) -> Result<(Self, T), Error> {
        match work() {
            Err(gone @ Error::Record(record::Error::Missing { .. })) => {
                self.remove()?;
                Err(gone)
            }
            other => other.map(|value| (self, value)),
        }
    }

    /// Lets go of them and removes their files: the session is gone.
    pub(super) fn remove(self) -> Result<(), LockError> {
        for worktree in self.worktrees.into_values() {
            worktree.remove()?;
        }
        self.session.remove()
    }
}

/// How long a killed run's programs may take to die before somebody else gives up on them.
const PATIENCE: Duration = Duration::from_secs(10);

/// What works in a worktree.
#[derive(Debug, Clone, Copy)]
pub enum Copy<'a> {
    /// A session in its own.
    OfSession(&'a SessionId),
    /// The tasks of a target, which share one.
    OfTasks(&'a BranchName),
}

/// Waits until nothing is left in a worktree of what a run that was killed had started, for ten seconds at most. `say`
/// is told once whom it waits for.
pub fn wait_for_orphans(repo: &Repo, copy: Copy<'_>, mut say: impl FnMut(&str)) {
    let names = match copy {
        // What cannot be read is told by whoever opens it next.
        Copy::OfSession(id) => {
            contexts_of(repo, id).unwrap_or_default().iter().map(|at| worktree_lock_name(id, at)).collect()
        }
        Copy::OfTasks(target) => vec![SharedWorktree::lock_name(target)],
    };
    let begun = Instant::now();
    let mut said = false;
    for name in names {
        Lock::outwait(repo.common_dir(), &name, |holder| {
            if !std::mem::replace(&mut said, true) {
                say(&format!("waiting for processes of a killed run to end ({})", holder.text));
            }
            begun.elapsed() < PATIENCE
        });
    }
}

/// The contexts of a session, which has its root before there is a record of it.
fn contexts_of(repo: &Repo, id: &SessionId) -> Result<BTreeSet<ContextId>, crate::git::Error> {
    Ok(record::contexts(repo, id)?.into_iter().chain([record::root()]).collect())
}

/// The name of a session's lock.
pub fn lock_name(id: &SessionId) -> String {
    format!("session-{id}")
}

/// Takes the lock of a context's worktree, or says who has it.
pub(super) fn worktree_lock(repo: &Repo, id: &SessionId, context: &ContextId) -> Result<Lock, LockError> {
    let what = format!("the worktree of session {id}");
    Lock::take(repo.common_dir(), &worktree_lock_name(id, context), &what)
}

/// The name of the lock of a context's worktree.
pub(super) fn worktree_lock_name(id: &SessionId, context: &ContextId) -> String {
    format!("worktree-{id}-{context}")
}
