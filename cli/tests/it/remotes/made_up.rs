//! Pushes that are made up for: the last one of a run failed, or was given up.

use std::fs;

use super::{World, one};
use crate::sessions::Gate;

/// A hook of the remote that refuses everything.
const REFUSES: (&str, &str) = ("pre-receive", "echo 'not today' >&2; exit 1");

impl World {
    fn refuse(&self) {
        self.hook(REFUSES.0, REFUSES.1);
    }

    fn allow(&self) {
        fs::remove_file(self.bare().join("hooks").join(REFUSES.0)).expect("a hook");
    }

    /// What `status` says of failed pushes.
    #[track_caller]
    fn failed_pushes(&self) -> usize {
        let status = self.env.pleach(&["--json", "status"]).expect(0).json();
        status["failed_pushes"].as_array().expect("a list").len()
    }
}

#[test]
fn a_last_push_that_failed_is_made_up_for() {
    let world = World::cloned();
    world.configure("remote: remote.git", "");
    world.refuse();
    let ran = world.run(&one("echo 1 > one"), &[]).expect(0);
    let sid = world.env.session();
    ran.warns_once("push-failed").naming(format!("`pleach push {sid}`"));
    assert!(ran.stdout.contains(&format!("push:    pleach push {sid}\n")), "{ran}");
    assert_eq!(world.failed_pushes(), 1);
    let ran = world.env.pleach(&["push", &sid]).expect(7);
    ran.warns("push-failed").naming("not today");
    ran.fails_with("branch-not-pushed").naming(&sid);
    world.allow();
    let ran = world.env.pleach(&["push", &sid]).expect(0);
    assert_eq!(ran.stdout, format!("{sid}: {} (pushed)\n", world.bare().display()));
    world.assert_all_pushed();
    assert_eq!(world.failed_pushes(), 0);
    assert_eq!(world.env.pleach(&["push"]).expect(0).stdout, "nothing to push\n");
}

#[test]
fn resume_and_push_find_what_is_missing() {
    let world = World::cloned();
    world.configure("remote: remote.git", "");
    world.refuse();
    world.run(&one("echo 1 > one"), &[]).expect(0);
    let first = world.env.session();
    world.allow();
    // It has ended: there is nothing to resume but the push.
    world.env.pleach(&["-y", "resume", &first]).expect(0);
    world.assert_all_pushed();
    world.env.pleach(&["-y", "resume", &first]).expect(2).fails_with("session-over");
    // Without ids the sessions are found whose remotes lack something.
    world.refuse();
    world.run(&one("echo 2 > one"), &[]).expect(0);
    world.allow();
    let told = world.env.pleach(&["--json", "push"]).expect(0).json();
    let told = told["sessions"].as_array().expect("a list");
    assert_eq!((told.len(), told[0]["session"] == first.as_str()), (1, false), "{told:?}");
    assert_eq!((&told[0]["pushes"][0]["not_pushed"], world.refs("refs/pleach/").len()), (&0.into(), 2));
}

#[test]
fn a_named_session_is_pushed_whatever_its_policy() {
    let world = World::cloned();
    world.configure("branch_prefix: pleach/", "");
    world.run(&one("echo 1 > one; false"), &[]).expect(1);
    let sid = world.env.session();
    world.env.pleach(&["push"]).expect(0);
    assert_eq!(world.refs("refs/pleach/"), []);
    world.env.pleach(&["push", &sid]).expect(0);
    world.assert_all_pushed();
    world.env.git(&["remote", "remove", "origin"]);
    world.env.pleach(&["push", &sid]).expect(2).fails_with("no-remote").naming("git remote add");
}

#[test]
fn status_forgets_failures_of_what_is_there() {
    let world = World::cloned();
    world.configure("remote: remote.git", "record: {push: never}");
    world.refuse();
    world.run(&one("echo 1 > one"), &[]).expect(0);
    assert_eq!(world.failed_pushes(), 1);
    world.allow();
    world.env.git(&["push", "--quiet", "origin", &world.env.branch()]);
    assert_eq!(world.failed_pushes(), 0);
    let pushes = world.status()["pushes"][0].clone();
    assert_eq!((&pushes["not_pushed"], &pushes["failed"]), (&0.into(), &serde_json::Value::Null), "{pushes}");
}

#[test]
fn a_wait_for_the_last_push_can_be_given_up() {
    let world = World::cloned();
    world.configure("remote: remote.git", "");
    let gate = Gate::new(&world.env, "hook");
    world.hook("pre-receive", &gate.command());
    let mut run = world.start(&one("echo 1 > one"));
    run.wait_for("warning[push-awaited]");
    run.interrupt();
    let ran = run.end_soon().expect(0);
    ran.warns_once("push-awaited").naming("waiting for the last push").naming("Ctrl-C gives it up");
    ran.warns_once("push-failed").naming("given up").naming(format!("`pleach push {}`", world.env.session()));
    assert_eq!(ran.stderr.matches("giving up the last push").count(), 1, "{ran}");
    gate.stay_open();
    world.env.assert_no_process_left();
    assert_eq!((world.failed_pushes(), world.refs("refs/pleach/").len()), (1, 0));
}
