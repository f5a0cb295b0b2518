//! Work that must not be lost, and worktrees that cannot be made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{APPROVES, Garden, Tree};

/// A pipeline of one command.
fn one(command: &str) -> String {
    graph("one", &(tool("work", command) + "start -> work -> exit"))
}

fn commit_all(env: &TestEnv, message: &str) {
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "-m", message]);
}

// ---- 1: moved files, and what is held back

#[test]
fn n01_many_moved_files_are_committed_whole() {
    let env = TestEnv::with_repo();
    env.configure("commit: {max_new_files: 20}\n");
    for i in 0..30 {
        env.write(format!("repo/src/{i}"), format!("{i}\n"));
    }
    commit_all(&env, "Many");
    env.run(&one("mv src lib; cp -r lib again"), &[]).expect(0);
    let files = env.files();
    let below = |dir: &str| files.iter().filter(|path| path.starts_with(dir)).count();
    assert_eq!((below("src/"), below("lib/"), below("again/")), (0, 30, 30));
    assert_eq!(env.committed("lib/29"), "29");
}

#[test]
fn n01_a_moved_large_file_is_committed() {
    let env = TestEnv::with_repo();
    env.configure("commit: {max_file_mb: 1}\n");
    env.write("repo/large.bin", vec![b'x'; 2 << 20]);
    commit_all(&env, "Large");
    let before = env.git(&["rev-parse", "HEAD:large.bin"]);
    env.run(&one("mkdir data; mv large.bin data/moved.bin"), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "data/moved.bin"]);
    assert_eq!(env.git(&["rev-parse", &format!("{}:data/moved.bin", env.branch())]), before);
}

#[test]
fn n01_held_back_files_hold_deletions_and_fail_the_node() {
    let env = TestEnv::with_repo();
    env.configure("commit: {max_new_files: 2, max_file_mb: 1}\n");
    for name in ["a", "b", "c"] {
        env.write(format!("repo/src/{name}"), name);
    }
    commit_all(&env, "Three");
    let work = tool("work", "mkdir lib; for f in a b c; do echo new-$f > lib/$f; rm src/$f; done; mv README.md READ");
    let edges = "start -> work; work -> exit [condition=\"outcome=success\"]; work -> fix [condition=\"outcome=fail\"]; fix -> exit";
    let ran = env.run(&graph("one", &(work.clone() + "start -> work -> exit")), &[]).expect(1);
    assert!(ran.stdout.contains("3 files are held back, and no deletion is committed with that"), "{ran}");
    ran.warns("file-held-back").naming("`lib/a`");
    assert!(ran.stdout.contains("`commit.max_new_files`"), "{ran}");
    assert_eq!(env.files(), ["READ", "README.md", "src/a", "src/b", "src/c"], "what was moved is known content");
    // Once nothing is held back, the deletions are committed.
    let env2 = TestEnv::with_repo();
    env2.configure("commit: {max_new_files: 2, max_file_mb: 1}\n");
    env2.write("repo/src/a", "a");
    commit_all(&env2, "One");
    let work = tool("work", "rm -r src; truncate -s 2M large.bin");
    env2.run(&graph("two", &(work + &tool("fix", "rm large.bin; echo small > small") + edges)), &[]).expect(0);
    assert_eq!(env2.files(), ["README.md", "small"]);
}

/// Puts five files into the repository, and a limit of three new ones.
fn five_tracked(env: &TestEnv) {
    env.configure("commit: {max_new_files: 3}\n");
    for i in 1..=5 {
        env.write(format!("repo/src/{i}"), format!("{i}\n"));
    }
    commit_all(env, "Five");
}

#[test]
fn n01_what_a_commit_had_before_is_not_new() {
    for again in ["git checkout -q HEAD~1 -- src", "git revert --no-edit HEAD"] {
        let env = TestEnv::with_repo();
        five_tracked(&env);
        let nodes = tool("a", "rm -r src") + &tool("b", again) + "start -> a -> b -> exit";
        env.run(&graph("two", &nodes), &[]).expect(0);
        assert_eq!(env.files().iter().filter(|path| path.starts_with("src/")).count(), 5, "{again}");
    }
}

#[test]
fn n01_what_another_branch_has_is_not_new() {
    for (is_bound, before) in [(true, "true"), (true, "echo 1 > one"), (false, "true"), (false, "echo 1 > one")] {
        let env = TestEnv::with_repo();
        if !is_bound {
            env.unbound();
        }
        env.git(&["switch", "--quiet", "-c", "feat"]);
        five_tracked(&env);
        env.git(&["switch", "--quiet", "main"]);
        // It is merged with a commit of its own, or by moving HEAD alone.
        let nodes = tool("a", before) + &tool("b", "git merge -q --no-edit feat") + "start -> a -> b -> exit";
        env.run(&graph("two", &nodes), &[]).expect(0);
        assert_eq!(env.committed("src/5"), "5");
        assert_eq!(env.git(&["merge-base", "feat", &env.branch()]), env.git(&["rev-parse", "feat"]));
    }
}

#[test]
fn n01_an_agents_commit_with_held_back_files_is_kept() {
    for is_bound in [true, false] {
        let env = TestEnv::with_repo();
        if !is_bound {
            env.unbound();
        }
        env.configure("commit: {max_new_files: 3}\n");
        // Nothing leads to it but what the agent does.
        let side = "git checkout -q -b side 2>/dev/null || true; for i in 1 2 3 4 5; do echo $i > f$i; done; git add .; git commit -qm side";
        let nodes = tool("work", side) + &tool("fix", "rm -f f1 f2 f3 f4 f5; echo note > note");
        let edges = "start -> work; work -> exit [condition=\"outcome=success\"]; work -> fix [condition=\"outcome=fail\"]; fix -> exit";
        let ran = env.run(&graph("one", &(nodes + edges)), &[]).expect(0);
        ran.warns("agent-commit-kept").naming("refs/pleach/keep/");
        assert_eq!(env.files(), ["README.md", "note"]);
        let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
        assert_eq!(env.git(&["ls-tree", "--name-only", &kept]), "README.md\nf1\nf2\nf3\nf4\nf5");
        assert_eq!(env.git(&["log", "--format=%s", "-1", &format!("{kept}^2")]), "side");
        let joined = env.git(&["log", "--format=%s", &env.branch()]);
        assert!(!joined.lines().any(|subject| subject == "side"), "{joined}");
    }
}

#[test]
fn n01_resume_finds_files_and_deletions_unchanged() {
    let edited = "for f in $(find lib -type f); do echo more >> $f; done";
    for (command, lines) in
        [(format!("mv src lib; {edited}"), 3), (format!("test -e lib || {{ mv src lib; {edited}; }}"), 2)]
    {
        let env = TestEnv::with_repo();
        five_tracked(&env);
        env.run(&one(&command), &[]).expect(1);
        env.configure("commit: {max_new_files: 30}\n");
        env.pleach(&["-y", "resume", &env.session()]).expect(0);
        assert_eq!(env.files(), ["README.md", "lib/1", "lib/2", "lib/3", "lib/4", "lib/5"]);
        assert_eq!(env.committed("lib/5").lines().count(), lines);
        assert_eq!(env.git(&["for-each-ref", "refs/pleach/keep/"]), "");
    }
    // Nor does a node that must not write bring back or get blamed for what was deleted before it.
    let env = TestEnv::with_repo();
    five_tracked(&env);
    let work = tool("work", &format!("mv src lib; {edited}"));
    let look = "look [shape=parallelogram, write=false, tool_command=\"test ! -e src\"]; ";
    let fix = tool("fix", "cd lib && rm 1 2");
    let edges = "start -> work; work -> exit [condition=\"outcome=success\"]; work -> look [condition=\"outcome=fail\"]; look -> fix; fix -> exit";
    let ran = env.run(&graph("three", &(work + look + &fix + edges)), &[]).expect(0);
    ran.does_not_warn("read-only-undone");
    assert_eq!(env.files(), ["README.md", "lib/3", "lib/4", "lib/5"]);
}

#[test]
fn n01_limits_are_raised_by_settings() {
    let env = TestEnv::with_repo();
    env.configure("commit: {max_file_mb: 1, max_new_files: 1}\n");
    let dot = one("truncate -s 2M large.bin; mv README.md READ; echo 1 > one");
    let ran = env.run(&dot, &[]).expect(1);
    ran.warns("file-held-back").naming("2 MiB").naming("`commit.max_file_mb`");
    let env = TestEnv::with_repo();
    env.configure("commit: {max_file_mb: 2, max_new_files: 0}\n");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["READ", "large.bin", "one"]);
}

#[test]
fn n01_a_task_with_held_back_files_does_not_land() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("commit: {max_new_files: 2}\n");
    garden.agent("rm README.md; for i in 1 2 3; do echo $task $i > new$i; done", APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.told("main"), ["T001 implement-fail", "T001 failed"]);
    let body = garden.newest("main", "T001 implement-fail").body;
    assert!(body.contains("`new1` is not committed"), "{body}");
    assert!(garden.files("main").contains(&"README.md".to_owned()));
    // A tree that only moves lands.
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("commit: {max_new_files: 2}\n");
    for name in ["a", "b", "c"] {
        garden.env.write(format!("repo/src/{name}"), name);
    }
    commit_all(&garden.env, "Three");
    garden.agent("mv src lib", APPROVES);
    garden.gardener(&[]).expect(0);
    let files = garden.files("main");
    assert!(files.contains(&"lib/c".to_owned()) && !files.iter().any(|path| path.starts_with("src/")), "{files:?}");
}

// ---- 2: work in submodules

/// Puts a submodule `lib` into the repository, which has one of its own, `lib/deep`.
fn add_submodules(env: &TestEnv) {
    let allow = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    let (deep, lib) = (env.repo_at("deep"), env.repo_at("lib"));
    env.git_in(&lib, &[&allow[..], &[deep.to_str().unwrap(), "deep"]].concat());
    env.git_in(&lib, &["commit", "--quiet", "-m", "Deep"]);
    env.git(&[&allow[..], &[lib.to_str().unwrap(), "lib"]].concat());
    env.git(&["commit", "--quiet", "-m", "Submodules"]);
}

/// Checks the submodules out and changes something in both.
const IN_SUBMODULES: &str = "export GIT_ALLOW_PROTOCOL=file; git submodule --quiet update && git -C lib submodule --quiet update --init \
    && echo new > lib/new && echo more >> lib/README.md && echo deep > lib/deep/new";

#[test]
fn n02_changes_in_submodules_are_named_and_not_removed() {
    let env = TestEnv::with_repo();
    add_submodules(&env);
    let ran = env.run(&one(IN_SUBMODULES), &[]).expect(0);
    ran.warns("submodule-work").naming("`lib/README.md`, `lib/deep/new`, `lib/new`;");
    let (session, deep) = (env.session(), env.worktree().join("lib/deep/new"));
    let refused = env.pleach(&["rm", &session]);
    assert_ne!(refused.code, 0, "{refused}");
    refused.fails_with("removal-refused").naming("lib/deep/new`");
    assert!(deep.exists());
    // Nor are they when nothing knows of the session any more.
    env.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{session}/main")]);
    let ran = env.pleach(&["doctor", "--fix"]);
    assert!(ran.stdout.contains("cannot be saved and would be lost"), "{ran}");
    assert!(deep.exists());
}

#[test]
fn n02_what_the_setup_leaves_in_submodules_is_nobodys_work() {
    let env = TestEnv::with_repo();
    add_submodules(&env);
    let setup = IN_SUBMODULES.replace('"', "\\\"");
    env.configure(&format!("worktrees: {{setup: \"{setup}\"}}\n"));
    let ran = env.run(&one("echo 1 > one"), &[]).expect(0);
    ran.does_not_warn("submodule-work");
    let ran = env.run(&one("echo mine > lib/mine"), &[]).expect(0);
    ran.warns("submodule-work").naming("`lib/mine`");
}

#[test]
fn n02_the_next_task_waits_for_work_in_submodules() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    add_submodules(&garden.env);
    garden.agent(&format!("test $task = T002 || {{ {IN_SUBMODULES}; }}; echo $task > $task.txt"), APPROVES);
    for _ in 0..2 {
        let ran = garden.gardener(&[]).expect(7);
        ran.fails_with("submodule-work").naming("`lib/README.md`").naming("`lib/deep/new`").naming("`lib/new`");
        assert_eq!(garden.completed(), ["T001"]);
    }
    let all = garden.env.git(&["worktree", "list", "--porcelain"]);
    let copy = all.lines().filter_map(|line| line.strip_prefix("worktree ")).find(|path| path.ends_with("/main"));
    let copy = Path::new(copy.expect("the worktree of the tasks"));
    for file in ["lib/new", "lib/deep/new"] {
        fs::remove_file(copy.join(file)).unwrap();
    }
    garden.env.git_in(&copy.join("lib"), &["checkout", "--quiet", "README.md"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

#[test]
fn n02_what_is_deleted_in_submodules_is_named() {
    let env = TestEnv::with_repo();
    add_submodules(&env);
    let deep = "export GIT_ALLOW_PROTOCOL=file; git submodule --quiet update && git -C lib submodule --quiet update --init && rm lib/deep/README.md";
    let ran = env.run(&one(deep), &[]).expect(0);
    ran.warns("submodule-work").naming("`lib/deep/README.md`");
    env.configure(&format!("worktrees: {{setup: \"{deep}\"}}\n"));
    let ran = env.run(&one("echo 1 > one"), &[]).expect(0);
    ran.does_not_warn("submodule-work");
}

/// Checks `lib` out.
const CHECK_OUT: &str = "export GIT_ALLOW_PROTOCOL=file; git submodule --quiet update --init --force";

#[test]
fn n02_work_only_in_a_submodule_is_named_and_kept() {
    let commits = "echo n > n && git add n && git commit -qm fix";
    for (work, only) in [
        (format!("git checkout -q -b fix && {commits}"), "1 commit"),
        // Nothing but the log of HEAD leads to it once the link is checked out again.
        (commits.to_owned(), "1 commit"),
        ("echo n >> README.md && git stash -q".to_owned(), "1 stashed change"),
        (format!("{commits} && cd .. && git submodule --quiet deinit -f lib"), "1 commit"),
    ] {
        let env = TestEnv::with_repo();
        add_submodules(&env);
        env.configure("worktrees: {pool: 0}\n");
        let nodes = tool("work", &format!("{CHECK_OUT} && cd lib && {work}")) + &tool("test", CHECK_OUT);
        let ran = env.run(&graph("two", &(nodes + "start -> work -> test -> exit")), &[]).expect(0);
        ran.warns("submodule-work").naming(format!("{only} of `lib`;"));
        let worktree = env.worktree();
        let refused = env.pleach(&["rm", &env.session()]);
        assert_ne!(refused.code, 0, "{refused}");
        refused.fails_with("removal-refused").naming(only);
        assert!(worktree.is_dir());
        env.pleach(&["rm", "--force", &env.session()]).expect(0);
    }
}

#[test]
fn n02_pushed_or_abandoned_submodule_commits_are_no_work() {
    let env = TestEnv::with_repo();
    add_submodules(&env);
    let commit = "echo n >> n && git add n && git -c user.name=n -c user.email=n@n commit -qm fix";
    let work = format!(
        "{CHECK_OUT} && cd lib && {commit} && git commit -q --amend -m better && git push -q origin HEAD:refs/heads/fix && cd .. && {CHECK_OUT}"
    );
    env.unbound();
    let ran = env.run(&one(&work), &[]).expect(0);
    ran.does_not_warn("submodule-work");
    env.pleach(&["rm", "--force", &env.session()]).expect(0);
    // Nor is what the setup commits there.
    let setup = format!("{CHECK_OUT} && cd lib && {commit}");
    env.configure(&format!("worktrees: {{setup: \"{setup}\"}}\n"));
    let ran = env.run(&one("echo 1 > one"), &[]).expect(0);
    ran.does_not_warn("submodule-work");
}

#[test]
fn n02_the_next_task_waits_for_submodule_commits_and_links() {
    for (work, named) in [
        (
            "echo n > n && git add n && git commit -qm fix",
            "on no remote: 1 commit of `lib`, and in no recorded link: `lib`",
        ),
        ("git fetch -q origin && git checkout -q origin/next", "in no recorded link: `lib`"),
    ] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        add_submodules(&garden.env);
        let lib = garden.env.root().join("lib");
        garden.env.git_in(&lib, &["checkout", "--quiet", "-b", "next"]);
        garden.env.git_in(&lib, &["commit", "--quiet", "--allow-empty", "-m", "Next"]);
        garden.agent(
            &format!("{CHECK_OUT}; test $task = T002 || {{ (cd lib && {work}); }}; echo $task > $task.txt"),
            APPROVES,
        );
        let ran = garden.gardener(&[]).expect(7);
        ran.fails_with("submodule-work").naming(named);
        assert_eq!(garden.completed(), ["T001"]);
    }
}

#[test]
fn n02_a_submodule_behind_its_link_blocks_nobody() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    add_submodules(&garden.env);
    garden.agent(&format!("test -e lib/README.md || {{ {CHECK_OUT}; }}; echo $task > $task.txt"), APPROVES);
    garden.garden(&[]).expect(0);
    let (lib, env) = (garden.env.root().join("lib"), &garden.env);
    env.git_in(&lib, &["commit", "--quiet", "--allow-empty", "-m", "Next"]);
    let fetch = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--remote"];
    env.git(&fetch);
    env.git(&["commit", "--quiet", "-am", "Move the link"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
}

// ---- 3: worktrees that cannot be made

/// Nothing is left of a session whose worktree could not be made, and the reason is short.
#[track_caller]
fn assert_withdrawn(env: &TestEnv, ran: &Ran) {
    let error: Vec<&str> = ran.stderr.lines().skip_while(|line| !line.starts_with("error[")).collect();
    assert!((2..=5).contains(&error.len()) && error.iter().any(|line| line.starts_with("hint: ")), "{ran}");
    let refs = env.git(&["for-each-ref", "--format=%(refname)"]);
    let left = |name: &&str| name.starts_with("refs/heads/pleach/") || name.starts_with("refs/pleach/");
    assert_eq!(refs.lines().filter(left).count(), 0, "{refs}");
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    let status = env.pleach(&["status", "--json"]).expect(0).json();
    assert_eq!(status["sessions"].as_array().map_or(0, Vec::len), 0, "{status}");
}

/// The file of a loose object.
fn loose_object(env: &TestEnv, spec: &str) -> PathBuf {
    let id = env.git(&["rev-parse", spec]);
    env.repo_path().join(".git/objects").join(&id[..2]).join(&id[2..])
}

#[test]
fn n03_a_session_without_its_first_worktree_is_withdrawn() {
    let env = TestEnv::with_repo();
    for i in 0..20 {
        env.write(format!("repo/data/{i}"), format!("{i}\n"));
    }
    commit_all(&env, "Data");
    for i in 0..20 {
        fs::remove_file(loose_object(&env, &format!("HEAD:data/{i}"))).unwrap();
    }
    let ran = env.run(&one("true"), &[]).expect(7);
    ran.fails_with("object-unreadable").naming("`data/0`").naming("`git fsck`");
    assert_withdrawn(&env, &ran);
}

#[test]
fn n03_a_task_whose_worktree_fails_leaves_no_session() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    fs::remove_file(loose_object(&garden.env, "HEAD:README.md")).unwrap();
    let ran = garden.env.pleach(&["-y", "gardener"]).expect(7);
    assert_withdrawn(&garden.env, &ran);
}

#[test]
fn n03_a_failing_filter_is_reported_briefly() {
    let env = TestEnv::with_repo();
    env.write("repo/.gitattributes", "*.bin filter=lfs\n");
    for i in 0..20 {
        env.write(format!("repo/{i}.bin"), format!("{i}\n"));
    }
    commit_all(&env, "Large");
    for (key, value) in [("required", "true"), ("clean", "cat"), ("smudge", "echo no server for $0 >&2; false")] {
        env.git(&["config", &format!("filter.lfs.{key}"), value]);
    }
    let ran = env.run(&one("true"), &[]).expect(7);
    ran.fails_with("worktree-failed").naming("smudge filter lfs failed").naming("`git lfs");
    assert_withdrawn(&env, &ran);
}

#[test]
fn n03_a_full_disk_is_reported_as_such() {
    let env = TestEnv::with_repo();
    env.write("repo/large", vec![b'x'; 6 << 20]);
    commit_all(&env, "Large");
    fs::create_dir(env.root().join("small")).unwrap();
    env.configure("worktrees: {base: small/copies}\n");
    env.pipeline(&one("true"));
    let mounted = "mount -t tmpfs -o size=4m small \"$0\"/small";
    let within = |script: &str| {
        let mut program = env.program("unshare", &env.repo_path());
        program.args(["--mount", "sh", "-c", &format!("{mounted} && {script}")]).arg(env.root());
        program.arg(env!("CARGO_BIN_EXE_pleach")).args(["-y", "run", "../pipeline.dot"]);
        program
    };
    if !within("true").output().is_ok_and(|tried| tried.status.success()) {
        eprintln!("skipped: nobody may mount a small disk here");
        return;
    }
    let ran = env.finish(within("exec \"$@\"").output().unwrap()).expect(7);
    ran.fails_with("worktree-failed").naming("`worktrees.base`");
    assert_withdrawn(&env, &ran);
}

#[test]
fn n03_a_worktree_base_that_is_no_directory_is_reported() {
    let env = TestEnv::with_repo();
    env.write("file", "no directory");
    for base in ["file", "file/below"] {
        env.configure(&format!("worktrees: {{base: {base}}}\n"));
        let ran = env.run(&one("true"), &[]).expect(7);
        ran.fails_with("worktree-base").naming("`worktrees.base`");
        assert_withdrawn(&env, &ran);
    }
}

#[test]
fn n03_a_repository_of_another_owner_works_once_trusted() {
    let env = TestEnv::with_repo();
    let id = env.program("id", env.root()).arg("-u").output().expect("id is there");
    if id.stdout != b"0\n" {
        eprintln!("skipped: only root can give a repository to somebody else");
        return;
    }
    let repo = env.repo_path();
    let owned = env.program("chown", env.root()).args(["-R", "12345:12345"]).arg(&repo).status();
    assert!(owned.expect("chown is there").success());
    env.pipeline(&one("echo 1 > one"));
    // The test's own git would be refused as well.
    let refused = env.command(&["-y", "run", "../pipeline.dot"]).output().expect("pleach can be started");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.lines().count() <= 5 && said.contains("git config --global --add safe.directory"), "{said}");
    let trusted = format!("[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = {}\n", repo.display());
    env.write("home/.gitconfig", trusted);
    env.run(&one("echo 1 > one; git status > /dev/null"), &[]).expect(0);
    assert_eq!(env.sessions().len(), 1, "nothing is left of the refusal");
    assert_eq!(env.committed("one"), "1");
    env.pleach(&["rm", "--force", &env.session()]).expect(0);
}

// ---- 30: partial and shallow clones

/// A world whose `repo` is a partial clone of `origin`, made with these options.
fn partial_clone(options: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    let origin = env.repo_at("origin");
    for (name, content) in [("src/a", "old\n"), ("src/a", "new\n"), ("b/.gitattributes", "* text\n"), ("b/c", "c\n")] {
        env.write(Path::new("origin").join(name), content);
        env.git_in(&origin, &["add", "."]);
        env.git_in(&origin, &["commit", "--quiet", "-m", name]);
    }
    env.git_in(&origin, &["config", "uploadpack.allowFilter", "true"]);
    env.git_in(&origin, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = format!("file://{}", origin.display());
    env.git_in(env.root(), &[&["clone", "--quiet"], options, &[&url, "repo"]].concat());
    env
}

#[test]
fn n30_partial_clones_fetch_what_is_missing() {
    for options in [&["--filter=blob:none"][..], &["--filter=blob:none", "--bare"], &["--filter=tree:0", "--bare"]] {
        let env = partial_clone(options);
        env.run(&one("cat src/a > copy; echo 2 >> b/c; rm src/a"), &[]).expect(0);
        assert_eq!((env.committed("copy"), env.committed("b/c")), ("new".into(), "c\n2".into()), "{options:?}");
        assert_eq!(env.files(), ["README.md", "b/.gitattributes", "b/c", "copy"], "{options:?}");
        env.git(&["fsck", "--connectivity-only"]);
    }
}

#[test]
fn n30_reading_commands_work_without_the_remote() {
    let env = partial_clone(&["--filter=tree:0"]);
    env.run(&one("echo 1 > one"), &[]).expect(0);
    fs::rename(env.root().join("origin"), env.root().join("away")).unwrap();
    let session = env.session();
    for command in [
        &["status"][..],
        &["status", &session],
        &["turns", &session],
        &["show", "main.1"],
        &["diff", &session],
        &["graph", "../pipeline.dot"],
        &["validate", "../pipeline.dot"],
    ] {
        env.pleach(command).expect(0);
    }
}

#[test]
fn n30_tasks_land_in_a_partial_clone() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let env = &garden.env;
    garden.agent("echo $task >> README.md; mkdir -p src; echo $task > src/$task", APPROVES);
    env.git(&["config", "uploadpack.allowFilter", "true"]);
    env.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let (url, at) = (format!("file://{}", env.repo_path().display()), env.root().join("partial"));
    env.git(&["clone", "--quiet", "--filter=tree:0", &url, at.to_str().unwrap()]);
    env.pleach(&["-y", "-C", at.to_str().unwrap(), "gardener", "--test-command", "cat README.md"]).expect(0);
    assert_eq!(env.git_in(&at, &["show", "main:README.md"]), "# A repository\nT001\nT002");
    assert_eq!(env.git_in(&at, &["status", "--porcelain"]), "");
}

#[test]
fn n30_a_shallow_clone_with_the_run_start_continues() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.garden(&[]).expect(0);
    let url = format!("file://{}", garden.env.repo_path().display());
    let clone = |depth: &str| {
        let at = garden.env.root().join(format!("clone-{depth}")).display().to_string();
        garden.env.git(&["clone", "--quiet", "--depth", depth, &url, &at]);
        at
    };
    let ran = garden.env.pleach(&["-y", "-C", &clone("1"), "gardener"]).expect(2);
    ran.fails_with("shallow-clone").naming("--unshallow`");
    let steps = garden.env.git(&["rev-list", "--count", "main", "--grep=^Arborist-Step: "]);
    garden.env.pleach(&["-y", "-C", &clone(&steps), "gardener"]).expect(0);
    assert_eq!((garden.times_asked("T001", "implement"), garden.times_asked("T002", "implement")), (1, 1));
}

// ---- 31: what runs beside, and what is skipped

#[test]
fn n31_a_write_that_git_gc_broke_is_tried_again() {
    let env = TestEnv::with_repo();
    env.pipeline(&one("echo 1 > one"));
    // A pipe nobody reads holds the run right before its first object gets its name.
    let trace = env.root().join("trace");
    assert!(env.program("mkfifo", env.root()).arg(&trace).status().expect("mkfifo is there").success());
    let mut run = env.command(&["-y", "run", "../pipeline.dot"]);
    let run = run.env("PLEACH_CRASH_TRACE", &trace).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let objects = env.repo_path().join(".git/objects");
    let unnamed = || {
        let files =
            fs::read_dir(&objects).unwrap().flatten().flat_map(|dir| fs::read_dir(dir.path()).into_iter().flatten());
        files.flatten().filter(|file| file.file_name().to_string_lossy().starts_with("tmp_obj_")).count()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while unnamed() == 0 {
        assert!(Instant::now() < deadline, "no object was written");
        std::thread::sleep(Duration::from_millis(5));
    }
    while unnamed() > 0 {
        assert!(Instant::now() < deadline, "git does not take them for left over");
        env.git(&["gc", "--quiet", "--prune=now"]);
    }
    let _reader = fs::OpenOptions::new().read(true).write(true).open(&trace).unwrap();
    env.finish(run.wait_with_output().unwrap()).expect(0);
    assert_eq!(env.committed("one"), "1");
    env.git(&["fsck"]);
}

#[test]
fn n31_skipped_hooks_and_signing_are_reported_once() {
    let env = TestEnv::with_repo();
    let said = "pleach's commits skip your hooks (`pre-commit`) and are not signed";
    let ran = env.run(&one("true"), &[]).expect(0);
    ran.does_not_warn("hooks-skipped");
    env.write_program("repo/.git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    env.git(&["config", "commit.gpgsign", "true"]);
    let two = graph("two", &(tool("a", "echo 1 > a") + &tool("b", "echo 2 > b") + "start -> a -> b -> exit"));
    let ran = env.run(&two, &[]).expect(0);
    assert_eq!(ran.stderr.matches(said).count(), 1, "{ran}");
    // Hooks of another place count as well.
    env.git(&["config", "commit.gpgsign", "false"]);
    env.write_program("hooks/commit-msg", "#!/bin/sh\nexit 1\n");
    env.git(&["config", "core.hooksPath", "../hooks"]);
    let ran = env.run(&two, &[]).expect(0);
    ran.warns("hooks-skipped").naming("`commit-msg`");
}
