//! An agent that does not tell what it spends is named before it works: no budget holds it.

use serde_json::Value;

use super::{FIVE_FILES, settings};
use crate::sessions::graph;
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{Garden, Tree};

/// What is said of agents that no budget can hold.
fn warnings(ran: &Ran) -> Vec<String> {
    let said = ran.warnings().into_iter().filter(|(code, _)| *code == "agent-unmetered");
    said.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn an_unmetered_agent_is_named_before_it_works() {
    let env = TestEnv::with_script(FIVE_FILES);
    let quiet = "agents: {quiet: {command: [cat], turns: node}}\nsandbox: {mode: off}";
    env.configure(&settings(&format!("{quiet}\nbudget: {{usd: 9}}")));
    let body = " one [agent=\"command:cat\"]\n two [agent=\"command:cat\"]\n three [agent=quiet]\n talk\n \
                start -> one -> two -> three -> talk -> exit";
    let ran = env.run(&graph("told", body), &[]).expect(0);
    let [cat, quiet_one] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(cat.contains("`command:cat`") && cat.contains("`one`, `two`;"), "{cat}");
    assert!(quiet_one.contains("`quiet`") && quiet_one.contains("`three`;"), "{quiet_one}");
    assert!(ran.stderr.find("warning[agent-unmetered]") < ran.stderr.find("session "), "before anything begins: {ran}");
    // Without a limit there is nothing to say, and a limit of one node is about that node.
    env.configure(&settings(quiet));
    assert_eq!(warnings(&env.run(&graph("told", body), &[]).expect(0)), Vec::<String>::new());
    let one = body.replacen("agent=\"command:cat\"", "agent=\"command:cat\", budget.usd=1", 1);
    let ran = env.run(&graph("told", &one.replace("agent=quiet", "agent=\"command:cat\"")), &[]).expect(0);
    let [said] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(said.contains("`command:cat`") && said.contains("`one`;"), "{said}");
}

#[test]
fn trees_plans_and_the_doctor_say_so_as_well() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("budget: {per_day_tokens: 100}");
    let ran = garden.gardener(&[]).expect(0);
    let [said] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(said.contains("agent.sh` ") && said.contains("`implement`, `review`"), "{said}");

    let env = TestEnv::new();
    env.repo();
    env.write("repo/spec/tasks.md", "# Shop\n");
    let plan = env.write("plan.json", r#"{"tasks": [{"id": "T1", "description": "Do it"}]}"#);
    env.configure(&format!("agent: 'command:cat {}'\nbudget: {{tokens: 1}}\nsandbox: {{mode: off}}\n", plan.display()));
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]).expect(0);
    let [said] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(said.contains("`plan`;"), "{said}");
    let found = || env.pleach(&["--json", "doctor"]).json()["findings"].clone();
    let of_budget = |found: &Value| found["what"] == "budget" && found["level"] == "warn";
    assert!(found().as_array().unwrap().iter().any(of_budget), "{}", found());
    env.configure(&format!("agent: 'command:cat {}'\nsandbox: {{mode: off}}\n", plan.display()));
    assert!(!found().as_array().unwrap().iter().any(of_budget), "{}", found());
}
