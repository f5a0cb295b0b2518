//! State shared by the sessions and trees of a process: the spawner, the directory of machine-local state, today's
//! spending, and the running sessions, so that requests of other processes reach them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::oneshot;

use super::budget::Ledgers;
use super::locks::lock_name;
use git::Repo;
use git::workspace::StopRequest;
use os::process::{Cancel, Canceller, Spawner};
use pleach_core::ids::RunId;

/// State shared by the sessions and trees of a process.
#[derive(Debug)]
pub struct Supervisor {
    /// Starts programs.
    pub spawner: Spawner,
    /// The directory of machine-local state; everything below may be deleted.
    pub state_dir: PathBuf,
    /// Today's spending by repository.
    pub(super) ledgers: Arc<Ledgers>,
    /// The runs of sessions this process works on.
    sessions: Mutex<BTreeMap<RunId, RegisteredSession>>,
    /// The last pushes of sessions that nobody has waited for yet.
    pushes: Mutex<Vec<oneshot::Receiver<()>>>,
    /// Nothing is left to do but the last pushes.
    only_pushes: AtomicBool,
}

#[derive(Debug)]
struct RegisteredSession {
    common_dir: PathBuf,
    canceller: Canceller,
    /// The request already granted.
    granted: Option<StopRequest>,
}

/// Registers a session as running in this process until dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    run: RunId,
    supervisor: Weak<Supervisor>,
    /// Stops the session, or all of them.
    pub cancel: Cancel,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(supervisor) = self.supervisor.upgrade() else { return };
        let worked = supervisor.sessions().remove(&self.run);
        if let Some(worked) = worked {
            StopRequest::forget(&worked.common_dir, &lock_name(&self.run));
        }
    }
}

impl Supervisor {
    /// A supervisor with this spawner and state directory.
    pub fn new(spawner: Spawner, state_dir: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            spawner,
            state_dir,
            ledgers: Arc::default(),
            sessions: Mutex::default(),
            pushes: Mutex::default(),
            only_pushes: AtomicBool::new(false),
        })
    }

    /// Grants requests of other processes about the sessions of this one, and returns the new ones. Called on the
    /// signal to look.
    pub fn look(&self) -> Vec<(RunId, StopRequest)> {
        let mut new = Vec::new();
        for (run, worked) in self.sessions().iter_mut() {
            let Some(wish) = StopRequest::read(&worked.common_dir, &lock_name(run)) else { continue };
            if worked.granted.is_some_and(|granted| granted >= wish) {
                continue;
            }
            worked.granted = Some(wish);
            match wish {
                StopRequest::Pause => worked.canceller.stop(),
                StopRequest::Cancel => worked.canceller.cancel(),
                StopRequest::PauseNow => worked.canceller.kill(),
                StopRequest::CancelNow => {
                    worked.canceller.cancel();
                    worked.canceller.kill();
                }
            }
            new.push((run.clone(), wish));
        }
        new
    }

    /// Lets a session of this process finish what it does and pause.
    pub(crate) fn stop(&self, run: &RunId) {
        if let Some(worked) = self.sessions().get(run) {
            worked.canceller.stop();
        }
    }

    /// Ends what a session of this process does, at once.
    pub(crate) fn kill(&self, run: &RunId) {
        if let Some(worked) = self.sessions().get(run) {
            worked.canceller.cancel();
            worked.canceller.kill();
        }
    }

    /// Leaves the last pushes of a session to whoever waits for them at the end.
    pub(crate) fn leave_pushes(&self, ended: oneshot::Receiver<()>) {
        self.pushes.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
    }

    /// The last pushes that were left.
    pub(crate) fn take_pushes(&self) -> Vec<oneshot::Receiver<()>> {
        std::mem::take(&mut *self.pushes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether nothing is left to do but the last pushes, which can be given up at once.
    pub fn only_pushes(&self) -> bool {
        self.only_pushes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_only_pushes(&self, only_pushes: bool) {
        self.only_pushes.store(only_pushes, Ordering::Relaxed);
    }

    /// Registers a session of this process. It stops with `above`, or alone.
    pub(crate) fn register(self: &Arc<Self>, repo: &Repo, run: &RunId, above: &Cancel) -> Registered {
        let common_dir = repo.common_dir().to_owned();
        let (canceller, cancel) = above.child();
        self.sessions().insert(run.clone(), RegisteredSession { common_dir, canceller, granted: None });
        // A request may have arrived as soon as the lock was taken.
        self.look();
        Registered { run: run.clone(), supervisor: Arc::downgrade(self), cancel }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, RegisteredSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
