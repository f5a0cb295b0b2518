//! Whether a HEAD that an agent can write names a commit.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Worktree;
use super::git_dir::has_head;
use crate::git::connectivity;
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::head::{Head, head_of};
use crate::git::id::to_gix;
use crate::git::repo::Repo;
use os::confined_fs::ConfinedDir;

/// How often it is looked at, and how long after.
const TRIES: u32 = 3;

const PAUSE: Duration = Duration::from_millis(20);

/// How long a `git gc` is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where a HEAD is that an agent can write to; none if at no commit yet. An error means that it names no commit all of
/// which is there and can be read, and nothing that could come to be one; the user's own is taken to be whole.
pub(super) fn read_valid_head(repo: &Repo, handle: &gix::Repository, is_agents: bool) -> Result<Option<Head>, Error> {
    let (mut tries, begun) = (1, Instant::now());
    // It puts what is about to be read elsewhere, and has this file until it is done.
    let is_collecting = || repo.common_dir().join("gc.pid").exists() && begun.elapsed() < PATIENCE;
    loop {
        match look_at_head(repo, handle, is_agents) {
            Err(_) if is_agents && (tries < TRIES || is_collecting()) => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            found => return found,
        }
    }
}

fn look_at_head(repo: &Repo, handle: &gix::Repository, is_agents: bool) -> Result<Option<Head>, Error> {
    let head = match head_of(handle) {
        Err(Error::NoSuchRevision { .. }) => return Ok(None),
        head => head?,
    };
    let id = to_gix(head.commit);
    if is_agents && !connectivity::is_within_size_limit(repo, head.commit) {
        return Err(Error::object("commit", &id, "it is too large"));
    }
    handle.find_commit(id).doing("read the commit of HEAD")?;
    if !is_agents || connectivity::is_connected(repo, head.commit)? {
        Ok(Some(head))
    } else {
        Err(Error::object("commit", &id, "objects it refers to are missing, or too many"))
    }
}

/// Names a HEAD that had to be replaced.
pub(super) fn invalid_head(head: &Path) -> String {
    format!("{} (it named no complete commit, or one that is too large)", head.display())
}

/// Removes a HEAD that names nothing a HEAD can, and says which. It comes back with the next commit it belongs to.
pub(super) fn remove_invalid_head(worktree: &Worktree) -> Result<Option<String>, Error> {
    worktree.last_head.take();
    let head = worktree.git_dir.join("HEAD");
    if !head.exists() {
        return Ok(None);
    }
    if let Ok(found) = read_valid_head(&worktree.repo, &worktree.handle, worktree.is_agents) {
        let is_detached = worktree.handle.head().is_ok_and(|head| head.is_detached());
        worktree.last_head.replace(found.filter(|_| is_detached));
        return Ok(None);
    }
    ConfinedDir::at(&worktree.git_dir).and_then(|dir| dir.remove("HEAD")).at("remove", &head)?;
    Ok(Some(invalid_head(&head)))
}

/// Gives a worktree whose HEAD is gone or says nothing another one, so that it can be opened.
pub(super) fn restore_head(repo: &Repo, git_dir: &Path) -> Result<(), Error> {
    if has_head(git_dir) { Ok(()) } else { write_head(repo, git_dir).map(drop) }
}

/// Writes a detached HEAD at the commit of the repository's own.
pub(super) fn write_head(repo: &Repo, git_dir: &Path) -> Result<Head, Error> {
    let head = Head { branch: None, ..repo.head()? };
    let line = format!("{}\n", head.commit);
    let written = ConfinedDir::at(git_dir).and_then(|dir| dir.write("HEAD", line.as_bytes()));
    written.at("write", &git_dir.join("HEAD"))?;
    Ok(head)
}
