//! Putting sessions away: `cancel` and `rm`.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::inspect::{WAIT, waiting};
use crate::support::{Checkout, TestEnv};

const MAKE: &str = r#"digraph make {
    start [shape=Mdiamond]
    make [shape=parallelogram, tool_command="echo one > one.txt"]
    exit [shape=Msquare]
    start -> make -> exit
}"#;

/// A session that has made one commit.
fn made() -> TestEnv {
    let env = TestEnv::new();
    env.repo();
    env.write("make.dot", MAKE);
    env.pleach(&["run", "../make.dot", "-y", "-q"]).expect(0);
    env
}

fn refs(env: &TestEnv) -> Vec<String> {
    env.git(&["for-each-ref", "--format=%(refname)"]).lines().map(str::to_owned).collect()
}

/// The files of locks.
fn locks(env: &TestEnv) -> Vec<String> {
    let files = fs::read_dir(env.repo_path().join(".git/pleach/lock")).unwrap().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

/// The session's worktree.
fn copy(env: &TestEnv, sid: &str) -> std::path::PathBuf {
    let status = env.pleach(&["status", sid, "--json"]).expect(0).json();
    status["worktrees"][0].as_str().expect("a working copy").into()
}

#[test]
fn a_merged_session_goes_without_a_trace() {
    let env = made();
    let sid = env.session();
    env.git(&["merge", "--quiet", &format!("pleach/make/{sid}")]);
    let path = copy(&env, &sid);
    let before = Checkout::of(&env, &env.repo_path());
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 0
    --- stdout
    [SID]: removed the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main
    [SID]: removed branch pleach/make/[SID] (was [SHA])
    [SID]: removed the record (was [SHA])
    ");
    assert_eq!(refs(&env), ["refs/heads/main"]);
    assert!(!path.exists() && !path.parent().unwrap().exists());
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(locks(&env), Vec::<String>::new());
    before.assert_unchanged(&env, &env.repo_path());
    env.pleach(&["rm", &sid]).expect(2);
}

#[test]
fn unmerged_work_is_refused_and_with_force_kept() {
    let env = made();
    let sid = env.session();
    let (tip, record) = (
        env.git(&["rev-parse", &format!("pleach/make/{sid}")]),
        env.git(&["rev-parse", &format!("refs/pleach/sessions/{sid}/main")]),
    );
    let all = refs(&env);
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 1
    --- stderr
    error[removal-refused]: session [SID] was not removed: branch `pleach/make/[SID]` is not merged: [SHA] is on no other branch
    hint: merge it with `git merge pleach/make/[SID]`, or `pleach rm --force [SID]`, which keeps the commits under refs/pleach/keep/
    ");
    assert_eq!(refs(&env), all);
    insta::assert_snapshot!(env.pleach(&["rm", &sid, "--force", "--dry-run"]), @"
    exit: 0
    --- stdout
    [SID]: would keep the unmerged commits at refs/pleach/keep/[SID]-N
    [SID]: would remove the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main
    [SID]: would remove branch pleach/make/[SID] (is [SHA])
    [SID]: would remove the record (is [SHA])
    ");
    assert_eq!(refs(&env), all);
    assert!(copy(&env, &sid).exists());
    insta::assert_snapshot!(env.pleach(&["rm", &sid, "--force"]), @"
    exit: 0
    --- stdout
    [SID]: kept the unmerged commits at refs/pleach/keep/[SID]-1
    [SID]: removed the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main
    [SID]: removed branch pleach/make/[SID] (was [SHA])
    [SID]: removed the record (was [SHA])
    ");
    let kept = format!("refs/pleach/keep/{sid}-1");
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), kept.clone()]);
    assert_eq!(env.git(&["show", &format!("{kept}:one.txt")]), "one");
    assert_eq!(env.git(&["rev-parse", &format!("{kept}^1"), &format!("{kept}^2")]), format!("{tip}\n{record}"));
    assert_eq!(env.git(&["fsck", "--strict"]), "");
}

#[test]
fn a_session_merged_into_any_branch_is_merged() {
    let env = made();
    let sid = env.session();
    env.git(&["branch", "other", &format!("pleach/make/{sid}")]);
    env.pleach(&["rm", &sid]).expect(0);
    assert_eq!(refs(&env), ["refs/heads/main", "refs/heads/other"]);
}

#[test]
fn uncommitted_work_is_kept_also_when_the_commits_are_merged() {
    let env = made();
    let sid = env.session();
    env.git(&["merge", "--quiet", &format!("pleach/make/{sid}")]);
    let path = copy(&env, &sid);
    fs::write(path.join("one.txt"), "changed\n").unwrap();
    fs::write(path.join("new \u{e4}.txt"), "untracked\n").unwrap();
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 0
    --- stdout
    [SID]: kept uncommitted work in 2 files at refs/pleach/keep/[SID]-1
    [SID]: removed the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main
    [SID]: removed branch pleach/make/[SID] (was [SHA])
    [SID]: removed the record (was [SHA])
    ");
    let kept = format!("refs/pleach/keep/{sid}-1");
    assert_eq!(env.git(&["show", &format!("{kept}:one.txt")]), "changed");
    assert_eq!(env.git(&["show", &format!("{kept}:new \u{e4}.txt")]), "untracked");
    assert!(!path.exists());
}

#[test]
fn a_branch_that_moved_on_is_named_and_stays() {
    let env = made();
    let sid = env.session();
    let branch = format!("pleach/make/{sid}");
    env.git(&["switch", "--quiet", &branch]);
    insta::assert_snapshot!(env.pleach(&["rm", &sid, "--force"]), @"
    exit: 1
    --- stderr
    error[branch-checked-out]: branch `pleach/make/[SID]` is checked out at `[TEMP]/repo`
    hint: switch to another branch there first
    ");
    env.git(&["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    env.git(&["switch", "--quiet", "main"]);
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 1
    --- stderr
    error[removal-refused]: session [SID] was not removed: branch `pleach/make/[SID]` was moved to [SHA], which no turn of the session recorded
    hint: `pleach rm --force [SID]` removes the session and leaves the branch
    ");
    insta::assert_snapshot!(env.pleach(&["rm", &sid, "--force"]), @"
    exit: 0
    --- stdout
    [SID]: removed the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main
    [SID]: left branch pleach/make/[SID] at [SHA]: no turn recorded it
    [SID]: removed the record (was [SHA])
    ");
    assert_eq!(env.git(&["log", "-1", "--format=%s", &branch]), "mine");
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), format!("refs/heads/{branch}")]);
}

#[test]
fn an_interrupted_removal_is_finished_by_the_next() {
    let env = made();
    let sid = env.session();
    // As if it had been killed after the worktree and the branch were gone.
    let path = copy(&env, &sid);
    let (tip, record) = (
        env.git(&["rev-parse", &format!("pleach/make/{sid}")]),
        env.git(&["rev-parse", &format!("refs/pleach/sessions/{sid}/main")]),
    );
    let tree = env.git(&["rev-parse", &format!("{tip}^{{tree}}")]);
    let kept = env.git(&["commit-tree", &tree, "-p", &tip, "-p", &record, "-m", "kept"]);
    env.git(&["update-ref", &format!("refs/pleach/keep/{sid}-1"), &kept]);
    env.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
    env.git(&["branch", "--quiet", "-D", &format!("pleach/make/{sid}")]);
    env.pleach(&["rm", &sid]).expect(1);
    insta::assert_snapshot!(env.pleach(&["rm", &sid, "--force"]), @"
    exit: 0
    --- stdout
    [SID]: kept the unmerged commits at refs/pleach/keep/[SID]-1
    [SID]: removed the record (was [SHA])
    ");
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), format!("refs/pleach/keep/{sid}-1")]);
}

#[test]
fn a_removal_that_dies_loses_nothing_and_can_be_repeated() {
    let env = made();
    let sid = env.session();
    let copy = copy(&env, &sid);
    fs::write(copy.join("half.txt"), "half\n").unwrap();
    let commits = env.git(&["rev-parse", &format!("pleach/make/{sid}"), &format!("refs/pleach/sessions/{sid}/main")]);
    // Before and after each of the three moves: work kept, branch gone, record gone.
    for point in ["before", "after", "before", "after", "before", "after"].map(|when| format!("ref-swap:{when}:1")) {
        let output = env.command(&["rm", "--force", &sid]).env("PLEACH_CRASH", &point).output().unwrap();
        assert!(!output.status.success(), "the removal never came to {point}");
        let reachable = env.git(&["rev-list", "--all"]);
        assert!(commits.lines().all(|commit| reachable.contains(commit)), "lost at {point}");
        let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep"]);
        match kept.lines().next() {
            Some(name) => assert_eq!(env.git(&["show", &format!("{name}:half.txt")]), "half"),
            None => assert!(copy.join("half.txt").exists(), "lost at {point}"),
        }
        if env.git(&["for-each-ref", "refs/pleach/sessions"]).is_empty() {
            break;
        }
    }
    assert!(!copy.exists());
    assert_eq!(env.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/main");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/keep"]).lines().count(), 1, "kept once");
    env.pleach(&["rm", "--force", &sid]).expect(2);
}

#[test]
fn a_repository_inside_the_worktree_is_not_lost() {
    let env = made();
    let sid = env.session();
    env.git(&["merge", "--quiet", &format!("pleach/make/{sid}")]);
    let nested = copy(&env, &sid).join("nested");
    fs::create_dir(&nested).unwrap();
    env.git_in(&nested, &["init", "--quiet"]);
    fs::write(nested.join("file"), "x").unwrap();
    let refused = env.pleach(&["rm", &sid]).expect(1);
    refused.fails_with("removal-refused").naming("nested`");
    assert!(nested.exists());
    env.pleach(&["rm", &sid, "--force"]).expect(0);
}

#[test]
fn a_refusal_hint_promises_only_what_force_keeps() {
    let env = made();
    let sid = env.session();
    let nested = copy(&env, &sid).join("nested");
    fs::create_dir(&nested).unwrap();
    env.git_in(&nested, &["init", "--quiet"]);
    fs::write(nested.join("file"), "x").unwrap();
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 1
    --- stderr
    error[removal-refused]: session [SID] was not removed: branch `pleach/make/[SID]` is not merged: [SHA] is on no other branch; `[TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main/nested` cannot be saved and would be lost: it is a repository of its own
    hint: copy what you need, then `pleach rm --force [SID]`, which keeps the commits under refs/pleach/keep/
    ");
    // Somebody has moved the branch as well, so that what was committed is in the record alone.
    let other = env.git(&["commit-tree", "main^{tree}", "-m", "another"]);
    env.git(&["update-ref", &format!("refs/heads/pleach/make/{sid}"), &other]);
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 1
    --- stderr
    error[removal-refused]: session [SID] was not removed: branch `pleach/make/[SID]` was moved to [SHA], which no turn of the session recorded; branch `pleach/make/[SID]` does not have the session's newest commit: [SHA] is on no branch; `[TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main/nested` cannot be saved and would be lost: it is a repository of its own
    hint: copy what you need, then `pleach rm --force [SID]`, which keeps the commits under refs/pleach/keep/ and leaves the branch
    ");
    fs::remove_dir_all(&nested).unwrap();
    insta::assert_snapshot!(env.pleach(&["rm", &sid]), @"
    exit: 1
    --- stderr
    error[removal-refused]: session [SID] was not removed: branch `pleach/make/[SID]` was moved to [SHA], which no turn of the session recorded; branch `pleach/make/[SID]` does not have the session's newest commit: [SHA] is on no branch
    hint: merge it with `git merge [SHA]`, or `pleach rm --force [SID]`, which keeps the commits under refs/pleach/keep/ and leaves the branch
    ");
    env.pleach(&["rm", &sid, "--force"]).expect(0);
    assert_eq!(env.git(&["show", &format!("refs/pleach/keep/{sid}-1:one.txt")]), "one");
}

#[test]
fn several_go_together_or_not_at_all() {
    let env = made();
    let first = env.session();
    env.git(&["merge", "--quiet", &format!("pleach/make/{first}")]);
    env.write("make2.dot", MAKE.replace("one", "two"));
    env.pleach(&["run", "../make2.dot", "-y", "-q"]).expect(0);
    let second = env.sessions().into_iter().find(|sid| *sid != first).expect("a second session");
    let all = refs(&env);
    env.pleach(&["rm", &first, &second]).expect(1);
    assert_eq!(refs(&env), all);
    assert_eq!(locks(&env).len(), 4, "a refused removal leaves them");
    let removed = env.pleach(&["rm", &first, &second, &first, "--force", "--json"]).expect(0).json();
    assert_eq!(removed["sessions"].as_array().map(Vec::len), Some(2));
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), format!("refs/pleach/keep/{second}-1")]);
}

#[test]
fn what_runs_is_not_removed_until_it_is_cancelled() {
    let env = TestEnv::new();
    env.repo();
    let mut run = waiting(&env, &["run", "wait.dot", "-y", "--json"]);
    let sid = env.session();
    let refused = env.pleach(&["rm", &sid]).expect(6);
    assert!(refused.stderr.contains(&format!("session {sid} is in use by process {}", run.id())), "{refused}");
    let cancelled = env.pleach(&["cancel", &sid, "--grace", "0", "--json"]).expect(0);
    assert_eq!(cancelled.json()["interrupted"], true);
    assert_eq!(run.wait().unwrap().code(), Some(1));
    env.assert_no_process_left();
    assert_eq!(env.pleach(&["status", &sid, "--json"]).json()["standing"]["is"], "cancelled");
    insta::assert_snapshot!(env.pleach(&["cancel", &sid]), @"
    exit: 2
    --- stderr
    error[session-over]: session [SID] has ended: cancelled
    hint: `pleach status [SID]` shows how it ended; `pleach run` starts a new one
    ");
    insta::assert_snapshot!(env.pleach(&["resume", &sid, "-y"]), @"
    exit: 2
    --- stderr
    error[session-over]: session [SID] has ended: cancelled
    hint: `pleach status [SID]` shows how it ended; `pleach run` starts a new one
    ");
    env.pleach(&["rm", &sid, "--force"]).expect(0);
}

#[test]
fn a_cancelled_run_says_so() {
    let env = TestEnv::new();
    env.repo();
    let mut run = env.start(WAIT, &[]);
    run.wait_for("▸ hang");
    env.pleach(&["cancel", &env.session(), "--grace", "0", "-q"]).expect(0);
    let ended = run.end().expect(1);
    assert!(ended.stderr.contains("cancelled with `pleach cancel`"), "{ended}");
    insta::assert_snapshot!(env.normalise(&ended.stdout), @"
    cancelled: session [SID] (1 turn, 0 tokens, [TIME])
    branch:  pleach/wait/[SID]
    look:    pleach status [SID]
    ");
    assert_eq!(env.story().kinds().iter().filter(|kind| **kind == "PipelineCancelled").count(), 1);
    env.assert_no_process_left();
}

#[test]
fn ctrl_c_before_a_cancel_makes_no_difference() {
    let env = TestEnv::new();
    env.repo();
    let mut run = env.start(WAIT, &[]);
    run.wait_for("▸ hang");
    run.stop();
    env.pleach(&["cancel", &env.session(), "--grace", "0"]).expect(0);
    run.end().expect(1);
    assert_eq!(env.story().kinds().last(), Some(&"PipelineCancelled"));
}

#[test]
fn a_running_session_is_cancelled_with_force() {
    let env = TestEnv::new();
    env.repo();
    let mut run = waiting(&env, &["run", "wait.dot", "-y", "--json"]);
    let sid = env.session();
    env.pleach(&["rm", &sid, "--force", "--dry-run"]).expect(6);
    env.pleach(&["rm", &sid, "--force"]).expect(0);
    assert_eq!(run.wait().unwrap().code(), Some(1));
    env.assert_no_process_left();
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/sessions/", "refs/heads/pleach/"]), "");
    assert_eq!(locks(&env), Vec::<String>::new());
}

#[test]
fn a_dead_session_is_cancelled_and_its_work_kept() {
    let env = TestEnv::new();
    env.repo();
    let mut run = waiting(&env, &["run", "wait.dot", "-y", "--json"]);
    let sid = env.session();
    let path = copy(&env, &sid);
    let deadline = Instant::now() + Duration::from_secs(30);
    // A shell makes the file before it writes into it.
    while fs::read_to_string(path.join("half.txt")).unwrap_or_default() != "half\n" {
        assert!(Instant::now() < deadline, "the second node does not write");
        std::thread::yield_now();
    }
    run.kill().unwrap();
    run.wait().unwrap();
    insta::assert_snapshot!(env.pleach(&["cancel", &sid]), @"
    exit: 0
    --- stdout
    cancelled: session [SID]
    look:    pleach status [SID]
    remove:  pleach rm [SID]
    ");
    env.pleach(&["rm", &sid, "--force"]).expect(0);
    let kept = format!("refs/pleach/keep/{sid}-1");
    assert_eq!(env.git(&["show", &format!("{kept}:half.txt")]), "half");
    assert_eq!(env.git(&["show", &format!("{kept}:one.txt")]), "one");
    assert!(!path.exists());
    env.assert_no_process_left();
}

#[test]
fn a_reader_that_stops_reading_does_not_stop_a_removal() {
    let env = made();
    let sid = env.session();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = env.command(&["rm", "--force", &sid]).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    env.finish(output).expect(0);
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), format!("refs/pleach/keep/{sid}-1")]);
}
