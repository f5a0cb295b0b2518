//! What the contexts of a session are called at a mirror: a ref for each, of a file that says so.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::MirrorError;
use git::workspace::{Lock, LockError};
use git::{BlobId, RefUpdate, Repo};
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{CommitId, ContextId, RunId, SessionId};

/// The contexts of all sessions at mirrors.
const MIRRORED: &str = "refs/pleach/cxdb/";

/// How often a lock is tried again, and how long after.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// A context at a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MirroredContext {
    /// `HOST:PORT`.
    server: String,
    pub context: u64,
    /// Whoever wrote there has not ended, or was cut off: what was sent may still be worked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

fn reference(session: &SessionId, context: &ContextId) -> String {
    format!("{MIRRORED}{session}/{context}")
}

/// Keeps others from writing the contexts of a run. It has the name of a lock of its session, with which it is removed.
pub(super) fn lock(repo: &Repo, run: &RunId) -> Result<Lock, LockError> {
    let name = format!("session-{}-mirror-{}", run.session, run.root);
    let what = format!("the copy of session {run} at CXDB");
    let mut tries = TRIES;
    loop {
        match Lock::take_now(repo.common_dir(), &name, &what) {
            // A program that is just being started may still have what an earlier owner had open.
            Err(LockError::Held { .. }) if tries > 0 => tries -= 1,
            taken => return taken,
        }
        std::thread::sleep(BETWEEN);
    }
}

/// Forgets what the contexts of a run are called, whose records are removed.
pub fn forget(repo: &Repo, run: &RunId) -> Result<(), git::Error> {
    let prefix = format!("{MIRRORED}{}/", run.session);
    let is_own =
        |name: &str| name.strip_prefix(&prefix).and_then(|name| name.parse().ok()).is_some_and(|own| run.has(&own));
    let all = repo.refs().list_unpeeled(&prefix)?.into_iter().filter(|(name, _)| is_own(name));
    let all: Vec<RefUpdate> = all.map(|(name, old)| RefUpdate { name, old, new: None }).collect();
    if all.is_empty() {
        return Ok(());
    }
    // A run that was killed has left its lock.
    let _ = lock(repo, run).map(Lock::remove);
    Ok(repo.refs().swap_all(&all, "pleach: rm")?)
}

/// What a context is called at this mirror, if it is known there.
pub(super) fn read(
    repo: &Repo,
    address: &MirrorAddress,
    session: &SessionId,
    context: &ContextId,
) -> Result<Option<MirroredContext>, MirrorError> {
    let Some(at) = repo.refs().find(&reference(session, context))? else { return Ok(None) };
    // What cannot be read is written anew, under another name.
    let known = repo.blob(BlobId::from_bytes(*at.as_bytes())).ok();
    let known = known.and_then(|text| serde_json::from_slice::<MirroredContext>(&text).ok());
    Ok(known.filter(|known| known.server == address.server()))
}

/// Notes what a context is called at this mirror from now on, and whether something may still be on its way there.
pub(super) fn write(
    repo: &Repo,
    address: &MirrorAddress,
    session: &SessionId,
    context: &ContextId,
    mirrored: u64,
    open: bool,
) -> Result<(), MirrorError> {
    let name = reference(session, context);
    let known = MirroredContext { server: address.server(), context: mirrored, open };
    let mut writer = repo.writer();
    let text = serde_json::to_vec(&known).expect("text and a number can be written");
    let blob = CommitId::from_bytes(*writer.blob(&text)?.as_bytes());
    writer.flush()?;
    let before = repo.refs().find(&name)?;
    if before == Some(blob) {
        return Ok(());
    }
    Ok(repo.refs().swap(&name, before, blob, "pleach: mirror").map_err(git::Error::from)?)
}
