//! Cancelling a session that another process may be working on.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Error;
use super::locks::{Locks, lock_name};
use super::resume::{RecordedSession, find, read};
use super::task::SharedWorktree;
use crate::clock;
use crate::event::{Event, PipelineCancelled, Recorded};
use crate::git::Repo;
use crate::ids::SessionId;
use crate::record::{Batch, History, Recorder};
use crate::redact::Redactor;
use crate::workspace::{Lock, LockError, LockHolder, StopRequest};

/// How often a lock that is about to be free is tried.
const PAUSE: Duration = Duration::from_millis(25);

/// How long is waited after the last signal: agents that do not end when asked are killed in this time.
const LAST_WAIT: Duration = Duration::from_secs(20);

/// How long a lock may be held by somebody who is not found.
const UNKNOWN_WAIT: Duration = Duration::from_secs(1);

/// The signal that tells a process to look at what others wish of its sessions ([`super::Supervisor::look`]). One that does
/// not know the signal dies of it, which a session survives.
pub const LOOK: i32 = Signal::USR1.as_raw();

/// Cancels a session. A process that works on it is told so first: it finishes its turn and records the end
/// itself. After `grace` it is told once more, so that it kills its agents. When it does not let go even then, or
/// runs on another machine, this is [`LockError::Held`] and nothing was recorded. `asked` is told of every signal.
pub fn cancel_session(
    repo: &Repo,
    redactor: &Redactor,
    id: &SessionId,
    grace: Duration,
    asked: &mut dyn FnMut(&LockHolder),
) -> Result<Recorded, Error> {
    let (common, name) = (repo.common_dir(), lock_name(id));
    let mut waits = [(StopRequest::Cancel, grace), (StopRequest::CancelNow, LAST_WAIT)].into_iter().peekable();
    let mut until = Instant::now();
    let mut unknown_since = None;
    let mut told = false;
    loop {
        let held = match cancel(repo, redactor, id) {
            Err(Error::Lock(held @ LockError::Held { .. })) => held,
            Err(over @ Error::Over { .. }) if told => return recorded_end(repo, id)?.ok_or(over),
            other => return other,
        };
        if Instant::now() >= until {
            // When nobody holds the session, what a killed run had started is still dying.
            let holder = Lock::holder(common, &name);
            let wish = waits.peek().map_or(StopRequest::CancelNow, |(wish, _)| *wish);
            let reached = holder.as_ref().is_none_or(|holder| tell(holder, common, &name, wish));
            // Who lets go between two looks is not found either.
            let since = *unknown_since.get_or_insert_with(Instant::now);
            if reached {
                let Some((_, wait)) = waits.next() else {
                    StopRequest::forget(common, &name);
                    return Err(held.into());
                };
                told |= holder.is_some();
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

/// Cancels a session on a task that nobody works on, also one that only waits to land: the task has been decided
/// otherwise. `worktree` is the worktree of its target's tasks, where this process holds it.
pub(crate) fn abandon_session(
    repo: &Repo,
    redactor: &Redactor,
    id: &SessionId,
    worktree: Option<&SharedWorktree>,
) -> Result<(), Error> {
    let locks = match worktree {
        Some(worktree) => Locks::beside(repo, id, worktree.lock.clone())?,
        None => Locks::take(repo, id)?,
    };
    let (_locks, found) = locks.with(|| read(repo, id))?;
    record(repo, redactor, id, found).map(drop)
}

/// Records that a session no process works on is cancelled.
fn cancel(repo: &Repo, redactor: &Redactor, id: &SessionId) -> Result<Recorded, Error> {
    let (_locks, found) = Locks::take(repo, id)?.with(|| find(repo, id))?;
    record(repo, redactor, id, found)
}

fn record(repo: &Repo, redactor: &Redactor, id: &SessionId, found: RecordedSession) -> Result<Recorded, Error> {
    let RecordedSession { history, mut state, .. } = found;
    let cancelled = Recorded { at: clock::now(), event: PipelineCancelled::default().into() };
    state.apply(&cancelled)?;
    let newest = (history.first, history.tip, state.messages);
    let mut recorder = Recorder::resume(repo.clone(), id.clone(), history.context, redactor.clone(), newest);
    let batch = Batch { summary: "cancel".into(), events: vec![cancelled.clone()], ..Batch::default() };
    recorder.append(repo.writer(), &batch)?;
    Ok(cancelled)
}

/// The end that the process which was told has recorded itself, unless the session ended in another way meanwhile.
fn recorded_end(repo: &Repo, id: &SessionId) -> Result<Option<Recorded>, Error> {
    let history = History::newest(repo, id)?;
    let last = history.events().last().cloned();
    Ok(last.filter(|last| matches!(last.event, Event::PipelineCancelled(_))))
}

/// Leaves a wish for who works on a session, and tells it to look. Says whether it could be told.
pub(super) fn tell(holder: &LockHolder, common_dir: &Path, lock: &str, wish: StopRequest) -> bool {
    let process = holder.process.and_then(Pid::from_raw).filter(|_| holder.is_here(common_dir, lock));
    let Some(process) = process.filter(|_| wish.leave(common_dir, lock).is_ok()) else { return false };
    // A process that has ended by itself by now lets go of the lock: that is what was wanted.
    matches!(kill_process(process, Signal::USR1), Ok(()) | Err(rustix::io::Errno::SRCH))
}
