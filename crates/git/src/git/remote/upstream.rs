//! What git's configuration says of a branch's remote. It is only read.

use std::path::Path;

use super::url::RemoteUrl;
use crate::git::error::Error;
use crate::git::repo::Repo;
use pleach_core::ids::BranchName;

/// The name at its remote that a branch is configured to follow, else its own.
pub fn upstream_of(repo: &Repo, branch: &BranchName) -> Result<BranchName, Error> {
    let merge = setting(repo, &format!("branch.{branch}.merge"))?;
    let name = merge.as_deref().and_then(|name| name.strip_prefix("refs/heads/")?.parse().ok());
    Ok(name.unwrap_or_else(|| branch.clone()))
}

/// Where people who name no remote push to: the remote of the branch that is checked out, else `origin`.
pub fn default_push_url(repo: &Repo) -> Result<Option<RemoteUrl>, Error> {
    let branch = repo.head()?.branch;
    let configured = match &branch {
        Some(branch) => setting(repo, &format!("branch.{branch}.remote"))?,
        None => None,
    };
    // A branch may follow another of the same repository.
    let name = configured.filter(|name| name != ".").unwrap_or_else(|| "origin".to_owned());
    let found = repo.shared.program.run(repo.common_dir(), ["remote", "get-url", "--push", "--", &name])?;
    if found.code != Some(0) {
        return Ok(None);
    }
    Ok(address(repo, String::from_utf8_lossy(&found.stdout).trim()))
}

/// The names git has for a remote of this address, without a password.
pub(super) fn remotes_at(repo: &Repo, remote: &str) -> Result<Vec<String>, Error> {
    let found = repo.shared.program.run(repo.common_dir(), ["config", "--get-regexp", r"^remote\..*\.url$"])?;
    let listed = String::from_utf8_lossy(&found.stdout);
    let name_of = |line: &str| {
        let (key, url) = line.split_once(' ')?;
        let name = key.strip_prefix("remote.")?.strip_suffix(".url")?;
        (address(repo, url)?.to_string() == remote).then(|| name.to_owned())
    };
    Ok(listed.lines().filter_map(name_of).collect())
}

fn address(repo: &Repo, url: &str) -> Option<RemoteUrl> {
    RemoteUrl::new(url, repo.workdir().unwrap_or(Path::new("/"))).ok()
}

fn setting(repo: &Repo, key: &str) -> Result<Option<String>, Error> {
    let found = repo.shared.program.run(repo.common_dir(), ["config", "--get", key])?;
    Ok((found.code == Some(0)).then(|| String::from_utf8_lossy(&found.stdout).trim().to_owned()))
}
