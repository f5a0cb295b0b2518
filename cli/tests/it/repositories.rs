//! The kinds of repositories there are: those pleach works in, and those it refuses with clear words.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::json;

use crate::sessions::{Story, graph, tool};
use crate::support::{Checkout, Ran, TestEnv};

fn one(command: &str) -> String {
    graph("one", &(tool("work", command) + "start -> work -> exit"))
}

/// Runs a pipeline on a repository and gives the session's branch, tip and story.
#[track_caller]
fn run_on(env: &TestEnv, repo: &Path, dot: &str) -> (Ran, String, Story) {
    let before = env.git_in(repo, &["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]);
    env.pipeline(dot);
    let pipeline = env.root().join("pipeline.dot");
    let mut command = env.command(&["-y", "run", pipeline.to_str().expect("a path of the test's own"), "--repo"]);
    let ran = env.finish(command.arg(repo).output().expect("pleach can be started")).expect(0);
    let after = env.git_in(repo, &["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]);
    let new = after.lines().find(|name| !before.lines().any(|old| old == *name)).expect("a new session");
    let session = new.split('/').nth(3).expect("a session id").to_owned();
    (ran, format!("pleach/one/{session}"), Story::of(env, repo, &session))
}

// ---- works

#[test]
fn a_repository_on_master_works() {
    let env = TestEnv::with_repo();
    env.git(&["branch", "--quiet", "-m", "main", "master"]);
    let (ran, branch, story) = run_on(&env, &env.repo_path(), &one("echo 1 > one"));
    assert_eq!(story.first("PipelineStarted")["targets"]["repo"], "master");
    assert!(ran.stdout.contains(&format!("git switch master && git merge {branch}")), "{ran}");
    assert_eq!(env.git(&["show", &format!("{branch}:one")]), "1");
}

#[test]
fn a_detached_head_works() {
    let env = TestEnv::with_repo();
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "Newer"]);
    env.git(&["checkout", "--quiet", "--detach", "HEAD^"]);
    let head = env.git(&["rev-parse", "HEAD"]);
    let before = Checkout::of(&env, &env.repo_path());
    let (ran, branch, story) = run_on(&env, &env.repo_path(), &one("echo 1 > one"));
    before.assert_unchanged(&env, &env.repo_path());
    assert_eq!(story.first("PipelineStarted")["base"], json!({"repo": head}));
    assert_eq!(story.first("PipelineStarted")["targets"], json!({}));
    assert!(ran.stdout.contains(&format!("merge:   git merge {branch}")), "{ran}");
    assert_eq!(env.git(&["rev-parse", &format!("{branch}^")]), head);
}

#[test]
fn a_linked_worktree_works() {
    let env = TestEnv::with_repo();
    let linked = env.root().join("linked");
    env.git(&["worktree", "add", "--quiet", "-b", "feature", linked.to_str().unwrap()]);
    env.write("linked/feature.txt", "1\n");
    env.git_in(&linked, &["add", "."]);
    env.git_in(&linked, &["commit", "--quiet", "-m", "Feature"]);
    env.write("linked/dirty", "not committed\n");
    let (main, link_file) = (Checkout::of(&env, &env.repo_path()), fs::read(linked.join(".git")).unwrap());
    let (ran, branch, story) = run_on(&env, &linked, &one("cat feature.txt > one"));
    assert_eq!(story.first("PipelineStarted")["targets"], json!({"linked": "feature"}));
    assert_eq!(env.git(&["show", &format!("{branch}:one")]), "1");
    // The files of that checkout are checked.
    ran.warns("dirty-files").naming("`dirty`");
    main.assert_unchanged(&env, &env.repo_path());
    assert_eq!(fs::read(linked.join(".git")).unwrap(), link_file);
    assert_eq!(env.git_in(&linked, &["status", "--porcelain"]), "?? dirty");
    assert_eq!(env.git_in(&linked, &["branch", "--show-current"]), "feature");
}

#[test]
fn a_bare_repository_works() {
    let env = TestEnv::with_repo();
    let bare = env.root().join("project.git");
    env.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let (_, branch, story) = run_on(&env, &bare, &one("cat README.md > one"));
    assert_eq!(env.git_in(&bare, &["show", &format!("{branch}:one")]), "# A repository");
    let base = story.first("PipelineStarted")["base"].clone();
    assert_eq!(base, json!({"project": env.git(&["rev-parse", "main"])}), "named after its directory");
    assert_eq!(env.git_in(&bare, &["rev-parse", "--is-bare-repository"]), "true");
}

#[test]
fn a_replaced_head_works() {
    let env = TestEnv::with_repo();
    let head = env.git(&["rev-parse", "HEAD"]);
    let other = env.git(&["commit-tree", "-m", "Another", &env.git(&["mktree", "--missing"])]);
    env.git(&["replace", &head, &other]);
    let (_, branch, _) = run_on(&env, &env.repo_path(), &one("echo 1 > one"));
    assert_eq!(env.git(&["show", &format!("{branch}:one")]), "1");
    assert_eq!(env.git(&["--no-replace-objects", "rev-parse", &format!("{branch}~1")]), head);
}

#[test]
fn paths_with_spaces_and_other_scripts_work() {
    let env = TestEnv::new();
    let repo = env.repo_at("my répo – 仓库 'q'");
    let before = Checkout::of(&env, &repo);
    let command = "mkdir -p 'ein ordner' && echo 1 > 'ein ordner/größe 大 \"x\".txt' && printf 2 > '  leading'";
    let (_, branch, story) = run_on(&env, &repo, &one(command));
    before.assert_unchanged(&env, &repo);
    let files = story.first("ToolExecution")["files_written"].clone();
    let paths = files.as_object().unwrap().values().next().unwrap();
    assert_eq!(*paths, json!(["  leading", "ein ordner/größe 大 \"x\".txt"]));
    assert_eq!(env.git_in(&repo, &["show", &format!("{branch}:ein ordner/größe 大 \"x\".txt")]), "1");
}

#[test]
fn file_names_that_are_not_utf8_work() {
    let env = TestEnv::with_repo();
    let command = r#"n=$(printf 'caf\351'); echo 1 > "$n"; mkdir "d$n"; echo 2 > "d$n/x"; printf 'new\nline' > "$(printf 'a\nb')""#;
    let (_, branch, story) = run_on(&env, &env.repo_path(), &one(command));
    let written = story.first("ToolExecution")["files_written"]["repo"].clone();
    assert_eq!(written, json!(["a\nb", {"bytes": "Y2Fm6Q=="}, {"bytes": "ZGNhZukveA=="}]));
    let listed = env.git(&["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", &branch]);
    assert_eq!(listed, "README.md\n\"a\\nb\"\n\"caf\\351\"\n\"dcaf\\351/x\"");
    // And back: a worktree that is made again has them.
    let session = story.session;
    let worktree = env.worktree();
    assert!(worktree.join(OsStr::from_bytes(b"caf\xe9")).exists(), "{session}");
}

#[test]
fn filters_of_attributes_are_applied() {
    let env = TestEnv::with_repo();
    // Shaped like git-lfs: content is replaced on the way in and restored on the way out.
    env.git(&["config", "filter.lfs.clean", "tr a-z n-za-m"]);
    env.git(&["config", "filter.lfs.smudge", "tr a-z n-za-m"]);
    env.git(&["config", "filter.lfs.required", "true"]);
    env.write("repo/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\n");
    env.write("repo/old.bin", "hello\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Large files"]);
    assert_eq!(env.git(&["cat-file", "-p", "HEAD:old.bin"]), "uryyb");
    let before = Checkout::of(&env, &env.repo_path());
    let command = "cp old.bin new.bin; printf 'a\\r\\nb\\r\\n' > lines.txt";
    let (_, branch, story) = run_on(&env, &env.repo_path(), &one(command));
    before.assert_unchanged(&env, &env.repo_path());
    assert_eq!(env.git(&["cat-file", "-p", &format!("{branch}:new.bin")]), "uryyb", "cleaned on the way in");
    assert_eq!(env.git(&["cat-file", "-p", &format!("{branch}:lines.txt")]), "a\nb");
    assert_eq!(fs::read_to_string(env.worktree().join("new.bin")).unwrap(), "hello\n");
    assert_eq!(story.first("ToolExecution")["files_written"]["repo"], json!(["lines.txt", "new.bin"]));
    assert_eq!(env.git_in(&env.worktree(), &["status", "--porcelain"]), "", "git agrees that nothing is left");
}

#[test]
fn hooks_and_signing_of_the_user_do_not_take_part() {
    let env = TestEnv::with_repo();
    let marker = env.root().join("hook-ran");
    for hook in [
        "pre-commit",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "prepare-commit-msg",
    ] {
        env.write_program(
            format!("repo/.git/hooks/{hook}"),
            &format!("#!/bin/sh\necho {hook} >> '{}'\nexit 1\n", marker.display()),
        );
    }
    env.git(&["config", "commit.gpgsign", "true"]);
    env.git(&["config", "gpg.program", "/nowhere/gpg"]);
    let before = Checkout::of(&env, &env.repo_path());
    env.run(&one("echo 1 > one"), &[]).expect(0);
    assert_eq!(env.committed("one"), "1");
    assert!(!marker.exists(), "{}", fs::read_to_string(&marker).unwrap_or_default());
    before.assert_unchanged(&env, &env.repo_path());
}

#[test]
fn variables_that_point_at_another_repository_do_not_lead_there() {
    let env = TestEnv::with_repo();
    let other = env.repo_at("other");
    env.pipeline(&one("git rev-parse --show-toplevel > top"));
    let before = Checkout::of(&env, &other);
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    command
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_WORK_TREE", &other)
        .env("GIT_INDEX_FILE", other.join(".git/index"));
    env.finish(command.output().expect("pleach can be started")).expect(0);
    assert_eq!(env.committed("top"), env.worktree().to_str().unwrap());
    before.assert_unchanged(&env, &other);
    assert_eq!(env.git_in(&other, &["for-each-ref", "refs/pleach"]), "");
}

// ---- refused

#[track_caller]
fn refused(env: &TestEnv, repo: &Path) -> Ran {
    env.write("pipeline.dot", one("true"));
    let ran = env.pleach(&["-y", "run", "pipeline.dot", "--repo", repo.to_str().unwrap()]).expect(2);
    assert_eq!(env.git_in(repo, &["for-each-ref", "refs/pleach"]), "", "nothing is written");
    ran
}

fn init(env: &TestEnv, name: &str, options: &[&str]) -> std::path::PathBuf {
    let repo = env.root().join(name);
    env.git_in(env.root(), &[&["init", "--quiet"], options, &[name]].concat());
    repo
}

#[test]
fn a_reftable_repository_is_refused() {
    let env = TestEnv::new();
    let knows = env.program("git", env.root()).args(["init", "--quiet", "--ref-format=reftable", "probe"]).output();
    if !knows.expect("git can be started").status.success() {
        return; // A git before 2.45 knows no such repositories.
    }
    let repo = init(&env, "tables", &["--ref-format=reftable"]);
    env.git_in(&repo, &["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    insta::assert_snapshot!(refused(&env, &repo), @"
    exit: 2
    --- stderr
    error[repository-unsupported]: `[TEMP]/tables` keeps its refs in a reftable, which pleach does not support
    hint: `git refs migrate --ref-format=files` changes that
    ");
}

#[test]
fn a_sha256_repository_is_refused() {
    let env = TestEnv::new();
    let repo = init(&env, "long-ids", &["--object-format=sha256"]);
    env.git_in(&repo, &["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    insta::assert_snapshot!(refused(&env, &repo), @"
    exit: 2
    --- stderr
    error[repository-unsupported]: `[TEMP]/long-ids` uses SHA-256 object ids, which pleach does not support
    hint: use a repository with SHA-1 ids
    ");
}

#[test]
fn a_repository_without_a_commit_is_refused() {
    let env = TestEnv::new();
    let repo = init(&env, "empty", &[]);
    insta::assert_snapshot!(refused(&env, &repo), @"
    exit: 2
    --- stderr
    error[repository-unsupported]: `[TEMP]/empty` has no commit yet
    hint: make the first one with `git commit --allow-empty -m start`
    ");
}

#[test]
fn an_unborn_branch_is_refused_by_name() {
    let env = TestEnv::new();
    let repo = env.repo_at("orphan");
    env.git_in(&repo, &["branch", "another"]);
    env.git_in(&repo, &["switch", "--quiet", "--orphan", "fresh"]);
    insta::assert_snapshot!(refused(&env, &repo), @"
    exit: 2
    --- stderr
    error[repository-unsupported]: `[TEMP]/orphan` has no commit on `fresh`, the branch HEAD names
    hint: switch to one that has some with `git switch main`
    ");
    let bare = init(&env, "bare", &["--bare", "-b", "master"]);
    env.git_in(&repo, &["push", "--quiet", bare.to_str().unwrap(), "main"]);
    insta::assert_snapshot!(refused(&env, &bare), @"
    exit: 2
    --- stderr
    error[repository-unsupported]: `[TEMP]/bare` has no commit on `master`, the branch HEAD names
    hint: switch to one that has some with `git symbolic-ref HEAD refs/heads/main`
    ");
    env.git_in(&bare, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    let clone = init(&env, "clone", &["-b", "trunk"]);
    env.git_in(&clone, &["remote", "add", "origin", bare.to_str().unwrap()]);
    env.git_in(&clone, &["fetch", "--quiet", "origin"]);
    let ran = refused(&env, &clone);
    ran.fails_with("repository-unsupported").naming("`git switch main`");
    ran.fails_with("repository-unsupported").naming("`trunk`");
    env.git_in(&clone, &["switch", "--quiet", "main"]);
}

#[test]
fn a_branch_in_the_way_of_session_branches_is_refused() {
    let env = TestEnv::with_repo();
    env.git(&["branch", "pleach"]);
    let ran = env.run(&one("true"), &[]).expect(2);
    let message = "beside your branch `pleach`\nhint: change `branch_prefix` of the repository in pleach.yaml\n";
    assert!(ran.stderr.ends_with(message), "{ran}");
    assert!(env.sessions().is_empty(), "nothing is begun");
    env.configure("workspace: {repos: {repo: {path: repo, branch_prefix: agents/}}}\n");
    env.run(&one("true"), &[]).expect(0);
}
