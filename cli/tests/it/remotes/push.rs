//! When what is pushed: "Push Policy Tests" of the source.

use std::time::Instant;

use super::{World, one, refs_in, told, two, wait_until};
use crate::sessions::{Gate, Story, graph, tool};

#[test]
fn push_on_completion() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_completion", "record: {push_interval: 0}");
    let gate = Gate::new(&world.env, "second");
    let mut run = world.start(&two("echo 1 > one", &format!("({}); echo 2 > two", gate.command())));
    let held = gate.reached(&mut run);
    assert_eq!(world.refs("refs/heads/pleach/"), [], "not before it is done");
    gate.open(held);
    let ran = run.end().expect(0);
    assert_eq!(ran.stderr.matches("↑ pushed repo to ").count(), 1, "{ran}");
    world.assert_all_pushed();
    assert_eq!(world.env.git_in(&world.bare(), &["show", &format!("{}:two", world.env.branch())]), "2");
    let pushes = &world.status()["pushes"][0];
    assert_eq!((&pushes["not_pushed"], &pushes["failed"]), (&0.into(), &serde_json::Value::Null));
}

#[test]
fn push_on_checkpoint() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    let gate = Gate::new(&world.env, "second");
    let mut run = world.start(&two("echo 1 > one", &format!("({}); echo 2 > two", gate.command())));
    let held = gate.reached(&mut run);
    // The commit of the first node, and the record that the second has started.
    wait_until("the checkpoint is pushed", || {
        let branch = format!("refs/heads/{}", world.env.branch());
        let is_there = |name: &str| world.at_remote(name).is_some_and(|at| at == world.env.git(&["rev-parse", name]));
        is_there(&branch) && is_there(&world.record())
    });
    assert_eq!(world.env.git_in(&world.bare(), &["show", &format!("{}:one", world.env.branch())]), "1");
    gate.open(held);
    run.end().expect(0);
    world.assert_all_pushed();
}

#[test]
fn push_never() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: never", "");
    let ran = world.run(&one("echo 1 > one"), &["--json"]).expect(0);
    assert!(told(&ran, "BranchPushed").is_empty());
    assert_eq!(world.refs("refs/").len(), 1, "{:?}", world.refs("refs/"));
    assert_eq!(world.status()["pushes"], serde_json::json!([]));
}

#[test]
fn default_push_with_remote() {
    let world = World::cloned();
    world.configure("remote: remote.git", "");
    let ran = world.run(&one("echo 1 > one"), &["--json"]).expect(0);
    let pushed = told(&ran, "BranchPushed");
    assert_eq!(pushed.len(), 1, "once, at the end: {ran}");
    let refs: Vec<&String> = pushed[0]["refs"].as_object().expect("refs").keys().collect();
    assert_eq!(refs, [&format!("refs/heads/{}", world.env.branch()), &world.record()]);
    world.assert_all_pushed();
    assert!(world.story().all("BranchPushed").is_empty(), "it is told and not recorded");
}

#[test]
fn default_push_without_remote() {
    let world = World::cloned();
    world.configure("branch_prefix: pleach/", "");
    world.run(&one("echo 1 > one"), &[]).expect(0);
    assert_eq!(world.refs("refs/heads/pleach/"), [], "also where git knows an origin");
}

#[test]
fn push_failure_non_fatal() {
    let world = World::cloned();
    world.configure("remote: nowhere.git, push: on_checkpoint", "record: {push_interval: 0}");
    let ran = world.run(&two("echo 1 > one", "echo 2 > two"), &[]).expect(0);
    ran.warns_once("push-failed")
        .naming("cannot push `repo` to ")
        .naming("nowhere.git")
        .naming("does not appear to be a git repository")
        .naming("git ls-remote");
    assert_eq!(world.env.files(), ["README.md", "one", "two"]);
    let failed = world.status()["pushes"][0].clone();
    assert_eq!(failed["not_pushed"], 2);
    assert!(failed["failed"]["why"].as_str().is_some_and(|why| why.contains("does not appear")), "{failed}");
    let shown = world.env.pleach(&["status", &world.env.session()]).expect(0);
    assert!(shown.stdout.contains("(2 commits not pushed; the last push failed: "), "{shown}");
    let shown = world.env.pleach(&["status"]).expect(0);
    assert!(shown.stdout.contains("the last push of `repo` to "), "{shown}");
    // `rm` takes what is known of the remote with it.
    world.env.pleach(&["rm", &world.env.session(), "--force"]).expect(0);
    assert_eq!(std::fs::read_dir(world.env.repo_path().join(".git/pleach/push")).expect("a directory").count(), 0);
}

#[test]
fn no_push_on_pipeline_failure() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_completion", "");
    world.run(&two("echo 1 > one", "false"), &[]).expect(1);
    assert_eq!(world.refs("refs/").len(), 1);
    // Checkpoints are pushed whatever comes of them, also the end.
    world.configure("remote: remote.git, push: on_checkpoint", "");
    world.run(&two("echo 1 > one", "false"), &[]).expect(1);
    let (record, _) = world.refs("refs/pleach/").into_iter().next().expect("a record");
    let session = record.split('/').nth(3).expect("a session");
    assert_eq!(Story::of(&world.env, &world.bare(), session).kinds().last(), Some(&"PipelineFailed"));
    let branch = format!("refs/heads/pleach/two/{session}");
    assert_eq!(world.env.git_in(&world.bare(), &["show", &format!("{branch}:one")]), "1");
}

/// Two repositories, each with a remote of its own.
pub(super) fn two_repos(a: &str, b: &str) -> World {
    let world = World::new();
    world.add_remote("other");
    world.env.configure(&format!(
        "workspace:\n  repos:\n    other: {{path: other, remote: other.git, push: {b}}}\n    repo: {{path: repo, \
         remote: remote.git, push: {a}}}\nrecord: {{push_interval: 0, repo: repo}}\n"
    ));
    world
}

#[test]
fn multi_repo_push() {
    let world = two_repos("on_completion", "on_completion");
    world.run(&one("echo 1 > repo/one; echo 2 > other/two"), &[]).expect(0);
    world.assert_all_pushed();
    let (other, branch) = (world.env.root().join("other.git"), format!("refs/heads/{}", world.env.branch()));
    assert_eq!(world.env.git_in(&other, &["show", &format!("{branch}:two")]), "2");
    assert_eq!(refs_in(&world.env, &other, "refs/pleach/"), [], "records are in their own repository alone");
    assert_eq!(world.status()["pushes"].as_array().map(Vec::len), Some(2));
}

#[test]
fn checkpoint_push_per_repo() {
    let world = two_repos("on_checkpoint", "on_completion");
    let gate = Gate::new(&world.env, "second");
    let first = "echo 1 > repo/one; echo 2 > other/two";
    let mut run = world.start(&two(first, &format!("({})", gate.command())));
    let held = gate.reached(&mut run);
    let other = world.env.root().join("other.git");
    wait_until("the first is pushed", || !world.refs("refs/heads/pleach/").is_empty());
    assert_eq!(refs_in(&world.env, &other, "refs/heads/pleach/"), [], "the second waits for the end");
    gate.open(held);
    run.end().expect(0);
    assert_eq!(refs_in(&world.env, &other, "refs/heads/pleach/").len(), 1);
    world.assert_all_pushed();
}

#[test]
fn records_are_pushed_as_their_setting_says() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push: never}");
    let ran = world.run(&one("echo 1 > one"), &[]).expect(0);
    ran.warns_once("records-not-pushed");
    assert_eq!((world.refs("refs/pleach/").len(), world.refs("refs/heads/pleach/").len()), (0, 1));
    // Without a remote of its own the one people push to, here `origin`.
    world.configure("push: never", "record: {push: always}");
    world.run(&one("echo 1 > one"), &[]).expect(0);
    assert_eq!((world.refs("refs/pleach/").len(), world.refs("refs/heads/pleach/").len()), (1, 1));
}

#[test]
fn pushes_in_between_are_put_together() {
    let world = World::cloned();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 60}");
    let nodes: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let tools: String = nodes.iter().map(|id| tool(id, &format!("echo {id} > {id}"))).collect();
    let begun = Instant::now();
    let ran =
        world.run(&graph("many", &(tools + "start -> " + &nodes.join(" -> ") + " -> exit")), &["--json"]).expect(0);
    assert!(begun.elapsed().as_secs() < 60, "the end does not wait for the interval");
    assert_eq!(told(&ran, "BranchPushed").len(), 2, "the first, and the end");
    world.assert_all_pushed();
}

#[test]
fn a_replay_is_pushed_beside_its_session() {
    let world = World::new();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    world
        .run(&graph("p", &(tool("a", "echo a > a") + &tool("b", "echo b > b") + " start -> a -> b -> exit")), &[])
        .expect(0);
    let (session, own) = (world.env.session(), world.env.branch());
    world.env.pleach(&["-y", "replay", &session, "--checkpoint", "a"]).expect(0);
    let names: Vec<String> = world.refs("refs/heads/pleach/").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["", "--r1"].map(|run| format!("refs/heads/{own}{run}")));
    let records: Vec<String> = world.refs("refs/pleach/").into_iter().map(|(name, _)| name).collect();
    assert_eq!(records, ["main", "r1"].map(|context| format!("refs/pleach/sessions/{session}/{context}")));
}
