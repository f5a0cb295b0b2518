//! Fetching branches, into refs of pleach's own.

use super::transport::{Direction, RemoteError, call, success};
use super::url::RemoteUrl;
use crate::git::repo::Repo;
use crate::ids::{BranchName, RepoName};
use crate::process::Cancel;

/// Under this prefix are the branches of remotes, as they were fetched last.
pub const FETCHED: &str = "refs/pleach/remote/";

/// The ref a branch of a repository's remote is fetched to.
pub fn fetched_ref(repo: &RepoName, branch: &BranchName) -> String {
    format!("{}heads/{branch}", prefix(repo))
}

/// The prefix of a repository's refs. Its name may hold what no ref may.
fn prefix(repo: &RepoName) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let part = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("{FETCHED}{}/", repo.as_str().bytes().map(part).collect::<String>())
}

/// Fetches the branches of a remote, or in a shallow clone only `branch`: the others would bring all their history.
pub fn fetch(
    repo: &Repo,
    name: &RepoName,
    remote: &RemoteUrl,
    branch: Option<&BranchName>,
    cancel: &Cancel,
) -> Result<(), RemoteError> {
    let is_shallow = repo.history().is_shallow()?;
    let refspec = match branch.filter(|_| is_shallow) {
        Some(branch) => format!("+refs/heads/{branch}:{}", fetched_ref(name, branch)),
        None if is_shallow => return Ok(()),
        None => format!("+refs/heads/*:{}heads/*", prefix(name)),
    };
    let mut args = vec!["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"];
    args.extend(["--no-auto-maintenance", "--no-show-forced-updates"]);
    // A branch that is gone would be in the way of one below its name.
    args.extend((!is_shallow).then_some("--prune"));
    args.extend(["--", remote.as_git(), &refspec]);
    let finished = call(&repo.shared.program, repo.common_dir(), args, (remote, Direction::Receive), cancel)?;
    success(finished, remote).map(drop)
}
