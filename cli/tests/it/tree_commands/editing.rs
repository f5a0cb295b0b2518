//! Trees that change: between runs, and while they are worked.

use super::{AGENT, TREE, pleach, world};
use crate::support::{Ran, TestEnv};

#[test]
fn an_edited_tree_is_noticed_at_the_next_start() {
    let env = world(TREE, AGENT);
    let ran = pleach(&env, 0, &["garden"]);
    ran.does_not_warn("tree-edited");
    let ran = pleach(&env, 0, &["garden"]);
    ran.does_not_warn("tree-edited");
    env.write("repo/task-tree.json", TREE.replace("Add three", "Add 3").replace("Add one", "Add 1"));
    let ran = pleach(&env, 0, &["gardener"]);
    ran.warns_once("tree-edited").naming("`task-tree.json`");
    assert!(ran.stderr.contains("  T003 renamed: Add three → Add 3\n"), "{ran}");
    ran.warns_once("task-renamed").naming("T001").naming("\"Add one\"").naming("\"Add 1\"");
    let status = env.pleach(&["status"]).expect(0);
    assert!(status.stdout.contains("\"Add one\"") && status.stdout.contains("\"Add 1\""), "{status}");
    // The first record of a session has the tree as it was run.
    let records = env.git(&["log", "--all", "--format=%H %s"]);
    let starts = records.lines().filter(|line| line.contains(" start task"));
    let stored = starts.map(|line| env.git(&["show", &format!("{}:task-tree.json", &line[..40])]));
    let (new, old): (Vec<_>, Vec<_>) = stored.partition(|tree| tree.contains("Add 3"));
    assert!(!new.is_empty() && old.len() == 2, "{new:?} {old:?}");
}

/// Runs `gardener` and has something edited while its first task is worked.
#[track_caller]
fn edited_meanwhile(env: &TestEnv, args: &[&str], edit: impl FnOnce()) -> Ran {
    let agent = AGENT.replace("echo 1 > one.txt;", "until [ -f GATE/go ]; do sleep 0.05; done; echo 1 > one.txt;");
    env.write_program("agent.sh", &agent.replace("GATE", env.root().to_str().unwrap()));
    let mut run = env.spawn(args);
    run.wait_for("T001 Add one begins");
    edit();
    env.write("go", "");
    run.end_soon()
}

#[test]
fn an_edit_during_a_run_applies_from_the_next() {
    let env = world(TREE, AGENT);
    // T003 is taken out, and T004 comes in with a command nobody has approved.
    let edited = TREE.replace("\"children\": [\"T003\"]", "\"children\": [\"T004\"]").replace("T003", "T004");
    let ran = edited_meanwhile(&env, &["-y", "gardener"], || {
        env.write("repo/task-tree.json", edited.replace("test -f three.txt", "test -d ."));
    })
    .expect(0);
    ran.warns_once("tree-edited-meanwhile").naming("`task-tree.json`");
    assert!(ran.begun().contains(&"T003") && !ran.stderr.contains("T004"), "{ran}");
    let ran = env.pleach(&["gardener"]).expect(4);
    assert!(ran.stderr.contains("test -d ."), "its commands are asked about then: {ran}");
    let ran = pleach(&env, 0, &["gardener"]);
    assert!(ran.stderr.contains("T003 removed: Add three") && ran.stderr.contains("T004 added: Add three"), "{ran}");
    assert!(ran.begun().contains(&"T004"), "{ran}");
}

#[test]
fn a_pipe_instead_of_a_tree_is_not_waited_for() {
    let env = world(TREE, AGENT);
    let tree = env.repo_path().join("task-tree.json");
    let ran = edited_meanwhile(&env, &["-y", "gardener"], || {
        std::fs::remove_file(&tree).unwrap();
        assert!(env.program("mkfifo", env.root()).arg(&tree).status().unwrap().success());
    })
    .expect(0);
    ran.warns_once("tree-edited-meanwhile");
    assert!(ran.begun().contains(&"T003"), "{ran}");
}

#[test]
fn tasks_left_out_of_the_order_are_warned_about_once() {
    let tree = TREE.trim_end().strip_suffix('}').unwrap().to_owned() + ", \"execution_order\": [\"T001\", \"T002\"]}";
    let env = world(&tree, AGENT);
    let ran = pleach(&env, 0, &["gardener"]);
    ran.warns_once("task-left-out").naming("T003");
    assert!(env.pleach(&["status"]).expect(0).stdout.contains("not in execution_order: T003"));
}
