//! Fetching branches, into refs of pleach's own.

use super::transport::{Direction, RemoteError, call, success};
use super::upstream::remotes_at;
use super::url::RemoteUrl;
use crate::git::error::Error;
use crate::git::repo::Repo;
use os::process::Cancel;
use pleach_core::ids::{BranchName, CommitId, RepoName};

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

/// Fetches the branches of a remote, or in a shallow clone only those that match, as refspecs do: the others would bring all
/// their history.
pub fn fetch(
    repo: &Repo,
    name: &RepoName,
    remote: &RemoteUrl,
    in_shallow: Option<&str>,
    cancel: &Cancel,
) -> Result<(), RemoteError> {
    let is_shallow = repo.history().is_shallow()?;
    let branches = match in_shallow {
        Some(branches) if is_shallow => branches,
        None if is_shallow => return Ok(()),
        _ => "*",
    };
    let refspec = format!("+refs/heads/{branches}:{}heads/{branches}", prefix(name));
    let mut args = vec!["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"];
    args.extend(["--no-auto-maintenance", "--no-show-forced-updates"]);
    // A branch that is gone would be in the way of one below its name.
    args.extend((!is_shallow).then_some("--prune"));
    args.extend(["--", remote.as_git(), &refspec]);
    let finished = call(&repo.shared.program, repo.common_dir(), args, remote, Direction::Receive, cancel)?;
    success(finished, remote).map(drop)
}

/// The branches of a remote, by its address without a password, as they were cloned or fetched last, by their full names
/// there.
pub fn fetched_branches(repo: &Repo, name: &RepoName, remote: &str) -> Result<Vec<(String, CommitId)>, Error> {
    let cloned = remotes_at(repo, remote)?.into_iter().map(|remote| format!("refs/remotes/{remote}/"));
    let mut found = Vec::new();
    for place in cloned.chain([format!("{}heads/", prefix(name))]) {
        let named = |(name, at): (String, CommitId)| Some((format!("refs/heads/{}", name.strip_prefix(&place)?), at));
        found.extend(repo.refs().list(&place)?.into_iter().filter_map(named));
    }
    Ok(found)
}
