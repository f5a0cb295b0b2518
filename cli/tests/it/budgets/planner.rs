//! The planner of `pleach build` is held to the limits of a run and of a day, and what it cost is shown.

use serde_json::{Value, json};

use super::{FIVE_FILES, settings, work};
use crate::support::TestEnv;

const PLAN: &str = r#"{"tasks": [{"id": "T1", "description": "Do it"}]}"#;

/// A planner whose every call costs a dollar: it looks around, gives an answer nobody can use, and then a plan.
fn world(budget: &str) -> TestEnv {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/spec/tasks.md", "# Shop\n");
    let usage = "usage: {input: 1}";
    let plans = format!(
        "scripts:\n  - name: again\n    when: {{node: plan, contains: That plan cannot be used.}}\n    \
         steps: [{{text: '{PLAN}', {usage}}}]\n  - name: plan\n    when: {{node: plan}}\n    steps:\n      \
         - {{text: Look., tools: [{{glob: {{pattern: \"*\"}}}}], {usage}}}\n      - {{text: I cannot., {usage}}}\n"
    );
    env.write("script.yaml", FIVE_FILES.replacen("scripts:\n", &plans, 1));
    env.configure(&settings(&format!("budget: {budget}")));
    env
}

fn build(env: &TestEnv) -> crate::support::Ran {
    env.pleach(&["-y", "build", "--spec-dir", "spec"])
}

/// What all of the repository has cost.
fn spent(env: &TestEnv) -> Value {
    env.pleach(&["--json", "cost"]).expect(0).json()["total"]["cost_usd"].clone()
}

#[test]
fn a_planners_cost_is_shown_and_counts_daily() {
    let env = world("{per_day_usd: 4}");
    build(&env).expect(0);
    insta::assert_snapshot!(env.pleach(&["cost"]).expect(0), @r"
    exit: 0
    --- stdout
    session    turns  input  cached  output   cost
    (planner)      3      3       0       0  $3.00
    total          3      3       0       0  $3.00
    ");
    let by_node = env.pleach(&["--json", "cost", "--by", "node"]).expect(0).json();
    assert_eq!(by_node["rows"][0]["node"], "plan", "{by_node}");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/sessions"]), "", "a plan is no session");
    // A run is held by what the planner has spent, and the planner by what the run has.
    let ran = env.run(&work(), &[]).expect(1);
    assert!(ran.stdout.contains("of this day (UTC) is used up: $4.00 of $4.00"), "{ran}");
    let refused = build(&env).expect(1);
    let said = "the budget of this day (UTC) is used up: $4.00 of $4.00 (`budget.per_day_usd`)";
    refused.fails_with("budget-reached");
    assert!(refused.stderr.contains(said), "{refused}");
    assert_eq!(spent(&env), json!(4.0), "nobody was asked");
}

#[test]
fn a_planner_stops_within_one_call_of_its_limit() {
    for (budget, exit, calls, said) in [
        ("{usd: 1}", 1, 1.0, "the budget is used up: $1.00 of $1.00 (`budget.usd`)"),
        ("{tokens: 2}", 1, 2.0, "the budget is used up: 2 of 2 tokens (`budget.tokens`)"),
        ("{per_day_tokens: 1, on_exceeded: pause}", 3, 1.0, "1 of 1 tokens (`budget.per_day_tokens`)"),
    ] {
        let env = world(budget);
        let ran = build(&env).expect(exit);
        assert!(ran.stderr.contains(said) && ran.stderr.contains("nothing was written; raise it"), "{ran}");
        assert_eq!(spent(&env), json!(calls), "{budget}");
        assert!(!env.repo_path().join("spec/task-tree.json").exists());
    }
    // What ends with its last call has not failed.
    let env = world("{usd: 3, per_task_usd: 1}");
    build(&env).expect(0);
    // Each plan is a run of its own.
    build(&env).expect(0);
    assert_eq!(spent(&env), json!(6.0));
}

#[test]
fn a_planner_is_warned_of_once_for_each_limit() {
    let env = world("{usd: 1, per_day_tokens: 2, on_exceeded: warn}");
    let ran = build(&env).expect(0);
    ran.warns("budget-reached").naming("$1.00 of $1.00").naming("2 of 2 tokens");
    assert_eq!(ran.warnings().iter().filter(|(code, _)| *code == "budget-reached").count(), 2, "{ran}");
}
