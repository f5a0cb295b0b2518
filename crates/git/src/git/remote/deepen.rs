//! The history a shallow clone lacks, fetched once something needs it.

use std::path::Path;

use super::transport::{Direction, RemoteError, call, success};
use super::url::RemoteUrl;
use crate::git::program::Program;
use os::process::Cancel;

/// Fetches all history a shallow clone lacks.
pub(in crate::git) fn deepen(program: &Program, common_dir: &Path, remote: &RemoteUrl) -> Result<(), RemoteError> {
    let args = ["fetch", "--unshallow", "--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"];
    let args = args.into_iter().chain(["--no-auto-maintenance", "--", remote.as_git(), "HEAD"]);
    let finished = call(program, common_dir, args, remote, Direction::Receive, &Cancel::never())?;
    success(finished, remote).map(drop)
}
