//! Trees that change: between runs, and while they are worked.

use super::{AGENT, TREE, pleach, world};
use crate::support::{Ran, TestEnv};

#[test]
fn an_edited_tree_is_noticed_at_the_next_start() {
    let env = world(TREE, AGENT);
    let ran = pleach(&env, 0, &["garden"]);
    assert!(!ran.stderr.contains("was edited"), "{ran}");
    let ran = pleach(&env, 0, &["garden"]);
    assert!(!ran.stderr.contains("was edited"), "nothing changed: {ran}");
    env.write("repo/task-tree.json", TREE.replace("Add three", "Add 3").replace("Add one", "Add 1"));
    let ran = pleach(&env, 0, &["gardener"]);
    assert!(ran.stderr.contains("`task-tree.json` was edited since it was last worked:\n"), "{ran}");
    assert!(ran.stderr.contains("  T003 renamed: Add three → Add 3\n"), "{ran}");
    let renamed = "T001 was completed as \"Add one\", and the tree calls it \"Add 1\"";
    assert!(ran.stderr.contains(renamed), "{ran}");
    assert!(env.pleach(&["status"]).expect(0).stdout.contains(renamed));
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

/// A pipeline of one step, which ends as `end` says.
fn pipeline(attrs: &str, end: &str) -> String {
    format!("digraph p {{ start [shape=Mdiamond]; done [shape=Msquare]; work [{attrs}]; start -> work; {end} }}\n")
}

#[test]
fn a_tree_edited_while_it_is_worked_is_gone_on_with_as_it_is_now() {
    let env = world(TREE, AGENT);
    // T003 is taken out, T004 comes in and waits for nothing.
    let edited = TREE.replace("\"children\": [\"T003\"]", "\"children\": [\"T004\"]").replace("T003", "T004");
    let edited = edited.replace("test -f three.txt", "true");
    let ran = edited_meanwhile(&env, &["-y", "gardener"], || {
        env.write("repo/task-tree.json", edited);
    })
    .expect(0);
    let at = |text: &str| ran.stderr.find(text);
    let noticed = at("was edited and counts so from the next task on");
    assert!(noticed.is_some() && noticed < at("T001 complete"), "at the end of the step it was edited in: {ran}");
    assert!(at("T001 landed") < at("was edited and is gone on with as it is now"), "{ran}");
    assert!(ran.stderr.contains("T003 removed: Add three") && ran.stderr.contains("T004 added: Add three"), "{ran}");
    assert!(ran.stderr.contains("T004 Add three begins") && !ran.stderr.contains("T003 Add three begins"), "{ran}");
}

#[test]
fn a_tree_that_cannot_be_worked_meanwhile_is_worked_as_it_was() {
    let with = |tree: &str, task: &str, pipeline: &str| {
        let id = format!("\"id\": \"{task}\"");
        tree.replace(&id, &format!("{id}, \"pipeline\": \"{pipeline}\""))
    };
    let tree = with(TREE, "T002", "asks.dot");
    for (edited, why) in [
        ("{\"nodes\": ", "is no valid task tree"),
        (&with(&tree, "T003", "later.dot"), "cannot read `later.dot`"),
        (&with(&tree, "T003", "ghost.dot"), "no-such-program"),
    ] {
        let env = world(&tree, AGENT);
        env.write("repo/ghost.dot", pipeline("agent=ghost, step=implement", "work -> done"));
        env.write("repo/asks.dot", pipeline("step=implement", "look [shape=hexagon]; work -> look -> done"));
        let settings = env.read("repo/pleach.yaml");
        env.write("repo/pleach.yaml", settings + "agents: {ghost: {command: [no-such-program]}}\n");
        let ran = edited_meanwhile(&env, &["-y", "gardener", "--answer", "look=done"], || {
            env.write("repo/task-tree.json", edited);
        })
        .expect(0);
        let warned = ran.stderr.split("; going on with the tree as it was\n").next();
        assert!(warned.is_some_and(|warned| warned.len() < ran.stderr.len() && warned.contains(why)), "{why}: {ran}");
        assert!(
            ran.stderr.contains("T002 Add two begins") && ran.stderr.contains("T003 Add three begins"),
            "{why}: {ran}"
        );
    }
}

#[test]
fn an_edit_may_take_a_gate_away_that_was_answered() {
    let id = "\"id\": \"T002\"";
    let env = world(&TREE.replace(id, &format!("{id}, \"pipeline\": \"asks.dot\"")), AGENT);
    env.write("repo/asks.dot", pipeline("step=implement", "look [shape=hexagon]; work -> look -> done"));
    let ran = edited_meanwhile(&env, &["-y", "gardener", "--answer", "look=done"], || {
        env.write("repo/task-tree.json", TREE);
    })
    .expect(0);
    assert!(ran.stderr.contains("was edited and is gone on with as it is now"), "{ran}");
}

#[test]
fn a_pipe_in_the_place_of_a_tree_is_not_waited_for() {
    let env = world(TREE, AGENT);
    let tree = env.repo_path().join("task-tree.json");
    let ran = edited_meanwhile(&env, &["-y", "gardener"], || {
        std::fs::remove_file(&tree).unwrap();
        assert!(env.program("mkfifo", env.root()).arg(&tree).status().unwrap().success());
    })
    .expect(0);
    assert!(ran.stderr.contains("it is a named pipe, not a file; going on with the tree as it was"), "{ran}");
    assert!(ran.stderr.contains("T003 Add three begins"), "{ran}");
}

/// A tree outside of the repository says nothing about the branch that is checked out.
#[test]
fn an_edited_tree_is_gone_on_with_on_the_branch_it_was_begun_on() {
    let env = world(TREE, AGENT);
    let outside = env.write("outside.json", TREE).display().to_string();
    let ran = edited_meanwhile(&env, &["-y", "gardener", "--tree", &outside], || {
        env.git(&["switch", "--quiet", "--create", "other"]);
        env.write("outside.json", TREE.replace("Add three", "Add 3"));
    })
    .expect(0);
    assert!(ran.stderr.contains("T003 renamed: Add three → Add 3"), "{ran}");
    let landed = |branch| env.git(&["ls-tree", "--name-only", branch]);
    assert!(landed("main").contains("three.txt"), "{ran}");
    assert!(!landed("other").contains("txt"), "{ran}");
}

#[test]
fn new_commands_in_an_edited_tree_must_be_agreed_to() {
    let env = world(TREE, AGENT);
    pleach(&env, 0, &["garden"]);
    env.pleach(&["reset", "T001"]).expect(0);
    // All of it was agreed to before.
    let ran = edited_meanwhile(&env, &["gardener"], || {
        env.write("repo/task-tree.json", TREE.replace("test -f three.txt", "curl evil"));
    })
    .expect(4);
    assert!(ran.stderr.contains("curl evil"), "{ran}");
    assert!(!ran.stderr.contains("T002 Add two begins"), "{ran}");
}

#[test]
fn tasks_left_out_of_the_order_are_warned_about_once() {
    let tree = TREE.trim_end().strip_suffix('}').unwrap().to_owned() + ", \"execution_order\": [\"T001\", \"T002\"]}";
    let env = world(&tree, AGENT);
    let ran = pleach(&env, 0, &["gardener"]);
    assert_eq!(ran.stderr.matches("execution_order leaves out, so never worked: T003").count(), 1, "{ran}");
    assert!(env.pleach(&["status"]).expect(0).stdout.contains("left out of execution_order: T003"));
}
