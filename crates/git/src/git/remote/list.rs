//! What a remote has.

use std::collections::BTreeMap;
use std::path::Path;

use super::transport::{Direction, RemoteError, call, success};
use super::url::RemoteUrl;
use crate::git::program::Program;
use crate::git::repo::Repo;
use os::process::Cancel;
use pleach_core::config::Environment;
use pleach_core::ids::CommitId;

/// The refs of a remote that match one of `patterns`, as `git ls-remote` takes them, with what each names. It needs no
/// repository here.
pub fn list_refs(
    remote: &RemoteUrl,
    patterns: &[&str],
    environment: &Environment,
    cancel: &Cancel,
) -> Result<BTreeMap<String, CommitId>, RemoteError> {
    list_from(&Program::new(environment), Path::new("/"), remote, patterns, cancel)
}

/// The same, asked from a repository, whose settings may say how its remotes are reached.
pub fn list_refs_from(
    repo: &Repo,
    remote: &RemoteUrl,
    patterns: &[&str],
    cancel: &Cancel,
) -> Result<BTreeMap<String, CommitId>, RemoteError> {
    list_from(&repo.shared.program, repo.common_dir(), remote, patterns, cancel)
}

/// The same, asked from a directory.
fn list_from(
    program: &Program,
    dir: &Path,
    remote: &RemoteUrl,
    patterns: &[&str],
    cancel: &Cancel,
) -> Result<BTreeMap<String, CommitId>, RemoteError> {
    let args = ["ls-remote", "--quiet", "--refs", "--", remote.as_git()].into_iter().chain(patterns.iter().copied());
    let finished = call(program, dir, args, remote, Direction::Receive, cancel)?;
    Ok(parse(&String::from_utf8_lossy(&success(finished, remote)?)))
}

/// `id TAB name` a line.
fn parse(listed: &str) -> BTreeMap<String, CommitId> {
    let lines = listed.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(id, name)| Some((name.to_owned(), id.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_refs_are_read() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let listed = parse(&format!("{id}\trefs/heads/a\n{id}\trefs/pleach/sessions/x/main\nwarning: x\n"));
        assert_eq!(listed.keys().collect::<Vec<_>>(), ["refs/heads/a", "refs/pleach/sessions/x/main"]);
        assert_eq!(listed["refs/heads/a"].to_string(), id);
    }
}
