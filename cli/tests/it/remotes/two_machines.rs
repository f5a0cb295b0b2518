//! Two machines on one session: the second one is noticed by the first, which stops and keeps what it has.

use std::path::Path;

use super::push::two_repos;
use super::{World, refs_in, two, wait_until};
use crate::sessions::Gate;
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree};

/// Has another machine write to the record of a session, from what it has fetched from the remote.
fn write_elsewhere(env: &TestEnv, machine: &Path, bare: &Path, record: &str) -> String {
    let tip = env.git_in(bare, &["rev-parse", record]);
    let bare = bare.to_str().expect("a path of the test's own");
    env.git_in(machine, &["fetch", "--quiet", bare, record]);
    let tree = env.git_in(machine, &["rev-parse", &format!("{tip}^{{tree}}")]);
    let theirs = env.git_in(machine, &["commit-tree", "-p", &tip, "-m", "resume", &tree]);
    env.git_in(machine, &["push", "--quiet", bare, &format!("{theirs}:{record}")]);
    theirs
}

#[test]
fn a_session_continued_elsewhere_stops_here() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    let (gate, third) = (Gate::new(&world.env, "second"), Gate::new(&world.env, "third"));
    let work = format!("({}); echo 2 > two", gate.command());
    let dot = two("echo 1 > one", &work).replace("second -> exit", "second -> third -> exit");
    let dot =
        dot.replace("start ->", &(crate::sessions::tool("third", &format!("({})", third.command())) + " start ->"));
    let mut run = world.start(&dot);
    let held = gate.reached(&mut run);
    wait_until("the checkpoint is pushed", || {
        world.at_remote(&world.record()) == Some(world.env.git(&["rev-parse", &world.record()]))
    });
    let source = world.env.root().join("remote-source");
    let theirs = write_elsewhere(&world.env, &source, &world.bare(), &world.record());
    gate.open(held);
    third.stay_open();
    let ran = run.end().expect(6);
    ran.fails_with("continued-elsewhere").naming("another machine has continued it").naming("nothing is lost here");
    // What was done here is here, and the remote has what the other machine wrote.
    assert_eq!(world.at_remote(&world.record()), Some(theirs.clone()));
    assert_eq!(world.env.committed("two"), "2");
    let status = world.status();
    assert!(
        status["pushes"][0]["failed"]["why"].as_str().is_some_and(|why| why.contains("another machine")),
        "{status}"
    );
    // Resumed here it stops again, without having moved anything of theirs.
    world.env.resume(&[]).expect(6).fails_with("continued-elsewhere");
    assert_eq!(world.at_remote(&world.record()), Some(theirs));
}

#[test]
fn an_overtaken_machine_leaves_other_remotes_alone() {
    let world = two_repos("on_checkpoint", "on_checkpoint");
    let gate = Gate::new(&world.env, "second");
    let work = |number: u8| format!("echo {number} > repo/work; echo {number} > other/work");
    let mut run = world.start(&two(&work(1), &format!("({}); {}", gate.command(), work(2))));
    let held = gate.reached(&mut run);
    wait_until("the checkpoint is pushed", || {
        world.at_remote(&world.record()) == Some(world.env.git(&["rev-parse", &world.record()]))
    });
    let (source, other) = (world.env.root().join("remote-source"), world.env.root().join("other.git"));
    let before = refs_in(&world.env, &other, "refs/");
    assert_eq!(before.len(), 2, "{before:?}");
    let theirs = write_elsewhere(&world.env, &source, &world.bare(), &world.record());
    gate.open(held);
    run.end().expect(6).fails_with("continued-elsewhere").naming("another machine has continued it");
    assert_eq!(refs_in(&world.env, &other, "refs/"), before, "nothing is in the way of the other machine");
    assert_eq!(world.at_remote(&world.record()), Some(theirs));
    assert_eq!(world.env.committed("work"), "2", "what was done here is here");
}

#[test]
fn a_task_continued_elsewhere_stops_its_run() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let (env, bare) = (&garden.env, garden.env.root().join("remote.git"));
    env.unbound();
    env.git_in(env.root(), &["clone", "--quiet", "--bare", "repo", "remote.git"]);
    env.git_in(env.root(), &["clone", "--quiet", "remote.git", "machine"]);
    garden.configure(
        "workspace: {repos: {repo: {path: repo, remote: remote.git, push: on_checkpoint}}}\nrecord: {push_interval: 0}\n",
    );
    let gate = Gate::new(env, "work");
    garden.agent(&format!("({}); echo 1 > work; echo Done.", gate.command()), APPROVES);
    let mut run = env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    let here = || refs_in(env, &env.repo_path(), "refs/pleach/sessions/");
    wait_until("the checkpoint is pushed", || refs_in(env, &bare, "refs/pleach/sessions/") == here());
    let record = here().remove(0).0;
    let theirs = write_elsewhere(env, &env.root().join("machine"), &bare, &record);
    gate.open(held);
    run.end().expect(6).fails_with("continued-elsewhere").naming("another machine has continued it");
    assert_eq!(env.git_in(&bare, &["rev-parse", &record]), theirs);
}
