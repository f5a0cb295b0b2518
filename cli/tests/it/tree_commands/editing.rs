//! Trees that change: between runs, and while they are worked.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::{AGENT, TREE, pleach, world};

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

#[test]
fn a_tree_edited_while_it_is_worked_is_gone_on_with_as_it_is_now() {
    let agent = AGENT.replace("echo 1 > one.txt;", "until [ -f GATE/go ]; do sleep 0.05; done; echo 1 > one.txt;");
    let env = world(TREE, AGENT);
    env.write_program("agent.sh", &agent.replace("GATE", env.root().to_str().unwrap()));
    let mut gardener = env.command(&["-y", "gardener"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(gardener.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("T001 Add one begins")));
    // T003 is taken out, T004 comes in and waits for nothing.
    let edited = TREE.replace("\"children\": [\"T003\"]", "\"children\": [\"T004\"]").replace("T003", "T004");
    env.write("repo/task-tree.json", edited.replace("test -f three.txt", "true"));
    env.write("go", "");
    let said: Vec<String> = said.map_while(Result::ok).collect();
    assert!(gardener.wait().unwrap().success(), "{said:#?}");
    let has = |text: &str| said.iter().any(|line| line.contains(text));
    let at = |text: &str| said.iter().position(|line| line.contains(text));
    let noticed = at("was edited and counts so from the next task on");
    assert!(noticed.is_some() && noticed < at("T001 complete"), "at the end of the step it was edited in: {said:#?}");
    assert!(at("T001 landed") < at("was edited and is gone on with as it is now"), "{said:#?}");
    assert!(has("T003 removed: Add three") && has("T004 added: Add three"), "{said:#?}");
    assert!(has("T004 Add three begins") && !has("T003 Add three begins"), "{said:#?}");
}

#[test]
fn a_tree_that_cannot_be_read_meanwhile_is_worked_as_it_was() {
    let agent = AGENT.replace("echo 1 > one.txt;", "until [ -f GATE/go ]; do sleep 0.05; done; echo 1 > one.txt;");
    let env = world(TREE, AGENT);
    env.write_program("agent.sh", &agent.replace("GATE", env.root().to_str().unwrap()));
    let mut gardener = env.command(&["-y", "gardener"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(gardener.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("T001 Add one begins")));
    env.write("repo/task-tree.json", "{\"nodes\": ");
    env.write("go", "");
    let said: Vec<String> = said.map_while(Result::ok).collect();
    assert!(gardener.wait().unwrap().success(), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("going on with the tree as it was")), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("T003 Add three begins")), "{said:#?}");
}

#[test]
fn new_commands_in_an_edited_tree_must_be_agreed_to() {
    let agent = AGENT.replace("echo 1 > one.txt;", "until [ -f GATE/go ]; do sleep 0.05; done; echo 1 > one.txt;");
    let env = world(TREE, AGENT);
    pleach(&env, 0, &["garden"]);
    env.pleach(&["reset", "T001"]).expect(0);
    env.write_program("agent.sh", &agent.replace("GATE", env.root().to_str().unwrap()));
    let mut gardener = env.command(&["gardener"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(gardener.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("T001 Add one begins")), "all of it was agreed to before");
    env.write("repo/task-tree.json", TREE.replace("test -f three.txt", "curl evil"));
    env.write("go", "");
    let said: Vec<String> = said.map_while(Result::ok).collect();
    assert_eq!(gardener.wait().unwrap().code(), Some(4), "{said:#?}");
    assert!(said.iter().any(|line| line.contains("curl evil")), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("T002 Add two begins")), "{said:#?}");
}

#[test]
fn tasks_left_out_of_the_order_are_warned_about_once() {
    let tree = TREE.trim_end().strip_suffix('}').unwrap().to_owned() + ", \"execution_order\": [\"T001\", \"T002\"]}";
    let env = world(&tree, AGENT);
    let ran = pleach(&env, 0, &["gardener"]);
    assert_eq!(ran.stderr.matches("execution_order leaves out, so never worked: T003").count(), 1, "{ran}");
    assert!(env.pleach(&["status"]).expect(0).stdout.contains("left out of execution_order: T003"));
}
