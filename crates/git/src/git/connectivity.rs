//! Connectivity of an agent's commit: whether every object it needs exists, and its size is reasonable. An agent can
//! write any commit. One with missing objects would break everything built on it; one that is small on disk may expand
//! to more memory or paths than we can handle.

use std::time::Duration;

use super::diff;
use super::error::Error;
use super::id::to_gix;
use super::repo::Repo;
use pleach_core::ids::CommitId;

/// The largest commit object of an agent, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// How much room the paths take in which a commit of an agent differs from what the user has: about a million.
const ROOM: usize = 256 * 1024 * 1024;

/// What git may take of memory at once for an object, and how long it may look. It reads commits and trees, no files.
const MEMORY: &str = "128m";

const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a commit object is small enough to be read into memory.
pub(super) fn is_within_size_limit(repo: &Repo, commit: CommitId) -> bool {
    repo.local().find_header(to_gix(commit)).is_ok_and(|header| header.size() <= LARGEST)
}

/// Whether everything a commit names is there, as far down as no branch or tag has it, and its files are not too many.
/// Each is looked at once.
pub(super) fn is_connected(repo: &Repo, commit: CommitId) -> Result<bool, Error> {
    if repo.shared.whole.has(commit) {
        return Ok(true);
    }
    let id = commit.to_string();
    // The HEADs of worktrees are what is in question; and one damaged record among pleach's own refs, which git would
    // begin at, says nothing about this commit.
    let limits = ["--single-worktree", "--exclude=refs/pleach/*", "--all"];
    let args = [&["rev-list", "--quiet", "--objects", "--ignore-missing", &id, "--not"][..], &limits].concat();
    let program = repo.shared.program.clone().with_variable("GIT_ALLOC_LIMIT", MEMORY).at_most(PATIENCE);
    // It is all the same what is wrong with it: an object that is not there, or not what it should be, or one that
    // git cannot be done with.
    if program.run(repo.common_dir(), &args)?.code != Some(0) {
        return Ok(false);
    }
    let user_s = repo.head().and_then(|head| repo.tree_of(head.commit)).ok();
    let is_connected = diff::differs_within(repo, user_s, repo.tree_of(commit)?, ROOM)?;
    if is_connected {
        repo.shared.whole.add(commit);
    }
    Ok(is_connected)
}
