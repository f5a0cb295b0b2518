//! The locks of a session: one for the session, one for its working copy.

use std::time::{Duration, Instant};

use super::Error;
use super::task::Seat;
use crate::git::Repo;
use crate::ids::{BranchName, SessionId};
use crate::record;
use crate::workspace::{Lock, LockError};

/// What a process holds that writes to a session.
#[derive(Debug)]
pub(super) struct Locks {
    pub(super) session: Lock,
    /// Also held by the supervisor of everything that was started in the working copy: what a killed run had started
    /// dies by itself, and until then this one is taken.
    pub(super) worktree: Lock,
}

impl Locks {
    /// Takes both, or says who has one of them.
    pub(super) fn take(repo: &Repo, id: &SessionId) -> Result<Self, Error> {
        let common = repo.common_dir();
        let session = Lock::take(common, &lock_name(id), &format!("session {id}"))?;
        let what = format!("the working copy of session {id}");
        let worktree = Lock::take(common, &worktree_lock_name(id), &what)?;
        Ok(Self { session, worktree })
    }

    /// Takes the session's, beside a working copy's that is held already because sessions share it.
    pub(super) fn beside(repo: &Repo, id: &SessionId, worktree: Lock) -> Result<Self, Error> {
        let session = Lock::take(repo.common_dir(), &lock_name(id), &format!("session {id}"))?;
        Ok(Self { session, worktree })
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
        self.worktree.remove()?;
        self.session.remove()
    }
}

/// How long a killed run's programs may take to die before somebody else gives up on them.
const PATIENCE: Duration = Duration::from_secs(10);

/// What works in a working copy.
#[derive(Debug, Clone, Copy)]
pub enum Copy<'a> {
    /// A session in its own.
    OfSession(&'a SessionId),
    /// The tasks of a target, which share one.
    OfTasks(&'a BranchName),
}

/// Waits until nothing is left in a working copy of what a run that was killed had started, for ten seconds at most. `say`
/// is told once whom it waits for.
pub fn outwait_orphans(repo: &Repo, copy: Copy<'_>, mut say: impl FnMut(&str)) {
    let name = match copy {
        Copy::OfSession(id) => worktree_lock_name(id),
        Copy::OfTasks(target) => Seat::lock_name(target),
    };
    let begun = Instant::now();
    let mut said = false;
    Lock::outwait(repo.common_dir(), &name, |holder| {
        if !std::mem::replace(&mut said, true) {
            say(&format!("waiting for what a killed run has started to end ({})", holder.text));
        }
        begun.elapsed() < PATIENCE
    });
}

/// The name of a session's lock.
pub fn lock_name(id: &SessionId) -> String {
    format!("session-{id}")
}

/// The name of the lock of a session's working copy.
pub(super) fn worktree_lock_name(id: &SessionId) -> String {
    format!("worktree-{id}-main")
}
