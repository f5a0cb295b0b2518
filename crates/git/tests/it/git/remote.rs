//! Remotes by their addresses.

use std::collections::BTreeMap;

use git::Repo;
use git::remote::{self, CloneRequest, PushRef, RefPush, RemoteError, RemoteUrl};
use os::process::Cancel;
use pleach_core::ids::{BranchName, RepoName};

use super::Sandbox;

fn address(sandbox: &Sandbox) -> RemoteUrl {
    RemoteUrl::new("remote.git", &sandbox.path("")).expect("an address")
}

/// A bare repository with the branches `main` and `topic`, which have three commits each, two of them in common.
fn with_remote() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("repo/common.txt", "1\n");
    sandbox.commit("repo", "common");
    for branch in ["topic", "main"] {
        sandbox.git("repo", &["switch", "-q", "-C", branch, "main"]);
        sandbox.write(&format!("repo/{branch}.txt"), "1\n");
        if branch == "topic" {
            sandbox.commit("repo", "on topic");
        }
    }
    sandbox.git("repo", &["switch", "-q", "main"]);
    sandbox.commit("repo", "on main");
    sandbox.git(".", &["clone", "-q", "--bare", "repo", "remote.git"]);
    sandbox
}

fn cloned(sandbox: &Sandbox, depth: Option<u32>) -> Repo {
    let (remote, path) = (address(sandbox), sandbox.path("below/clone"));
    let request = CloneRequest { remote: &remote, path: &path, depth };
    remote::clone(&request, &sandbox.environment(), &Cancel::never()).expect("it is cloned");
    git::discover(&path, &sandbox.environment()).expect("a repository")
}

fn branch(name: &str) -> BranchName {
    name.parse().expect("a name")
}

#[test]
fn what_is_pushed_is_listed_and_nothing_is_configured() {
    let sandbox = with_remote();
    let repo = cloned(&sandbox, None);
    let config = std::fs::read(repo.common_dir().join("config")).expect("a config");
    let (remote, name) = (address(&sandbox), RepoName::new("my repo").expect("a name"));
    remote::fetch(&repo, &name, &remote, None, &Cancel::never()).expect("it is fetched");
    let topic = repo.resolve(&remote::fetched_ref(&name, &branch("topic"))).expect("a branch");
    let main = repo.head().expect("a head").commit;
    let refs = [("refs/heads/new", main), ("refs/pleach/sessions/abcdefgh/main", topic), ("refs/heads/main", main)];
    let pushed = refs.map(|(name, commit)| PushRef { name: name.into(), commit });
    let report = remote::push(&repo, &remote, &pushed, &Cancel::never()).expect("it is pushed");
    assert!(report.is_done(), "{report:?}");
    // Not a fast-forward: all or none.
    let pushed = [("refs/heads/main", topic), ("refs/heads/more", main)];
    let pushed = pushed.map(|(name, commit)| PushRef { name: name.into(), commit });
    let report = remote::push(&repo, &remote, &pushed, &Cancel::never()).expect("the remote answers");
    let results: Vec<RefPush> = report.refs.into_iter().map(|pushed| pushed.result).collect();
    assert_eq!(results, [RefPush::NonFastForward, RefPush::WithOthers]);
    let patterns = ["refs/heads/*", "refs/pleach/*"];
    let listed = remote::list_refs(&remote, &patterns, &sandbox.environment(), &Cancel::never()).expect("a list");
    let expected = refs.into_iter().chain([("refs/heads/topic", topic)]);
    assert_eq!(listed, expected.map(|(name, commit)| (name.to_owned(), commit)).collect::<BTreeMap<_, _>>());
    assert_eq!(std::fs::read(repo.common_dir().join("config")).expect("a config"), config);
    assert!(!repo.common_dir().join("FETCH_HEAD").exists());
}

#[test]
fn a_shallow_clone_is_deepened_to_merge() {
    let sandbox = with_remote();
    let repo = cloned(&sandbox, Some(1));
    let (remote, name) = (address(&sandbox), RepoName::new("repo").expect("a name"));
    sandbox.git("below/clone", &["fetch", "-q", "--depth=1", "origin", "topic:topic"]);
    let (main, topic) = (repo.resolve("main").expect("a commit"), repo.resolve("topic").expect("a commit"));
    assert_eq!(repo.history().merge_base(main, topic).expect("an answer"), None, "nobody knows where to look");
    repo.deepen_from(remote.clone());
    let merged = git::merge::merge_commits(&repo, main, topic).expect("it merges");
    assert_eq!(repo.tree_entries(merged).expect("a tree").len(), 6);
    assert!(!repo.history().is_shallow().expect("an answer"));
    remote::fetch(&repo, &name, &remote, None, &Cancel::never()).expect("it is fetched");
}

#[test]
fn a_clone_that_is_stopped_leaves_nothing() {
    let sandbox = with_remote();
    let (remote, path) = (address(&sandbox), sandbox.path("below/clone"));
    let (canceller, cancel) = Cancel::new();
    canceller.kill();
    let hangs = "#!/bin/sh\nsleep 600\n";
    sandbox.write("hangs.sh", hangs);
    let environment = sandbox.environment();
    let slow = RemoteUrl::new("ssh://localhost/x", &path).expect("an address");
    let ssh = format!("sh '{}'", sandbox.path("hangs.sh").display());
    let environment = pleach_core::config::Environment::from_pairs(
        environment
            .iter()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .chain([("GIT_SSH_COMMAND".to_owned(), ssh)]),
    );
    let request = CloneRequest { remote: &slow, path: &path, depth: None };
    let error = remote::clone(&request, &environment, &cancel).expect_err("it is stopped");
    assert!(matches!(error, RemoteError::Stopped { .. }), "{error}");
    assert!(!sandbox.path("below").exists(), "nor the directories it has made");
    // What a killed process has left is removed by the next clone.
    let stale = sandbox.path("below/.clone.clone-999999999");
    std::fs::create_dir_all(&stale).expect("a directory");
    let request = CloneRequest { remote: &remote, path: &path, depth: None };
    remote::clone(&request, &environment, &Cancel::never()).expect("it is cloned");
    assert!(!stale.exists() && path.join(".git").is_dir());
}
