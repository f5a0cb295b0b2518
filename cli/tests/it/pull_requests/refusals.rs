//! What has no request, and what goes wrong.

use super::{GH, goal, world};
use crate::remotes::two;
use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;
use crate::worktree_commands::one;

#[test]
fn unfinished_work_is_a_draft_and_running_work_refused() {
    let world = world();
    world.play("gh", GH);
    let gate = Gate::new(&world.env, "second");
    let mut run = world.start(&two("echo 1 > one", &format!("({}); false", gate.command())));
    let held = gate.reached(&mut run);
    let sid = world.env.session();
    world.env.pleach(&["pr", &sid]).expect(6).fails_with("session-locked").naming("is running");
    gate.open(held);
    run.end().expect(1);
    assert_eq!(world.branch_at_remote(), None);
    let ran = world.env.pleach(&["--json", "pr", &sid]).expect(0);
    ran.warns("draft-only").naming("is failed");
    assert_eq!(ran.json()["requests"][0]["draft"], true);
    assert!(world.env.read("gh.log").lines().any(|line| line == "--draft"));
}

#[test]
fn a_remote_that_refuses_is_exit_five() {
    let world = world();
    world.run(&goal("echo 1 > one"), &[]).expect(0);
    let sid = world.env.session();
    world.hook("pre-receive", "echo not today; exit 1");
    world.env.pleach(&["pr", &sid]).expect(5).fails_with("push-refused").naming("not today");
    std::fs::rename(world.bare(), world.env.root().join("elsewhere.git")).unwrap();
    world.env.pleach(&["pr", &sid]).expect(7).fails_with("branch-not-pushed");
}

#[test]
fn a_program_that_fails_leaves_the_branch_pushed() {
    let world = world();
    world.play("gh", "#!/bin/sh\necho 'not logged in' >&2; exit 4\n");
    world.run(&goal("echo 1 > one"), &[]).expect(0);
    let ran = world.env.pleach(&["pr", &world.env.session()]).expect(7);
    ran.fails_with("forge-failed").naming("not logged in").naming("is pushed");
    assert!(world.branch_at_remote().is_some());
}

#[test]
fn there_is_no_request_without_remote_or_commits() {
    let env = TestEnv::with_repo();
    env.run(&graph("idle", &(tool("work", "true") + "start -> work -> exit")), &[]).expect(0);
    let idle = env.session();
    env.pleach(&["pr", &idle]).expect(2).fails_with("nothing-to-request");
    env.pleach(&["pr", "nobody"]).expect(2).fails_with("no-such-session");
    env.run(&one("echo 1 > one"), &[]).expect(0);
    let made = env.sessions().into_iter().find(|id| *id != idle).expect("another session");
    env.pleach(&["pr", &made]).expect(2).fails_with("no-remote").naming("git remote add");
}
