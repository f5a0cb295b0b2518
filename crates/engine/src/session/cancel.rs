//! Cancels a session that another process may be running.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::resume::{RecordedSession, find, read};
use super::task::TaskSlot;
use crate::env::{Error, Locks, lock_name};
use git::Repo;
use git::record::{Batch, History, Recorder};
use git::workspace::{Lock, LockError, LockHolder, StopRequest};
use pleach_core::clock;
use pleach_core::event::{Event, PipelineCancelled, Recorded};
use pleach_core::ids::{RunId, SessionId};
use pleach_core::redact::Redactor;

/// How often to retry a lock that is about to be released.
const PAUSE: Duration = Duration::from_millis(25);

/// How long to wait after the last signal. Agents that ignore the request are killed within this time.
const LAST_WAIT: Duration = Duration::from_secs(20);

/// How long an unidentified process may hold the lock.
const UNKNOWN_WAIT: Duration = Duration::from_secs(1);

/// The signal that makes a process check for requests about its sessions ([`crate::env::Supervisor::look`]). A process that
/// does not handle the signal dies, which a session survives.
pub const LOOK: i32 = Signal::USR1.as_raw();

/// Cancels a session. The process running it, if any, is asked first: it finishes its turn and records the end itself.
/// After `grace` it is asked again, so that it kills its agents. If it still holds the lock, or runs on another
/// machine, the result is [`LockError::Held`] and nothing is recorded. `asked` is called for every signal.
pub fn cancel_session(
    repo: &Repo,
    redactor: &Redactor,
    id: &RunId,
    grace: Duration,
    asked: &mut dyn FnMut(&LockHolder),
) -> Result<Recorded, Error> {
    let (common, name) = (repo.common_dir(), lock_name(id));
    let mut waits = [(StopRequest::Cancel, grace), (StopRequest::CancelNow, LAST_WAIT)].into_iter().peekable();
    let mut until = Instant::now();
    let mut unknown_since = None;
    let mut signalled = false;
    loop {
        let held = match cancel(repo, redactor, id) {
            Err(Error::Lock(held @ LockError::Held { .. })) => held,
            Err(over @ Error::Over { .. }) if signalled => return recorded_end(repo, id)?.ok_or(over),
            other => return other,
        };
        if Instant::now() >= until {
            // If no process holds the session, orphans of a killed run are still exiting.
            let holder = Lock::holder(common, &name);
            let wish = waits.peek().map_or(StopRequest::CancelNow, |(wish, _)| *wish);
            let reached = holder.as_ref().is_none_or(|holder| tell(holder, common, &name, wish));
            // A process that releases the lock between two checks is not found either.
            let since = *unknown_since.get_or_insert_with(Instant::now);
            if reached {
                let Some((_, wait)) = waits.next() else {
                    StopRequest::forget(common, &name);
                    return Err(held.into());
                };
                signalled |= holder.is_some();
                holder.iter().for_each(&mut *asked);
                until = Instant::now() + wait;
                unknown_since = None;
            } else if since.elapsed() > UNKNOWN_WAIT {
                StopRequest::forget(common, &name);
                return Err(held.into());
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Cancels a session on a task that no process works on, even one that only waits to land, because the task was decided
/// another way. `worktree` is the shared worktree of its target's tasks, if this process holds it.
pub(crate) fn abandon_session(
    repo: &Repo,
    redactor: &Redactor,
    id: &SessionId,
    worktree: Option<&TaskSlot>,
) -> Result<(), Error> {
    let locks = match worktree {
        Some(worktree) => Locks::beside(repo, id, worktree.lock.clone())?,
        None => Locks::take(repo, id)?,
    };
    let (_locks, found) = locks.with(|| read(repo, id))?;
    record(repo, redactor, found).map(drop)
}

/// Records a session that no process works on as cancelled.
fn cancel(repo: &Repo, redactor: &Redactor, id: &RunId) -> Result<Recorded, Error> {
    let (_locks, found) = Locks::take(repo, id)?.with(|| find(repo, id))?;
    record(repo, redactor, found)
}

fn record(repo: &Repo, redactor: &Redactor, found: RecordedSession) -> Result<Recorded, Error> {
    let RecordedSession { history, mut state, .. } = found;
    let cancelled = Recorded { at: clock::now(), event: PipelineCancelled::default().into() };
    state.apply(&cancelled)?;
    let end = history.end(&state);
    let mut recorder = Recorder::resume(repo.clone(), history.session.clone(), history.context, redactor.clone(), end);
    let batch = Batch { summary: "cancel".into(), events: vec![cancelled.clone()], ..Batch::default() };
    recorder.append(repo.writer(), &batch)?;
    Ok(cancelled)
}

/// The end recorded by the process that was asked to cancel, unless the session ended another way meanwhile.
fn recorded_end(repo: &Repo, id: &RunId) -> Result<Option<Recorded>, Error> {
    let history = History::newest(repo, id)?;
    let last = history.events().last().cloned();
    Ok(last.filter(|last| matches!(last.event, Event::PipelineCancelled(_))))
}

/// Leaves a request for the process running a session and signals it. Returns whether it was reached.
pub(super) fn tell(holder: &LockHolder, common_dir: &Path, lock: &str, wish: StopRequest) -> bool {
    let process = holder.process.and_then(Pid::from_raw).filter(|_| holder.is_here(common_dir, lock));
    let Some(process) = process.filter(|_| wish.leave(common_dir, lock).is_ok()) else { return false };
    // A process that has exited by now releases the lock, which is what we want.
    matches!(kill_process(process, Signal::USR1), Ok(()) | Err(rustix::io::Errno::SRCH))
}
