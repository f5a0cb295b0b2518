//! One process at a time makes or removes worktrees of a repository.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::git::error::{Error, IoContext as _};

/// How long others are waited for who make a worktree of the same repository: a large one takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often that is looked at.
const POLL: Duration = Duration::from_millis(10);

/// Waits until no other pleach makes a worktree of this repository: two gits that do trip over each other's halves. Holds
/// until it is dropped, or its process ends.
pub(super) fn lock_worktrees(common: &Path) -> Result<File, Error> {
    let dir = common.join("pleach");
    std::fs::create_dir_all(&dir).at("create", &dir)?;
    let path = dir.join("worktrees.lock");
    let file = File::options().create(true).append(true).open(&path).at("open", &path)?;
    wait_for_lock(&file, &path)?;
    Ok(file)
}

/// Waits until nobody else holds a file.
pub(super) fn wait_for_lock(file: &File, path: &Path) -> Result<(), Error> {
    let setup_files = Instant::now();
    loop {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if setup_files.elapsed() < PATIENCE => std::thread::sleep(POLL),
            // An agent can hold it as well: it need only be able to read it.
            Err(Errno::WOULDBLOCK) => {
                let detail = format!("another process holds `{}`; end it and run again", path.display());
                return Err(Error::Library { doing: "make or remove a worktree".into(), detail });
            }
            Err(error) => return Err(std::io::Error::from(error)).at("lock", path),
        }
    }
}
