//! What `worktree prune` removes, what it keeps of it, and what stays.

use std::fs;

use serde_json::json;

use super::{one, paths};
use crate::parallel::linked;
use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

#[test]
fn worktree_prune() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 10}\n");
    let (_, done) = env.ended();
    let (gone, orphaned) = env.ended();
    let (_, missing) = env.ended();
    env.run(&one("echo 2 > half; false"), &[]).expect(1);
    let failed = linked(&env).pop().expect("that of the failed session");
    env.forget(&gone);
    fs::remove_dir_all(&missing).unwrap();
    let before = env.git(&["for-each-ref"]);

    let (_, dry) = env.prune(&["--dry-run"], 0);
    assert_eq!((&dry["dry_run"], paths(&dry["removed"]).len()), (&json!(true), 4), "{dry}");
    assert!(done.is_dir() && orphaned.is_dir() && linked(&env).len() == 4, "looking changes nothing");

    let (_, pruned) = env.prune(&[], 0);
    let states: Vec<_> = pruned["removed"].as_array().unwrap().iter().map(|found| found["state"].as_str()).collect();
    assert_eq!(states, [Some("idle"), Some("orphaned"), Some("missing"), Some("idle")]);
    assert_eq!(linked(&env), [""; 0]);
    assert!(!done.parent().unwrap().exists() && !orphaned.exists() && !std::path::Path::new(&failed).exists());
    assert_eq!(env.git(&["for-each-ref"]), before, "branches and records stay, and nothing had to be kept");
    let (_, again) = env.prune(&[], 0);
    assert_eq!((paths(&again["removed"]).len(), paths(&again["stays"]).len()), (0, 0));
}

#[test]
fn prune_keeps_uncommitted_work_and_names_it() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 10}\n");
    let (first, clean) = env.ended();
    let (second, orphaned) = env.ended();
    for worktree in [&clean, &orphaned] {
        fs::write(worktree.join("precious"), "uncommitted\n").unwrap();
    }
    env.forget(&second);
    let (_, dry) = env.prune(&["--dry-run"], 0);
    assert_eq!(dry["removed"][0]["kept"], json!({"ref": null, "uncommitted": ["precious"]}));
    assert_eq!(env.keeps(), [""; 0]);
    let (_, pruned) = env.prune(&[], 0);
    for (number, session) in [&first, &second].into_iter().enumerate() {
        let kept = format!("refs/pleach/keep/{session}-1");
        assert_eq!(pruned["removed"][number]["kept"], json!({"ref": kept, "uncommitted": ["precious"]}));
        assert_eq!(env.git(&["show", &format!("{kept}:precious")]), "uncommitted");
        assert_eq!(env.git(&["show", &format!("{kept}:made")]), "1");
    }
}

#[test]
fn prune_says_in_words_what_it_does() {
    let env = TestEnv::with_repo();
    let (_, worktree) = env.ended();
    fs::write(worktree.join("precious"), "uncommitted\n").unwrap();
    insta::assert_snapshot!(env.pleach(&["worktree", "prune", "--dry-run"]), @"
    exit: 0
    --- stdout
    [SID]/main: would keep uncommitted work in precious at a ref below refs/pleach/keep/
    [SID]/main: would remove the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main of session [SID]
    ");
    insta::assert_snapshot!(env.pleach(&["worktree", "prune"]), @"
    exit: 0
    --- stdout
    [SID]/main: kept uncommitted work in precious at refs/pleach/keep/[SID]-1
    [SID]/main: removed the worktree [TEMP]/state/pleach/worktrees/repo-[HASH]/[SID]/main of session [SID]
    ");
    insta::assert_snapshot!(env.pleach(&["worktree", "prune"]), @"
    exit: 0
    --- stdout
    There is no worktree of pleach's in this repository.
    ");
}

#[test]
fn prune_leaves_sessions_that_can_be_resumed() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "tool");
    let mut run = env.start(&one(&format!("echo 1 > made; {}", gate.command())), &[]);
    let held = gate.reached(&mut run);
    let (_, used) = env.prune(&["--force"], 0);
    assert_eq!(used["stays"][0]["reason"]["code"], "used", "{used}");
    run.kill(held);
    let (_, dead) = env.prune(&["--force"], 0);
    assert_eq!(dead["stays"][0]["reason"]["code"], "resumable", "{dead}");
    assert_eq!((paths(&dead["removed"]).len(), linked(&env).len()), (0, 1));
    gate.stay_open();
    env.resume(&[]).expect(0);
    let (_, done) = env.prune(&[], 0);
    assert_eq!((paths(&done["removed"]).len(), linked(&env).len()), (1, 0));
}

#[test]
fn prune_leaves_a_session_that_waits_for_a_person() {
    let env = TestEnv::with_repo();
    let body =
        " ask [shape=hexagon, label=\"Go?\"]\n".to_owned() + &tool("work", "true") + " start -> ask -> work -> exit";
    env.run(&graph("asks", &body), &[]).expect(4);
    let (_, paused) = env.prune(&[], 0);
    assert_eq!(paused["stays"][0]["reason"]["code"], "resumable", "{paused}");
    env.pleach(&["cancel", &env.session()]).expect(0);
    let (_, cancelled) = env.prune(&[], 0);
    assert_eq!(paths(&cancelled["removed"]).len(), 1, "{cancelled}");
}

#[test]
fn a_locked_worktree_is_pruned_only_with_force() {
    let env = TestEnv::with_repo();
    env.configure("worktrees: {pool: 10}\n");
    let (_, locked) = env.ended();
    let (gone, orphaned) = env.ended();
    env.forget(&gone);
    for path in [&locked, &orphaned] {
        env.git(&["worktree", "lock", "--reason", "on a stick", path.to_str().unwrap()]);
    }
    let (_, stays) = env.prune(&[], 0);
    let reason = json!({"code": "locked", "text": "it is locked (on a stick)"});
    assert_eq!([&stays["stays"][0]["reason"], &stays["stays"][1]["reason"]], [&reason, &reason], "{stays}");
    env.ended();
    assert!(locked.is_dir() && orphaned.is_dir(), "no start removes them either");
    env.prune(&["--force"], 0);
    assert_eq!(linked(&env), [""; 0]);
}

#[test]
fn a_failed_session_resumes_after_its_worktree_was_pruned() {
    let env = TestEnv::with_repo();
    let marker = env.root().join("works");
    env.configure(&format!("sandbox: {{rw: ['{}']}}\n", env.root().display()));
    env.run(&one(&format!("echo 1 > made; test -e '{}'", marker.display())), &[]).expect(1);
    env.prune(&[], 0);
    assert_eq!(linked(&env), [""; 0]);
    fs::write(&marker, "").unwrap();
    env.resume(&[]).expect(0);
    assert_eq!((env.committed("made"), env.states()), ("1".into(), vec!["idle".to_owned()]));
}

#[test]
fn prune_removes_the_idle_worktree_of_tasks() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let gate = Gate::new(&garden.env, "task");
    garden.configure("sandbox: {mode: off}\n");
    garden.agent(&format!("{}; {WRITES}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    assert_eq!(garden.env.states(), ["used"]);
    run.kill(held);
    let (_, dead) = garden.env.prune(&[], 0);
    assert_eq!(dead["stays"][0]["reason"]["code"], "resumable", "{dead}");
    gate.stay_open();
    garden.gardener(&[]).expect(0);
    let worktree = linked(&garden.env).pop().expect("that of the tasks");
    fs::write(format!("{worktree}/precious"), "uncommitted\n").unwrap();
    let (_, pruned) = garden.env.prune(&[], 0);
    let kept = "refs/pleach/keep/tasks-main-1";
    assert_eq!(pruned["removed"][0]["kept"], json!({"ref": kept, "uncommitted": ["precious"]}), "{pruned}");
    assert_eq!(garden.env.git(&["show", &format!("{kept}:precious")]), "uncommitted");
    assert_eq!(linked(&garden.env), [""; 0]);
}

#[test]
fn prune_and_doctor_remove_the_same() {
    for fixes in [true, false] {
        let env = TestEnv::with_repo();
        env.configure("agent: simulation\nworktrees: {pool: 10}\n");
        let (gone, worktree) = env.ended();
        let (_, missing) = env.ended();
        fs::write(worktree.join("precious"), "uncommitted\n").unwrap();
        env.forget(&gone);
        fs::remove_dir_all(&missing).unwrap();
        if fixes {
            drop(env.pleach(&["doctor", "--fix"]))
        } else {
            drop(env.prune(&[], 0))
        }
        assert_eq!((linked(&env).len(), env.keeps()), (0, vec![format!("refs/pleach/keep/{gone}-1")]), "{fixes}");
    }
}
