//! Large repositories, long runs, many sessions.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

/// A pipeline of one command.
fn one(command: &str) -> String {
    graph("one", &(tool("work", command) + "start -> work -> exit"))
}

/// Commits files of the repository's own.
fn commit(env: &TestEnv, files: &[&str]) {
    for path in files {
        env.write(format!("repo/{path}"), format!("{path}\n"));
    }
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
}

// ---- 27: waiting is shown

/// Runs `pleach` as somebody who waits for nothing.
fn impatient(env: &TestEnv, args: &[&str]) -> Ran {
    env.finish(env.command(args).env("PLEACH_PATIENCE_MS", "0").output().expect("pleach can be started"))
}

#[test]
fn n27_session_is_named_before_its_files_are_counted() {
    let env = TestEnv::with_repo();
    commit(&env, &["a", "b", "c"]);
    env.pipeline(&one("echo 1 > made"));
    let ran = impatient(&env, &["-y", "run", "../pipeline.dot"]).expect(0);
    let session = format!("session {} on branch {}\n", env.session(), env.branch());
    let (before, after) = ran.stderr.split_once(&session).unwrap_or_else(|| panic!("no `{session}` in {ran}"));
    assert!(!before.contains("check"), "{ran}");
    assert!(after.contains("checked out 4 files in "), "{ran}");
    assert!(after.contains("looked at 4 files in "), "{ran}");
    // Who has patience is not bothered with what takes no time.
    let ran = env.pleach(&["-y", "run", "../pipeline.dot"]).expect(0);
    assert!(!ran.stderr.contains("checked out"), "{ran}");
}

#[test]
fn n27_resume_completes_a_checkout_that_was_cut_short() {
    let env = TestEnv::with_repo();
    commit(&env, &["a", "b", "c", "deep/d"]);
    let real = env.program("sh", env.root()).args(["-c", "command -v git"]).output().expect("sh can be started");
    let real = String::from_utf8(real.stdout).expect("a path");
    // It checks out, and then everything is as if the machine had gone down in the middle of that: some files are not
    // there, one is half written, and no index was.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *read-tree*) {real} \"$@\"; index=$({real} rev-parse --git-path index)\n\
         mv \"$index\" \"$index.lock\"; rm -r b deep; : > c; kill -9 $PPID;; *) exec {real} \"$@\";; esac\n",
        real = real.trim()
    );
    let git = env.write_program("bin/git", &script);
    env.pipeline(&one("cat a b c deep/d > made"));
    assert_eq!(env.pleach(&["-y", "run", "../pipeline.dot"]).code, 128 + 9);
    std::fs::remove_file(git).expect("a file of the test's own");
    let there = env.worktree().join("a");
    let before = there.metadata().expect("a file that was checked out");
    impatient(&env, &["-y", "resume", &env.session()]).expect(0);
    assert_eq!(env.committed("made"), "a\nb\nc\ndeep/d");
    let after = there.metadata().expect("a file that was checked out");
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()), "it was not written again");
    assert_eq!(env.files(), ["README.md", "a", "b", "c", "deep/d", "made"]);
}

// ---- 28: what is not in a worktree

#[test]
fn n28_exclude_takes_globs_and_warns_of_what_matches_nothing() {
    let env = TestEnv::with_repo();
    commit(&env, &["a.bin", "deep/b.bin", "deep/b.txt", "docs/img/c.png", "docs/c.md"]);
    env.configure("worktrees: {exclude: ['*.bin', 'docs/**/*.png', 'docss/', 'nothing*']}\n");
    let ran = env.run(&one("find . -name .git -prune -o -type f ! -name seen -print | sort > seen"), &[]).expect(0);
    assert_eq!(env.committed("seen"), "./README.md\n./deep/b.txt\n./docs/c.md");
    let files = ["README.md", "a.bin", "deep/b.bin", "deep/b.txt", "docs/c.md", "docs/img/c.png", "seen"];
    assert_eq!(env.files(), files, "they stay what they are in every commit");
    for entry in ["docss/", "nothing*"] {
        ran.warns("exclude-idle").naming(format!("`{entry}`"));
    }
    assert_eq!(ran.warnings().iter().filter(|(code, _)| *code == "exclude-idle").count(), 2, "{ran}");
    assert!(!ran.stderr.contains("`*.bin`"), "{ran}");
}

#[test]
fn n28_an_inherited_sparse_checkout_is_reported() {
    let env = TestEnv::with_repo();
    commit(&env, &["in/a", "out/b", "out/c"]);
    let whole = env.run(&one("true"), &[]).expect(0);
    whole.does_not_warn("sparse-checkout");
    env.git(&["sparse-checkout", "set", "--cone", "in"]);
    let ran = env.run(&one("true"), &[]).expect(0);
    ran.warns_once("sparse-checkout").naming("2 of 4 files");
}

// ---- 29: what sessions leave

#[test]
fn n29_worktrees_have_names_that_tell_their_session() {
    let env = TestEnv::with_repo();
    env.run(&one("true"), &[]).expect(0);
    let sid = env.session();
    let names = std::fs::read_dir(env.repo_path().join(".git/worktrees")).expect("a worktree");
    let names: Vec<_> = names.map(|name| name.expect("a name").file_name()).collect();
    assert_eq!(names, [format!("{sid}-main").as_str()]);
    assert!(env.worktree().ends_with(format!("{sid}/main")));
    assert_eq!(env.git(&["rev-parse", &format!("worktrees/{sid}-main/HEAD")]), env.git(&["rev-parse", "main"]));
}

#[test]
fn n29_rm_chooses_sessions_that_are_done_merged_or_old() {
    let env = TestEnv::with_repo();
    let session = |command: &str, code: i32| {
        env.run(&one(command), &[]).expect(code);
        env.sessions().pop().expect("a session")
    };
    let [merged, unmerged] = ["echo 1 > one", "echo 2 > two"].map(|command| session(command, 0));
    session("exit 1", 1);
    env.git(&["merge", "--quiet", &format!("pleach/one/{merged}")]);
    let chosen = |args: &[&str]| {
        let ran = env.pleach(&[&["--json", "rm", "--dry-run"][..], args].concat()).expect(0);
        let json = ran.json();
        let ids = json["sessions"].as_array().unwrap().iter().map(|one| one["session"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), ran)
    };
    assert_eq!(chosen(&["--merged"]).0, [merged.as_str()]);
    assert_eq!(chosen(&["--merged", "--older", "30d"]).0, Vec::<String>::new(), "several narrow the choice");
    let (ids, ran) = chosen(&["--done"]);
    assert_eq!(ids, [merged.as_str()], "{ran}");
    ran.warns("not-removed").naming(&unmerged);
    assert_eq!(chosen(&["--older", "30d"]).0, Vec::<String>::new());
    assert_eq!(chosen(&["--older", "0s", "--force"]).0, [merged, unmerged]);
    assert!(env.pleach(&["rm", "--older", "soon"]).expect(2).stderr.contains("such as 30d"));
    env.pleach(&["rm", "--done", "--force"]).expect(0);
    assert_eq!(env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]).lines().count(), 1);
}

#[test]
fn rm_by_options_leaves_what_can_be_resumed() {
    let env = TestEnv::with_repo();
    let session = |command: &str, code: i32| {
        env.run(&one(command), &[]).expect(code);
        env.sessions().pop().expect("a session")
    };
    let failed = session("exit 1", 1);
    let [empty, elsewhere] = ["true", "echo 1 > one"].map(|command| session(command, 0));
    env.git(&["branch", "other", &format!("pleach/one/{elsewhere}")]);
    for option in [&["--merged"][..], &["--landed"], &["--older", "0s", "--merged"]] {
        let ran = env.pleach(&[&["rm"], option].concat()).expect(0);
        assert_eq!(ran.stdout, "nothing to remove\n", "no commit of theirs is on `main`: {ran}");
    }
    env.pleach(&["rm", "--done", "--older", "0s"]).expect(0);
    let left = || env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]);
    assert_eq!(left(), format!("refs/pleach/sessions/{failed}/main"), "{empty} and {elsewhere} are done");
    env.pleach(&["rm", "--older", "0s"]).expect(0);
    env.pleach(&["resume", &failed, "-y"]).expect(1);
    env.pleach(&["rm", &failed]).expect(0);
    assert_eq!(left(), "");
}

#[test]
fn n29_rm_removes_what_was_kept() {
    let env = TestEnv::with_repo();
    env.run(&one("echo 1 > one"), &[]).expect(0);
    env.pleach(&["rm", "--force", &env.session()]).expect(0);
    let keeps = || env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep"]);
    let kept = keeps();
    assert_eq!(kept.lines().count(), 1);
    let old = env.pleach(&["rm", "--keeps", "--older", "30d"]).expect(0);
    assert_eq!(old.stdout, "nothing to remove\n");
    let planned = env.pleach(&["rm", "--keeps", "--dry-run"]).expect(0);
    assert!(planned.stdout.starts_with(&format!("would remove {kept} (is ")), "{planned}");
    assert_eq!(keeps(), kept);
    let removed = env.pleach(&["rm", "--keeps"]).expect(0);
    assert!(removed.stdout.starts_with(&format!("removed {kept} (was ")), "{removed}");
    assert_eq!(keeps(), "");
}

/// The names git has for the worktrees of sessions.
fn worktrees(env: &TestEnv) -> Vec<String> {
    let all = env.git(&["worktree", "list", "--porcelain"]);
    let paths = all.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1);
    paths.map(|path| path.rsplit('/').nth(1).expect("a session's directory").to_owned()).collect()
}

#[test]
fn n29_finished_worktrees_beyond_the_pool_are_removed_when_clean() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 1}\n");
    let session = |command: &str| {
        env.run(&one(command), &[]).expect(0);
        env.sessions().pop().expect("a session")
    };
    let edited = session("echo 1 > made");
    let state = env.root().join("state/pleach/worktrees");
    let place =
        std::fs::read_dir(&state).expect("worktrees").next().expect("those of the repository").expect("it").path();
    std::fs::write(place.join(&edited).join("main/mine"), "mine").expect("a file in the worktree");
    let clean = session("echo 2 > made");
    let newest = session("echo 3 > made");
    let mut left = worktrees(&env);
    left.sort();
    let mut expected = [edited.clone(), newest.clone()];
    expected.sort();
    assert_eq!(left, expected, "what somebody has changed stays, and the newest");
    assert!(!place.join(&clean).exists());
    // All there is to know of a session is in its record and on its branch.
    assert_eq!(env.git(&["show", &format!("pleach/one/{clean}:made")]), "2");
    assert!(env.pleach(&["diff", &clean]).expect(0).stdout.contains("+2"));
    assert!(!env.pleach(&["status", &clean]).expect(0).stdout.contains("worktree"));
    env.pleach(&["rm", "--force", &clean]).expect(0);
    let kept = env.pleach(&["rm", "--force", &edited]).expect(0);
    assert!(kept.stdout.contains("uncommitted work in mine"), "{kept}");
}

#[test]
fn n29_without_a_pool_only_uncommitted_work_remains() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 0}\n");
    env.run(&one("echo 1 > made; echo built > built"), &[]).expect(0);
    assert_eq!(worktrees(&env), Vec::<String>::new());
    assert_eq!(env.committed("made"), "1");
    let ran = env.run(&one("git init -q inner; echo 1 > inner/x"), &[]).expect(0);
    assert_eq!(worktrees(&env).len(), 1, "{ran}");
    let ran = env.run(&one("exit 1"), &[]).expect(1);
    assert_eq!(worktrees(&env).len(), 2, "a session that failed keeps its worktree: {ran}");
}

// ---- 31: long runs, odd names, a machine that does not fit

/// A command that is run as often as it takes until its file has so many lines.
fn rounds(count: usize) -> String {
    let work = format!("echo x >> lines; test $(wc -l < lines) -ge {count}");
    let work = tool("work", &work).replace("shape=parallelogram", "shape=parallelogram, max_visits=100");
    let edges =
        "start -> work; work -> exit [condition=\"outcome=success\"]; work -> work [condition=\"outcome=fail\"]";
    graph("rounds", &(work + edges))
}

#[test]
fn n31_long_runs_show_their_end_with_small_checkpoints() {
    let env = TestEnv::with_repo();
    env.run(&rounds(23), &[]).expect(0);
    let sid = env.session();
    let shown = env.pleach(&["status", &sid]).expect(0);
    let has = |turn: usize| shown.stdout.contains(&format!("main.{turn} "));
    assert!((4..=23).all(has) && !(1..=3).any(has), "{shown}");
    assert!(shown.stdout.contains(" earlier lines; -v shows all"), "{shown}");
    let whole = env.pleach(&["-v", "status", &sid]).expect(0);
    assert!(whole.stdout.contains("main.1 ") && !whole.stdout.contains("earlier"), "{whole}");
    assert_eq!(env.pleach(&["--json", "status", &sid]).expect(0).json()["turns"].as_array().unwrap().len(), 23);
    let story = env.story();
    let checkpoints = story.all("Checkpoint");
    let sizes: Vec<usize> = checkpoints.iter().map(|checkpoint| checkpoint.to_string().len()).collect();
    assert_eq!(checkpoints.last().unwrap()["completed_nodes"], serde_json::json!(["start", "work", "exit"]));
    assert!(sizes[22] <= sizes[2] + 8, "{sizes:?}");
}

#[test]
fn n31_names_with_newlines_are_quoted_as_git_does() {
    let env = TestEnv::with_repo();
    let ran =
        env.run(&graph("names", &(tool("work", "echo 1 > \"$(printf 'a\\nb')\"") + "start -> work -> exit")), &[]);
    assert!(ran.stderr.contains(r#"["a\nb"]"#), "{ran}");
    let sid = env.session();
    let stat = env.pleach(&["diff", "--stat", &sid]).expect(0);
    assert!(stat.stdout.contains(r#""a\nb""#), "{stat}");
    let subject = env.git(&["log", "-1", "--format=%s%n%b", &env.branch()]);
    assert!(subject.contains(r#""a\nb""#), "{subject}");
    // Those who do not read but parse get the name as it is.
    let turns = env.pleach(&["--json", "turns", &sid]).expect(0).json();
    assert_eq!(turns["turns"][0]["files"]["repo"][0], "a\nb", "{turns}");
}

#[test]
fn n31_doctor_finds_a_missing_tmpdir() {
    let env = TestEnv::with_repo();
    let mut doctor = env.command(&["doctor"]);
    let ran = env.finish(doctor.env("TMPDIR", env.root().join("not there")).output().expect("pleach can be started"));
    assert!(ran.stdout.contains("not there`, which does not exist\n"), "{ran}");
    assert!(ran.stdout.contains("fix: create it, or unset TMPDIR"), "{ran}");
    assert!(!env.pleach(&["doctor"]).stdout.contains("TMPDIR"));
}

#[test]
fn n31_doctor_finds_a_read_only_mount() {
    let env = TestEnv::with_repo();
    let in_mount = |script: &str| -> Command {
        let mut command = env.program("unshare", &env.repo_path());
        command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script]).arg(env.root().join("state"));
        command
    };
    let mount = "mount --bind \"$0\" \"$0\"; mount -o remount,bind,ro \"$0\"";
    if !in_mount(mount).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this system lets nobody mount anything");
        return;
    }
    let program = env!("CARGO_BIN_EXE_pleach");
    let ran = env.finish(in_mount(&format!("{mount}; exec {program} doctor")).output().expect("unshare is there"));
    let ran = ran.expect(7);
    assert!(
        ran.stdout.contains("cannot be written, which pleach's state needs: its file system is read-only"),
        "{ran}"
    );
}
