//! An agent that does not tell what it spends is named before it works: no budget holds it.

use super::{FIVE_FILES, settings};
use crate::sessions::graph;
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{Garden, Tree};

const SAID: &str = "so the budget cannot hold it";

fn warnings(ran: &Ran) -> Vec<String> {
    ran.stderr.lines().filter(|line| line.contains(SAID)).map(str::to_owned).collect()
}

#[test]
fn who_does_not_tell_what_it_spends_is_named_before_it_works() {
    let env = TestEnv::with_script(FIVE_FILES);
    let quiet = "agents: {quiet: {command: [cat], turns: node}}\nsandbox: {mode: off}";
    env.configure(&settings(&format!("{quiet}\nbudget: {{usd: 9}}")));
    let body = " one [agent=\"command:cat\"]\n two [agent=\"command:cat\"]\n three [agent=quiet]\n talk\n \
                start -> one -> two -> three -> talk -> exit";
    let ran = env.run(&graph("told", body), &[]).expect(0);
    assert_eq!(
        warnings(&ran),
        [
            "warning: what the agent `command:cat` spends is not known, so the budget cannot hold it at nodes `one`, `two`; \
             `timeout` and `max_visits` can",
            "warning: what the agent `quiet` spends is not known, so the budget cannot hold it at node `three`; \
             `timeout` and `max_visits` can",
        ]
    );
    assert!(ran.stderr.find(SAID) < ran.stderr.find("session "), "before anything begins: {ran}");
    // Without a limit there is nothing to say, and a limit of one node is about that node.
    env.configure(&settings(quiet));
    assert_eq!(warnings(&env.run(&graph("told", body), &[]).expect(0)), Vec::<String>::new());
    let one = body.replacen("agent=\"command:cat\"", "agent=\"command:cat\", budget.usd=1", 1);
    let ran = env.run(&graph("told", &one.replace("agent=quiet", "agent=\"command:cat\"")), &[]).expect(0);
    let [said] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(said.contains("`command:cat`") && said.contains("at node `one`;"), "{said}");
}

#[test]
fn trees_plans_and_the_doctor_say_so_as_well() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("budget: {per_day_tokens: 100}");
    let ran = garden.gardener(&[]).expect(0);
    let [said] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(said.contains("agent.sh` spends is not known") && said.contains("`implement`, `review`"), "{said}");

    let env = TestEnv::new();
    env.repo();
    env.write("repo/spec/tasks.md", "# Shop\n");
    let plan = env.write("plan.json", r#"{"tasks": [{"id": "T1", "description": "Do it"}]}"#);
    env.configure(&format!("agent: 'command:cat {}'\nbudget: {{tokens: 1}}\nsandbox: {{mode: off}}\n", plan.display()));
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]).expect(0);
    let [said] = &warnings(&ran)[..] else { panic!("{ran}") };
    assert!(said.contains("at node `plan`;"), "{said}");
    let ran = env.pleach(&["doctor"]);
    assert!(ran.stdout.contains("does not tell what it spends, so the budget cannot hold it"), "{ran}");
    env.configure(&format!("agent: 'command:cat {}'\nsandbox: {{mode: off}}\n", plan.display()));
    assert!(!env.pleach(&["doctor"]).stdout.contains(SAID));
}
