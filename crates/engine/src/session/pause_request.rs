//! Pauses a session that another process is running.

use std::time::{Duration, Instant};

use super::cancel::tell;
use crate::env::{Error, lock_name};
use git::Repo;
use git::workspace::{Lock, LockError, LockHolder, StopRequest};
use pleach_core::ids::RunId;

/// How often to check whether the process has released the lock.
const LOOK: Duration = Duration::from_millis(25);

/// How long a process may take to stop the turn in flight.
const LAST_WAIT: Duration = Duration::from_secs(20);

/// How long an unidentified process may hold the lock. A process that releases it between two checks is not found.
const UNKNOWN_WAIT: Duration = Duration::from_secs(1);

/// Asks the process running a session to pause, and waits until it releases the lock: after the turn in flight, which
/// is cut short once `grace` is over, if given. `asked` is called for every signal. Returns false if no process runs
/// the session; if one cannot be reached, or keeps the lock, the result is [`LockError::Held`].
pub fn pause_session(
    repo: &Repo,
    id: &RunId,
    grace: Option<Duration>,
    asked: &mut dyn FnMut(&LockHolder),
) -> Result<bool, Error> {
    let (common, name) = (repo.common_dir(), lock_name(id));
    let begun = Instant::now();
    let (mut signalled, mut cut_short) = (false, None::<Instant>);
    while let Some(holder) = Lock::holder(common, &name) {
        let held = || LockError::Held { what: format!("session {id}"), holder: holder.text.clone() };
        let is_due = signalled && cut_short.is_none() && grace.is_some_and(|grace| begun.elapsed() >= grace);
        // A process that takes the lock drops requests to its predecessor, and may have dropped this one.
        let is_lost = signalled && StopRequest::read(common, &name).is_none();
        let wish = match (signalled, is_due) {
            (true, true) => Some(StopRequest::PauseNow),
            _ if is_lost && cut_short.is_some() => Some(StopRequest::PauseNow),
            _ if !signalled || is_lost => Some(StopRequest::Pause),
            _ => None,
        };
        if let Some(wish) = wish {
            if tell(&holder, common, &name, wish) {
                if !is_lost || is_due {
                    asked(&holder);
                }
                cut_short = cut_short.or(is_due.then(Instant::now));
                signalled = true;
            } else if begun.elapsed() > UNKNOWN_WAIT {
                StopRequest::forget(common, &name);
                return Err(held().into());
            }
        }
        if cut_short.is_some_and(|since| since.elapsed() > LAST_WAIT) {
            StopRequest::forget(common, &name);
            return Err(held().into());
        }
        std::thread::sleep(LOOK);
    }
    StopRequest::forget(common, &name);
    Ok(signalled)
}
