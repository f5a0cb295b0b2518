//! Records that cannot be read any more: they hold up nothing, they are named, and their sessions can be removed
//! without work being lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::sessions::{Gate, graph, tool};
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// Zeroes the beginning of an object's file, as one can who may write objects.
#[track_caller]
fn damage(env: &TestEnv, object: &str) {
    let id = env.git(&["rev-parse", object]);
    let path = env.repo_path().join(".git/objects").join(&id[..2]).join(&id[2..]);
    let mut bytes = fs::read(&path).unwrap_or_else(|error| panic!("{object} is loose: {error}"));
    let some = bytes.len().min(50);
    bytes[..some].fill(0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, bytes).unwrap();
}

fn record(sid: &str) -> String {
    format!("refs/pleach/sessions/{sid}/main")
}

/// The first record of a session that has such a part.
fn record_with(env: &TestEnv, sid: &str, part: &str) -> String {
    let args = ["rev-list", "--reverse", "--first-parent", "--grep=^Pleach-Record: ", &record(sid)];
    let has = |record: &&str| part != ":messages" || env.git(&["ls-tree", "--name-only", record]).contains("messages");
    env.git(&args).lines().find(has).expect("a record").to_owned()
}

/// A session that has made one commit, and has a file in its worktree that nobody has committed.
fn made() -> (TestEnv, String, PathBuf) {
    let env = TestEnv::with_repo();
    let nodes = tool("make", "echo one > one.txt") + &tool("more", "echo two > two.txt");
    env.run(&graph("make", &format!("{nodes} start -> make -> more -> exit")), &[]).expect(0);
    let (sid, copy) = (env.session(), env.worktree());
    fs::write(copy.join("half.txt"), "half\n").unwrap();
    (env, sid, copy)
}

fn refs(env: &TestEnv) -> Vec<String> {
    env.git(&["for-each-ref", "--format=%(refname)"]).lines().map(str::to_owned).collect()
}

/// Fails the test unless everything a ref leads to can be read.
#[track_caller]
fn assert_sound(env: &TestEnv) {
    env.git(&["rev-list", "--objects", "--all"]);
    env.git(&["repack", "-a", "-d", "-q"]);
}

/// What `pleach doctor` says of sessions.
fn doctor(env: &TestEnv) -> Vec<(String, String, String)> {
    let told = env.pleach(&["doctor", "--json"]).json();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let all = told["findings"].as_array().expect("findings").iter();
    let of_sessions = all.filter(|finding| finding["what"] == "sessions");
    of_sessions.map(|found| (text(found, "level"), text(found, "message"), text(found, "fix"))).collect()
}

#[test]
fn an_unreadable_session_is_removed_and_its_work_kept() {
    for at in ["tip", "first", "message", "garbage"] {
        let (env, sid, copy) = made();
        let branch = env.branch();
        let tip = env.git(&["rev-parse", &branch]);
        match at {
            "tip" => damage(&env, &record(&sid)),
            "first" => damage(&env, &record_with(&env, &sid, "")),
            "message" => damage(&env, &format!("{}:events.json", record_with(&env, &sid, ""))),
            _ => fs::write(env.repo_path().join(".git").join(record(&sid)), "garbage\n").unwrap(),
        }
        let refused = env.pleach(&["rm", &sid]).expect(1);
        refused.fails_with("removal-refused").naming(&sid);
        refused.fails_with("removal-refused").naming(format!("`pleach rm --force {sid}`"));
        env.pleach(&["rm", "--force", "--dry-run", &sid]).expect(0);
        assert!(copy.exists());
        let removed = env.pleach(&["rm", "--force", &sid]).expect(0);
        removed.warns("work-lost").naming(&sid);
        let kept = format!("refs/pleach/keep/{sid}-1");
        assert_eq!(refs(&env), ["refs/heads/main".to_owned(), kept.clone()], "{at}: {removed}");
        assert_eq!(env.git(&["show", &format!("{kept}:half.txt")]), "half", "{at}");
        assert_eq!(
            env.git(&["rev-list", "--parents", "-1", &kept]).split(' ').skip(1).collect::<Vec<_>>(),
            [tip],
            "{at}"
        );
        assert!(!copy.exists());
        assert_sound(&env);
    }
}

#[test]
fn work_that_only_a_damaged_record_leads_to_is_kept() {
    let (env, sid, copy) = made();
    let branch = env.branch();
    let tip = env.git(&["rev-parse", &branch]);
    env.git(&["worktree", "remove", "--force", copy.to_str().unwrap()]);
    env.git(&["branch", "--quiet", "-D", &branch]);
    damage(&env, &record_with(&env, &sid, ""));
    env.pleach(&["rm", "--force", &sid]).expect(0);
    assert_eq!(env.git(&["rev-parse", &format!("refs/pleach/keep/{sid}-1^1")]), tip);
    assert_sound(&env);
}

#[test]
fn a_session_with_an_unreadable_tip_is_removed_keeping_rest() {
    let (env, sid, copy) = made();
    let branch = env.branch();
    let (tip, below) = (env.git(&["rev-parse", &branch]), env.git(&["rev-parse", &format!("{branch}~1")]));
    damage(&env, &branch);
    let refused = env.pleach(&["rm", &sid]).expect(1);
    assert!(refused.stderr.contains("its newest commit cannot be read") && refused.stderr.contains(&tip), "{refused}");
    refused.fails_with("removal-refused").naming(format!("`pleach rm --force {sid}`"));
    let removed = env.pleach(&["rm", "--force", &sid]).expect(0);
    removed.warns("work-lost").naming(&sid);
    let kept = format!("refs/pleach/keep/{sid}-1");
    assert_eq!(env.git(&["show", &format!("{kept}:half.txt")]), "half");
    assert_eq!(env.git(&["show", &format!("{kept}:two.txt")]), "two");
    assert_eq!(env.git(&["rev-parse", &format!("{kept}^@")]), below);
    assert!(!copy.exists());
    // The branch is for whoever can fix it.
    assert!(removed.stdout.contains(&format!("left branch {branch}")), "{removed}");
    env.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), kept]);
    assert_sound(&env);
}

/// A session that waits at a gate. Each of two nodes has written a file, and the object of one is lost: its file is gone, or
/// empty.
fn waiting_with_a_lost_file(is_empty: bool) -> (TestEnv, String, PathBuf) {
    let env = TestEnv::with_repo();
    let nodes = tool("p", "echo p > p.txt") + &tool("o", "echo o > o.txt") + &tool("last", "cat p.txt > last.txt");
    let gate = "gate [shape=hexagon] start -> p -> o -> gate gate -> last [label=\"[Y] Yes\"] last -> exit";
    env.run(&graph("waits", &format!("{nodes} {gate}")), &[]).expect(4);
    let id = env.git(&["rev-parse", &format!("{}:p.txt", env.branch())]);
    let object = env.repo_path().join(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::remove_file(&object).unwrap();
    if is_empty {
        fs::write(&object, "").unwrap();
    }
    let (sid, copy) = (env.session(), env.worktree());
    (env, sid, copy)
}

#[test]
fn removal_keeps_files_whose_objects_are_lost() {
    for (is_empty, command) in [
        (false, &["rm", "--force", "SID"][..]),
        (true, &["rm", "--force", "SID"]),
        (false, &["cleanup", "--older-than", "0"]),
        (true, &["worktree", "prune"]),
    ] {
        let (env, sid, copy) = waiting_with_a_lost_file(is_empty);
        if command[0] != "rm" {
            env.pleach(&["cancel", &sid]).expect(0);
        }
        let command: Vec<&str> = command.iter().map(|arg| if *arg == "SID" { &sid } else { *arg }).collect();
        let removed = env.pleach(&command).expect(0);
        assert!(!copy.exists(), "{removed}");
        let kept = format!("refs/pleach/keep/{sid}-1");
        for (file, text) in [("p.txt", "p"), ("o.txt", "o")] {
            assert_eq!(env.git(&["show", &format!("{kept}:{file}")]), text, "{removed}");
        }
        assert_sound(&env);
    }
}

#[test]
fn resume_brings_lost_objects_back_or_names_their_files() {
    for is_empty in [false, true] {
        let (env, ..) = waiting_with_a_lost_file(is_empty);
        env.resume(&["--answer", "gate=Y"]).expect(0);
        assert_eq!((env.committed("p.txt").as_str(), env.committed("last.txt").as_str()), ("p", "p"));
        assert_sound(&env);
    }
    let (env, sid, copy) = waiting_with_a_lost_file(false);
    let tip = env.git(&["rev-parse", &env.branch()]);
    fs::write(copy.join("p.txt"), "other\n").unwrap();
    let names_it = |ran: Ran| {
        ran.fails_with("object-unreadable").naming("`p.txt`").naming(&tip);
    };
    names_it(env.resume(&["--answer", "gate=Y"]).expect(7));
    assert_eq!(fs::read_to_string(copy.join("p.txt")).unwrap(), "other\n", "it is left as it is");
    env.git(&["worktree", "remove", "--force", copy.to_str().unwrap()]);
    names_it(env.resume(&["--answer", "gate=Y"]).expect(7));
    assert_eq!(env.session(), sid);
}

#[test]
fn foreign_commits_on_the_branch_stay() {
    let (env, sid, _) = made();
    let branch = env.branch();
    let own = env.git(&["commit-tree", &format!("{branch}^{{tree}}"), "-p", &branch, "-m", "mine"]);
    env.git(&["update-ref", &format!("refs/heads/{branch}"), &own]);
    damage(&env, &record_with(&env, &sid, ""));
    let removed = env.pleach(&["rm", "--force", &sid]).expect(0);
    assert!(removed.stdout.contains(&format!("left branch {branch}")), "{removed}");
    assert_eq!(env.git(&["rev-parse", &branch]), own);
}

#[test]
fn doctor_reads_all_of_every_record() {
    for part in ["", "^{tree}", ":events.json", ":messages"] {
        let (env, sid, _) = made();
        assert_eq!(doctor(&env).len(), 1);
        damage(&env, &format!("{}{part}", record_with(&env, &sid, part)));
        let [(level, message, fix)] = &doctor(&env)[..] else { panic!("one finding of {part}") };
        assert_eq!(level, "warn", "{part}");
        assert!(message.contains(&sid) && fix.contains(&format!("pleach rm --force {sid}")), "{part}: {message} {fix}");
        env.pleach(&["rm", "--force", &sid]).expect(0);
        assert_eq!(doctor(&env), [("ok".to_owned(), "0 sessions".to_owned(), String::new())], "{part}");
    }
}

#[test]
fn a_damaged_session_is_named_wherever_it_is_read() {
    let (env, sid, _) = made();
    damage(&env, &record_with(&env, &sid, ""));
    for command in [&["status", &sid][..], &["turns", &sid], &["show", &format!("{sid}/main.1")], &["resume", &sid]] {
        let failed = env.pleach(command).expect(7);
        failed.fails_with("record-damaged").naming(&sid).naming(format!("--force {sid}"));
    }
}

#[test]
fn a_tree_continues_with_an_unreadable_record() {
    for at in ["tip", "first"] {
        let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
        garden.agent(&format!("{WRITES}; git add -A; git commit --quiet -m own"), APPROVES);
        garden.garden(&[]).expect(0);
        let sid = garden.env.session();
        match at {
            "tip" => damage(&garden.env, &record(&sid)),
            _ => damage(&garden.env, &record_with(&garden.env, &sid, "")),
        }
        let ran = garden.garden(&[]).expect(0);
        ran.warns("session-unreadable").naming(&sid).naming(format!("`pleach rm --force {sid}`"));
        let found = doctor(&garden.env);
        assert!(found[0].1.contains(&sid) && found[0].2.contains("pleach rm --force"), "{at}: {found:?}");
        garden.env.pleach(&["rm", "--force", &sid]).expect(0);
        let ran = garden.gardener(&[]).expect(0);
        assert!(!ran.stderr.contains(&sid), "{at}: {ran}");
        assert_eq!(garden.completed(), ["T001", "T002", "T003"], "{at}: {ran}");
        assert_sound(&garden.env);
    }
}

#[test]
fn a_task_with_an_unreadable_session_gets_another() {
    for (part, is_removed) in [("", true), ("", false), (":messages", false)] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        let gate = Gate::new(&garden.env, "held");
        garden.agent(WRITES, &format!("{}; {APPROVES}", gate.command()));
        let mut run = garden.env.spawn(&["-y", "gardener"]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        let sid = garden.env.session();
        damage(&garden.env, &format!("{}{part}", record_with(&garden.env, &sid, part)));
        if is_removed {
            garden.env.pleach(&["rm", "--force", &sid]).expect(0);
        }
        let ran = garden.gardener(&[]).expect(0);
        assert_eq!(garden.completed(), ["T001"], "{ran}");
        assert_eq!(garden.file("main", "T001.txt"), "T001 1", "what was done is gone on with: {ran}");
        let passed_over =
            ran.warnings().iter().any(|(code, text)| *code == "session-unreadable" && text.contains(&sid));
        assert_eq!(passed_over, !is_removed, "{ran}");
        // Only the record is damaged.
        ran.does_not_warn("worktree-repaired");
    }
}
