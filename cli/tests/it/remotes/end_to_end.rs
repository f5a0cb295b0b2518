//! "Remote End-to-End Integration Tests" of the source.

use super::World;
use crate::sessions::{graph, tool};

#[test]
fn full_remote_lifecycle() {
    let world = World::new();
    world.env.write(
        "script.yaml",
        "scripts:\n  - name: hello\n    steps:\n      - text: I write it.\n        tools: [{write_file: {file_path: hello.py, content: \"print('hello')\\n\"}}]\n      - text: Done.\n",
    );
    world.configure("remote: remote.git, branch_prefix: orchestra/", {
        "agent: builtin\nproviders: {script: {file: script.yaml}}"
    });
    let dot = graph("test_git", " code [shape=box, prompt=\"Create hello.py\"]\n start -> code -> exit");
    world.run(&dot, &[]).expect(0);
    let (branch, story) = (world.env.branch(), world.story());
    assert!(branch.starts_with("orchestra/test-git/"), "{branch}");
    let base = story.first("RepoCloned")["commit"].as_str().expect("a commit").to_owned();
    let bare = world.bare();
    let log = world
        .env
        .git_in(&bare, &["log", "--format=%an|%(trailers:key=Orchestra-Node,valueonly)", &format!("{base}..{branch}")]);
    assert!(log.starts_with("code (") && log.contains("|code"), "{log}");
    assert_eq!(world.env.git_in(&bare, &["show", &format!("{branch}:hello.py")]), "print('hello')");
    // The commits of checkpoints are those the remote has.
    let snapshot = story.last("SnapshotRecorded")["workspace_snapshot"]["repo"].as_str().expect("a commit").to_owned();
    assert_eq!(world.at_remote(&format!("refs/heads/{branch}")), Some(snapshot));
    assert_eq!(world.at_remote("refs/heads/main"), Some(base), "nothing else of the remote has moved");
    world.assert_all_pushed();
}

#[test]
fn remote_with_parallel_worktrees() {
    let world = World::new();
    world.configure("remote: remote.git, push: on_checkpoint", "record: {push_interval: 0}");
    let branch = |id: &str| tool(id, &format!("echo {id} > {id}"));
    let dot = graph(
        "both",
        &(branch("a")
            + &branch("b")
            + " fork [shape=component]\n join [shape=tripleoctagon]\n start -> fork -> a -> join\n fork -> b -> join -> exit"),
    );
    world.run(&dot, &[]).expect(0);
    world.assert_all_pushed();
    let (session, bare, own) = (world.env.session(), world.bare(), world.env.branch());
    let files = world.env.git_in(&bare, &["ls-tree", "-r", "--name-only", &own]);
    assert_eq!(files, "README.md\na\nb");
    // Every context has its branch and its record there.
    let names: Vec<String> = world.refs("refs/heads/pleach/").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["", "--a", "--b"].map(|context| format!("refs/heads/{own}{context}")));
    let records: Vec<String> = world.refs("refs/pleach/").into_iter().map(|(name, _)| name).collect();
    assert_eq!(records, ["a", "b", "main"].map(|context| format!("refs/pleach/sessions/{session}/{context}")));
    for (name, commit) in world.refs("refs/pleach/") {
        assert_eq!(commit, world.env.git(&["rev-parse", &name]), "{name}");
    }
    // All of it is whole: a clone of the remote can read it.
    world.env.git_in(&bare, &["fsck", "--strict", "--no-dangling"]);
}
