//! Only one process at a time creates or removes worktrees of a repository.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use crate::git::error::{Error, IoContext as _};
use os::deadline::Deadline;

/// How long to wait for other processes that create a worktree of the same repository.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often that is checked.
const POLL: Duration = Duration::from_millis(10);

/// Waits until no other pleach creates or removes a worktree of this repository: two gits at once disturb each other. Held
/// until it is dropped or the process ends.
pub(super) fn lock_worktrees(common: &Path) -> Result<File, Error> {
    let dir = common.join("pleach");
    std::fs::create_dir_all(&dir).at("create", &dir)?;
    let path = dir.join("worktrees.lock");
    let file = File::options().create(true).append(true).open(&path).at("open", &path)?;
    wait_for_lock(&file, &path)?;
    Ok(file)
}

/// Waits until no other process holds a file.
pub(super) fn wait_for_lock(file: &File, path: &Path) -> Result<(), Error> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if !deadline.is_over() => std::thread::sleep(POLL),
            // An agent can hold it as well: it need only be able to read it.
            Err(Errno::WOULDBLOCK) => {
                let detail = format!("another process holds `{}`; stop it and run again", path.display());
                return Err(Error::Library { doing: "make or remove a worktree".into(), detail });
            }
            Err(error) => return Err(std::io::Error::from(error)).at("lock", path),
        }
    }
}
