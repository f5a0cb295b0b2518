//! Remotes that fail: the work goes on, nothing is lost, the warning says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use super::{World, one, told, two, wait_until};
use crate::sessions::{Gate, graph, tool};

#[test]
fn a_hook_that_rejects_is_a_warning_with_its_words() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    world.hook("pre-receive", "echo 'no pushes on Fridays' >&2; exit 1");
    let ran = world.run(&two("echo 1 > one", "echo 2 > two"), &[]).expect(0);
    ran.warns_once("push-failed")
        .naming("pre-receive hook declined")
        .naming("no pushes on Fridays")
        .naming("workspace.repos.repo.push: never");
    assert_eq!(world.env.files(), ["README.md", "one", "two"]);
    assert_eq!(world.refs("refs/").len(), 1);
    // Once the hook is gone, the next run of the session pushes all of it.
    fs::remove_file(world.bare().join("hooks/pre-receive")).expect("a hook");
    assert_eq!(world.status()["pushes"][0]["not_pushed"], 2);
}

#[test]
fn what_failed_is_tried_again_while_the_session_runs() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    world.hook("pre-receive", &format!("test -e '{}'", world.env.root().join("allowed").display()));
    let gate = Gate::new(&world.env, "second");
    let mut run = world.start(&two("echo 1 > one", &format!("({})", gate.command())));
    let held = gate.reached(&mut run);
    run.wait_for("warning[push-failed]");
    world.env.write("allowed", "");
    wait_until("it is pushed after all", || !world.refs("refs/pleach/").is_empty());
    gate.open(held);
    run.end().expect(0);
    world.assert_all_pushed();
    assert_eq!(world.status()["pushes"][0]["failed"], serde_json::Value::Null);
}

#[test]
fn a_deleted_remote_stops_nothing() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    let gate = Gate::new(&world.env, "second");
    let mut run = world.start(&two("echo 1 > one", &format!("({}); echo 2 > two", gate.command())));
    let held = gate.reached(&mut run);
    wait_until("the checkpoint is pushed", || {
        world.at_remote(&world.record()) == Some(world.env.git(&["rev-parse", &world.record()]))
    });
    fs::rename(world.bare(), world.env.root().join("gone.git")).expect("it is moved away");
    gate.open(held);
    let ran = run.end().expect(0);
    ran.warns("push-failed").naming("does not appear to be a git repository").naming("git ls-remote");
    assert_eq!(world.env.files(), ["README.md", "one", "two"]);
}

#[test]
fn a_remote_that_cannot_be_written_stops_nothing() {
    let world = World::cloned();
    world.configure("remote: remote.git", "");
    // As full as a disk can be for one who is not root; root is told by a hook.
    let objects = world.bare().join("objects");
    let writable = fs::metadata(&objects).expect("a directory").permissions();
    fs::set_permissions(&objects, fs::Permissions::from_mode(0o555)).expect("read-only");
    if fs::write(objects.join("probe"), "").is_ok() {
        world.hook("pre-receive", "echo 'fatal: write error: No space left on device' >&2; exit 1");
    }
    let ran = world.run(&one("echo 1 > one"), &[]).expect(0);
    ran.warns_once("push-failed").naming("the work is safe here");
    fs::set_permissions(&objects, writable).expect("writable again");
    assert_eq!(world.env.files(), ["README.md", "one"]);
    world.env.git_in(&world.bare(), &["fsck", "--no-dangling"]);
}

#[test]
fn a_remote_that_hangs_costs_a_bounded_time() {
    let world = World::cloned();
    world.configure("remote: 'ssh://nobody@localhost/x.git', push: on_checkpoint", "record: {push_interval: 0}");
    let ssh = world.env.write_program("bin/hanging-ssh", "#!/bin/sh\nexec sleep 600\n");
    let begun = Instant::now();
    let mut command = world.command(&two("echo 1 > one", "echo 2 > two"), &[]);
    command.env("GIT_SSH_COMMAND", ssh).env("PLEACH_PATIENCE_MS", "700");
    let ran = world.env.finish(command.output().expect("pleach can be started")).expect(0);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    ran.warns_once("fetch-failed").naming("without a sign of life");
    ran.warns("push-failed").naming("without a sign of life").naming("git ls-remote");
    assert_eq!(world.env.files(), ["README.md", "one", "two"]);
    world.env.assert_no_process_left();
}

#[test]
fn a_signal_during_a_clone_leaves_nothing_behind() {
    for signal in ["INT", "TERM", "HUP"] {
        let world = World::cloned();
        let remote = "{path: work/app, remote: 'ssh://nobody@localhost/x.git'}";
        world.env.configure(&format!("workspace: {{repos: {{app: {remote}, repo: {{path: repo}}}}}}\n"));
        let gate = Gate::new(&world.env, "ssh");
        world.env.write_program("bin/ssh", &format!("#!/bin/sh\n{}\n", gate.command()));
        let mut run = world.start(&one("echo 1 > one"));
        let held = gate.reached(&mut run);
        run.signal(signal);
        let ran = run.end().expect(3);
        ran.fails_with("clone-stopped").naming("nothing of it is left");
        assert!(!world.env.root().join("work").exists(), "{signal}");
        world.env.assert_no_process_left();
        drop(held);
    }
}

#[test]
fn a_signal_after_a_clone_still_ends_pleach() {
    let world = World::cloned();
    world.env.configure(
        "workspace: {repos: {app: {path: app, remote: remote.git}, repo: {path: repo, remote: 'ssh://nobody@localhost/x'}}}\n",
    );
    let gate = Gate::new(&world.env, "ssh");
    world.env.write_program("bin/ssh", &format!("#!/bin/sh\n{}\n", gate.command()));
    let mut run = world.start(&one("echo 1 > one"));
    let held = gate.reached(&mut run);
    assert!(world.env.root().join("app/.git").exists(), "it is cloned, and the other is fetched");
    run.signal("TERM");
    run.end().expect(143);
    drop(held);
    world.env.assert_no_process_left();
}

#[test]
fn a_slow_remote_holds_up_no_node() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    let gate = Gate::new(&world.env, "hook");
    world.hook("pre-receive", &gate.command());
    let done = Gate::new(&world.env, "done");
    let mut run = world.start(&two("echo 1 > one", &format!("({}); echo 2 > two", done.command())));
    // The push of the first records waits; both nodes are worked meanwhile.
    let held = gate.reached(&mut run);
    let at_end = done.reached(&mut run);
    gate.open(held);
    done.open(at_end);
    run.end().expect(0);
    world.assert_all_pushed();
}

#[test]
fn a_protected_branch_is_a_warning() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    world.hook("update", "case $1 in refs/heads/*) echo 'protected branch' >&2; exit 1;; esac");
    let ran = world.run(&one("echo 1 > one"), &["--json"]).expect(0);
    let failed = told(&ran, "PushFailed");
    let why = failed.last().and_then(|failed| failed["why"].as_str()).expect("a reason");
    assert!(why.contains("hook declined") && why.contains("protected branch"), "{why}");
    assert!(failed.last().expect("a failure").get("retry_in").is_none(), "the session has ended");
    ran.warns("push-failed").naming("protected branch");
    assert_eq!(world.env.files(), ["README.md", "one"]);
}

#[test]
fn somebody_elses_branch_is_never_overwritten() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    let gate = Gate::new(&world.env, "second");
    let mut run = world.start(&two("echo 1 > one", &format!("({}); echo 2 > two", gate.command())));
    let held = gate.reached(&mut run);
    let branch = format!("refs/heads/{}", world.env.branch());
    // A push under way would find the branch moved in the middle of it.
    wait_until("all checkpoints are pushed", || {
        [&branch, &world.record()].iter().all(|name| world.at_remote(name) == Some(world.env.git(&["rev-parse", name])))
    });
    let theirs = world.commit_elsewhere("remote", "theirs");
    world.env.git_in(&world.bare(), &["update-ref", &branch, &theirs]);
    gate.open(held);
    let ran = run.end().expect(0);
    let beside = format!("{branch}@2");
    ran.warns_once("pushed-beside").naming(&beside).naming("git fetch");
    ran.does_not_warn("push-failed");
    assert_eq!(world.at_remote(&branch), Some(theirs));
    assert_eq!(world.env.files(), ["README.md", "one", "two"]);
    // The work is safe at the remote as well, and its records with it.
    for (there, here) in [(&beside, &branch), (&world.record(), &world.record())] {
        assert_eq!(world.at_remote(there), Some(world.env.git(&["rev-parse", here])), "{there}");
    }
    let pushes = world.status()["pushes"][0].clone();
    assert_eq!((&pushes["beside"][&branch], &pushes["not_pushed"]), (&beside.as_str().into(), &0.into()), "{pushes}");
}

#[test]
fn a_branch_taken_before_a_resume_is_told() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    world.hook("pre-receive", "exit 1");
    let gate = "gate [shape=hexagon, label=\"Go on?\"]\n start -> work -> gate\n gate -> exit [label=\"[Y] Yes\"]";
    world.run(&graph("ask", &(tool("work", "echo 1 > one") + gate)), &[]).expect(4);
    fs::remove_file(world.bare().join("hooks/pre-receive")).expect("a hook");
    let (branch, theirs) = (format!("refs/heads/{}", world.env.branch()), world.commit_elsewhere("remote", "theirs"));
    world.env.git_in(&world.bare(), &["update-ref", &branch, &theirs]);
    // It is pushed before anything runs.
    let ran = world.env.resume(&["--answer", "gate=Y"]).expect(0);
    ran.warns_once("pushed-beside").naming(format!("{branch}@2"));
    assert_eq!(world.at_remote(&format!("{branch}@2")), Some(world.env.git(&["rev-parse", &branch])));
}

#[test]
fn refused_record_refs_become_branches() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    world.hook("update", "case $1 in refs/pleach/*) echo 'namespace not allowed' >&2; exit 1;; esac");
    let ran = world.run(&two("echo 1 > one", "echo 2 > two"), &[]).expect(0);
    ran.warns_once("records-as-branches").naming("refuses refs below refs/pleach/").naming("pleach/records/");
    ran.does_not_warn("push-failed");
    let record = format!("refs/heads/pleach/records/{}--main", world.env.session());
    assert_eq!(world.at_remote(&record), Some(world.env.git(&["rev-parse", &world.record()])));
    assert_eq!(world.status()["pushes"][0]["records_as_branches"], true);
    assert_eq!(world.refs("refs/pleach/"), []);
}

#[test]
fn a_pause_pushes_at_once_and_a_resume_the_rest() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 600}");
    let [second, third] = ["second", "third"].map(|name| Gate::new(&world.env, name));
    let wait = |gate: &Gate| format!("({}); echo 1 >> file", gate.command());
    let nodes = tool("first", "echo 1 > file") + &tool("second", &wait(&second)) + &tool("third", &wait(&third));
    let mut run = world.start(&graph("three", &(nodes + "start -> first -> second -> third -> exit")));
    let held = second.reached(&mut run);
    run.stop();
    second.open(held);
    run.end().expect(3);
    world.assert_all_pushed();
    // What a killed run could not push, the next one does.
    let mut run = world.env.spawn(&["-y", "resume", &world.env.session()]);
    let held = third.reached(&mut run);
    run.kill(held);
    third.stay_open();
    world.env.resume(&[]).expect(0);
    world.assert_all_pushed();
    assert_eq!(world.env.committed("file"), "1\n1\n1");
}
