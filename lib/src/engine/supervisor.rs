//! What the sessions and trees of a process share: how programs are started, where machine-local state lies, what was spent
//! today, and who works on which session, so that what others wish of one finds it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::budget::Ledgers;
use super::locks::lock_name;
use crate::git::Repo;
use crate::ids::SessionId;
use crate::process::{Cancel, Canceller, Spawner};
use crate::workspace::StopRequest;

/// What the sessions and trees of a process share.
#[derive(Debug)]
pub struct Supervisor {
    /// Starts programs.
    pub spawner: Spawner,
    /// Where machine-local state lives; everything below may be deleted.
    pub state_dir: PathBuf,
    /// What was spent today, by repository.
    pub(super) ledgers: Arc<Ledgers>,
    /// The sessions this process works on.
    sessions: Mutex<BTreeMap<SessionId, RegisteredSession>>,
}

#[derive(Debug)]
struct RegisteredSession {
    common_dir: PathBuf,
    canceller: Canceller,
    /// What was granted already.
    granted: Option<StopRequest>,
}

/// A session this process works on, for as long as this is kept.
#[derive(Debug)]
pub(super) struct Registered {
    id: SessionId,
    supervisor: Weak<Supervisor>,
    /// Ends the session, or all.
    pub cancel: Cancel,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(supervisor) = self.supervisor.upgrade() else { return };
        let worked = supervisor.sessions().remove(&self.id);
        if let Some(worked) = worked {
            StopRequest::forget(&worked.common_dir, &lock_name(&self.id));
        }
    }
}

impl Supervisor {
    /// One that starts programs so, and keeps its state there.
    pub fn new(spawner: Spawner, state_dir: PathBuf) -> Arc<Self> {
        Arc::new(Self { spawner, state_dir, ledgers: Arc::default(), sessions: Mutex::default() })
    }

    /// Grants what others wish of the sessions this process works on, and says what of it is new. For whoever was told to
    /// look.
    pub fn look(&self) -> Vec<(SessionId, StopRequest)> {
        let mut new = Vec::new();
        for (id, worked) in self.sessions().iter_mut() {
            let Some(wish) = StopRequest::read(&worked.common_dir, &lock_name(id)) else { continue };
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
            new.push((id.clone(), wish));
        }
        new
    }

    /// Makes known that this process works on a session, which ends with `above` or by itself.
    pub(super) fn register(self: &Arc<Self>, repo: &Repo, id: &SessionId, above: &Cancel) -> Registered {
        let common_dir = repo.common_dir().to_owned();
        let (canceller, cancel) = above.child();
        self.sessions().insert(id.clone(), RegisteredSession { common_dir, canceller, granted: None });
        // Somebody may have wished something as soon as the lock was taken.
        self.look();
        Registered { id: id.clone(), supervisor: Arc::downgrade(self), cancel }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, RegisteredSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
