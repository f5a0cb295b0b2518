//! Opening repositories of every kind, and reading them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use git::{ChangeKind, EntryKind, Error, OLDEST_GIT, Unsupported};
use pleach_core::config::Environment;
use pleach_core::ids::{BranchName, RepoPath};

use super::Sandbox;

fn refusal(sandbox: &Sandbox, dir: &str) -> Error {
    git::discover(&sandbox.path(dir), &sandbox.environment()).unwrap_err()
}

#[test]
fn repositories_are_found_from_any_directory() {
    let sandbox = Sandbox::new();
    sandbox.git("repo", &["worktree", "add", "-q", "--detach", "../linked"]);
    sandbox.git(".", &["clone", "-q", "--bare", "repo", "bare.git"]);
    sandbox.write("repo/src/deep/x", "x");
    let common = sandbox.path("repo/.git").canonicalize().unwrap();
    let head = sandbox.open("repo").head().unwrap();
    assert_eq!(head.branch, Some(BranchName::new("main").unwrap()));
    for dir in ["repo", "repo/src/deep", "repo/.git"] {
        let repo = sandbox.open(dir);
        assert_eq!(repo.common_dir(), common, "{dir}");
        assert_eq!(repo.workdir().unwrap().canonicalize().unwrap(), sandbox.path("repo").canonicalize().unwrap());
        assert!(!repo.is_bare());
        assert_eq!(repo.head().unwrap(), head);
    }
    let linked = sandbox.open("linked");
    assert_eq!(linked.common_dir(), common);
    assert_eq!((linked.head().unwrap().commit, linked.head().unwrap().branch), (head.commit, None));
    assert_eq!(linked.workdir().unwrap().canonicalize().unwrap(), sandbox.path("linked").canonicalize().unwrap());
    let bare = sandbox.open("bare.git");
    assert!(bare.is_bare());
    assert_eq!(bare.head().unwrap(), head);
    assert!(bare.git_version().starts_with("git version "));
}

#[test]
fn variables_that_point_at_another_repository_are_ignored() {
    let sandbox = Sandbox::new();
    sandbox.git(".", &["init", "-q", "other"]);
    let other = sandbox.path("other/.git").to_str().unwrap().to_owned();
    let mut variables = sandbox.variables();
    variables.extend([("GIT_DIR", other.clone()), ("GIT_WORK_TREE", other.clone()), ("GIT_INDEX_FILE", other)]);
    let repo = git::discover(&sandbox.path("repo"), &Environment::from_pairs(variables)).unwrap();
    assert_eq!(repo.common_dir(), sandbox.path("repo/.git").canonicalize().unwrap());
}

#[test]
fn unsupported_features_are_refused_in_one_sentence() {
    let sandbox = Sandbox::new();
    assert!(matches!(refusal(&sandbox, "home"), Error::NotARepository { .. }));
    assert!(refusal(&sandbox, "nowhere").to_string().contains("is not in a git repository; run `git init`"));

    sandbox.git(".", &["init", "-q", "unborn"]);
    assert!(matches!(refusal(&sandbox, "unborn"), Error::Unsupported { feature: Unsupported::UnbornHead, .. }));
    assert!(refusal(&sandbox, "unborn").to_string().contains("has no commit yet; make the first one"));

    sandbox.git(".", &["init", "-q", "-b", "main", "alias"]);
    sandbox.commit("alias", "start");
    sandbox.git("alias", &["symbolic-ref", "refs/heads/other", "refs/heads/main"]);
    sandbox.git("alias", &["symbolic-ref", "HEAD", "refs/heads/other"]);
    let said = refusal(&sandbox, "alias").to_string();
    assert!(said.contains("has `other` checked out, a symbolic ref to `main`; switch to that"), "{said}");

    if sandbox.try_git(".", &["init", "-q", "--object-format=sha256", "sha256"]).is_ok() {
        sandbox.commit("sha256", "start");
        assert!(matches!(refusal(&sandbox, "sha256"), Error::Unsupported { feature: Unsupported::Sha256, .. }));
        assert!(refusal(&sandbox, "sha256").to_string().contains("SHA-256"));
    }
    if sandbox.try_git(".", &["init", "-q", "--ref-format=reftable", "reftable"]).is_ok() {
        sandbox.commit("reftable", "start");
        assert!(matches!(refusal(&sandbox, "reftable"), Error::Unsupported { feature: Unsupported::Reftable, .. }));
        assert!(refusal(&sandbox, "reftable").to_string().contains("reftable"));
    }
}

#[test]
fn a_git_that_is_missing_or_too_old_is_named() {
    let sandbox = Sandbox::new();
    let with_path = |path: &str| Environment::from_pairs([("PATH", path), ("HOME", "/nonexistent")]);
    let error = git::discover(&sandbox.path("repo"), &with_path("/nonexistent")).unwrap_err();
    assert!(matches!(error, Error::GitMissing { .. }), "{error}");
    sandbox.write_program("bin/git", "#!/bin/sh\necho git version 2.37.9\n");
    let error = git::discover(&sandbox.path("repo"), &with_path(sandbox.path("bin").to_str().unwrap())).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("git version 2.37.9 is too old; install git {}.{} or newer", OLDEST_GIT.0, OLDEST_GIT.1)
    );
}

#[test]
fn revisions_commits_and_files_are_read() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/a.txt", "second\n");
    sandbox.git("repo", &["add", "-A"]);
    sandbox.git("repo", &["commit", "-qm", "subject\n\nbody \u{e4}\n"]);
    sandbox.git("repo", &["tag", "-a", "-m", "tag", "v1"]);
    let repo = sandbox.open("repo");
    let head = repo.resolve("HEAD").unwrap();
    assert_eq!(head.to_string(), sandbox.git("repo", &["rev-parse", "HEAD"]));
    assert_eq!(repo.resolve("v1").unwrap(), head);
    assert_eq!(repo.resolve(&head.short()).unwrap(), head);
    let parent = repo.resolve("main~1").unwrap();
    assert!(matches!(repo.resolve("nothing"), Err(Error::NoSuchRevision { .. })));
    let commit = repo.commit(head).unwrap();
    assert_eq!(commit.parents, [parent]);
    assert_eq!(commit.text(), "subject\n\nbody \u{e4}\n");
    assert_eq!((commit.author.name.as_str(), commit.committer.email.as_str()), ("A U Thor", "committer@example.com"));
    assert_eq!(commit.at.as_second(), 1_700_000_000);
    assert_eq!(commit.tree, repo.tree_of(head).unwrap());
    assert_eq!(repo.tree_file(commit.tree, &"src/b.txt".into()).unwrap().unwrap(), b"b\n");
    assert_eq!(repo.tree_file(commit.tree, &"src".into()).unwrap(), None);
    assert_eq!(repo.tree_file(commit.tree, &"no/such".into()).unwrap(), None);
    let entries = repo.tree_entries(commit.tree).unwrap();
    let kinds: Vec<_> = entries.iter().map(|entry| (entry.path.to_string(), entry.kind)).collect();
    let expected = [("a.txt", EntryKind::File), ("run.sh", EntryKind::Executable), ("src", EntryKind::Directory)];
    assert_eq!(kinds, expected.map(|(name, kind)| (name.to_owned(), kind)));
    assert_eq!(repo.blob(entries[0].id).unwrap(), b"second\n");
    assert!(matches!(repo.commit("0".repeat(40).parse().unwrap()), Err(Error::Object { kind: "commit", .. })));
}

#[test]
fn packs_that_come_while_a_repository_is_open_are_read() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    // One by one, as fetches leave them.
    let pack = "for n in $(seq 100); do echo $n | git hash-object -w --stdin | git pack-objects -q .git/objects/pack/pack; \
        done; git prune-packed -q; echo 100 | git hash-object --stdin";
    let last = sandbox.git("repo", &["-c", &format!("alias.many=!{pack}"), "many"]);
    let last = last.lines().last().unwrap().parse().unwrap();
    assert_eq!(repo.blob(last).unwrap(), b"100\n");
}

#[test]
fn replaced_objects_are_ignored() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/a.txt", "second\n");
    sandbox.commit("repo", "second");
    // Whatever the user has set.
    sandbox.git("repo", &["config", "core.useReplaceRefs", "true"]);
    sandbox.git("repo", &["replace", "HEAD", "HEAD~1"]);
    let repo = sandbox.open("repo");
    let head = repo.head().unwrap().commit;
    assert_eq!(repo.commit(head).unwrap().text(), "second\n");
    assert_eq!(repo.tree_file(repo.tree_of(head).unwrap(), &"a.txt".into()).unwrap().unwrap(), b"second\n");
    // Nor by the git program, which makes the files.
    let _worktree = sandbox.worktree(&repo);
    assert_eq!(fs::read(sandbox.path("work trees/one/a.txt")).unwrap(), b"second\n");
}

#[test]
fn ancestors_are_distinguished_from_unrelated_commits() {
    let sandbox = Sandbox::new();
    sandbox.git("repo", &["checkout", "-q", "-b", "side"]);
    sandbox.commit("repo", "side");
    sandbox.git("repo", &["checkout", "-q", "main"]);
    sandbox.commit("repo", "main");
    sandbox.git("repo", &["checkout", "-q", "--orphan", "stranger"]);
    sandbox.commit("repo", "stranger");
    let repo = sandbox.open("repo");
    let [base, main, side, stranger] = ["main~1", "main", "side", "stranger"].map(|spec| repo.resolve(spec).unwrap());
    assert!(repo.history().is_ancestor(base, main).unwrap() && repo.history().is_ancestor(main, main).unwrap());
    assert!(!repo.history().is_ancestor(main, side).unwrap() && !repo.history().is_ancestor(main, base).unwrap());
    assert_eq!(repo.history().merge_base(main, side).unwrap(), Some(base));
    assert_eq!(repo.history().merge_base(main, stranger).unwrap(), None);
}

#[test]
fn differences_are_reported_path_by_path() {
    let sandbox = Sandbox::new();
    sandbox.write("repo/was-dir/x", "x\n");
    sandbox.write("repo/was-file", "f\n");
    sandbox.commit("repo", "old");
    fs::remove_dir_all(sandbox.path("repo/was-dir")).unwrap();
    sandbox.write("repo/was-dir", "now a file\n");
    fs::remove_file(sandbox.path("repo/was-file")).unwrap();
    sandbox.write("repo/was-file/y", "y\n");
    sandbox.write("repo/a.txt", "a\nmore\n");
    fs::write(sandbox.path("repo").join(OsStr::from_bytes(b"\xff")), b"\0binary").unwrap();
    sandbox.commit("repo", "new");
    let repo = sandbox.open("repo");
    let [old, new] = ["HEAD~1", "HEAD"].map(|spec| repo.tree_of(repo.resolve(spec).unwrap()).unwrap());
    let changes = git::diff::changes(&repo, old, new).unwrap();
    let shown: Vec<_> = changes
        .iter()
        .map(|change| {
            let letter = match change.kind {
                ChangeKind::Added(..) => 'A',
                ChangeKind::Removed(..) => 'D',
                ChangeKind::Modified(..) => 'M',
            };
            (letter, change.path.clone())
        })
        .collect();
    let path = |name: &str| RepoPath::from(name);
    let expected = [
        ('M', path("a.txt")),
        ('A', path("was-dir")),
        ('D', path("was-dir/x")),
        ('D', path("was-file")),
        ('A', path("was-file/y")),
        ('A', RepoPath::new(&b"\xff"[..])),
    ];
    assert_eq!(shown, expected);
    assert!(git::diff::changes(&repo, new, new).unwrap().is_empty());

    sandbox.git("repo", &["config", "diff.external", "false"]);
    sandbox.git("repo", &["config", "color.ui", "always"]);
    let patch = git::diff::patch(&repo, old, new, &[path("a.txt")]).unwrap();
    assert!(patch.starts_with("diff --git a/a.txt b/a.txt\n") && patch.ends_with("+more\n"), "{patch}");
    assert!(git::diff::patch(&repo, old, new, &[]).unwrap().contains("was-file/y"));
    let stat = git::diff::stat(&repo, old, new).unwrap();
    assert_eq!(stat.iter().find(|file| file.path == path("a.txt")).unwrap().lines, Some((1, 0)));
    assert_eq!(stat.iter().find(|file| file.path.as_bytes() == b"\xff").unwrap().lines, None);
}

#[test]
fn a_broken_commit_graph_is_done_without() {
    let sandbox = Sandbox::new();
    let commit = |message| {
        sandbox.write("repo/new", message);
        sandbox.commit("repo", message);
        sandbox.open("repo").head().unwrap().commit
    };
    let base = commit("base");
    sandbox.git("repo", &["switch", "-q", "-c", "beside"]);
    let one = commit("one");
    sandbox.git("repo", &["switch", "-q", "-"]);
    let two = commit("two");
    sandbox.git("repo", &["commit-graph", "write", "--reachable"]);
    let graph = sandbox.path("repo/.git/objects/info/commit-graph");
    let whole = fs::read(&graph).unwrap();
    fs::remove_file(&graph).unwrap();
    // Cut off, and with what it says of commits overwritten.
    let garbled: Vec<u8> = whole.iter().enumerate().map(|(at, byte)| if at < 1200 { *byte } else { 0xff }).collect();
    for content in [&b"short"[..], &whole[..whole.len() / 2], &garbled, &whole] {
        fs::write(&graph, content).unwrap();
        let repo = sandbox.open("repo");
        assert_eq!(repo.history().merge_base(one, two).unwrap(), Some(base));
    }
}
