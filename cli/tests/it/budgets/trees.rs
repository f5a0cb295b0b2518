//! Budgets of task trees: what a task may cost over all its attempts, and what a run over the tree may.

use super::settings;
use crate::sessions::Story;
use crate::trees::garden::{Garden, Tree};

/// Every call costs a dollar. What is implemented differs each time, and a review approves.
pub(super) const SCRIPT: &str = r#"
scripts:
  - name: implement
    when: {node: implement}
    steps:
      - {text: Try., tools: [{shell: {command: "date +%s%N >> grown"}}], usage: {input: 1}}
      - {text: Grown., usage: {input: 0}}
  - name: review
    when: {node: review}
    steps:
      - {text: APPROVED, usage: {input: 1}}
"#;

fn garden(tree: &Tree, more: &str) -> Garden {
    let garden = Garden::new(tree);
    garden.env.write("script.yaml", SCRIPT);
    garden.env.configure(&settings(more));
    garden
}

/// How many calls the sessions of each task have made.
fn calls(garden: &Garden) -> Vec<(String, usize)> {
    let cost = garden.env.pleach(&["--json", "cost", "--by", "task"]).expect(0).json();
    let rows = cost["rows"].as_array().expect("rows").iter();
    let usd = |row: &serde_json::Value| row["cost_usd"].as_f64().expect("a price") as usize;
    rows.map(|row| (row["task"].as_str().expect("a task").to_owned(), usd(row))).collect()
}

fn owned(calls: &[(&str, usize)]) -> Vec<(String, usize)> {
    calls.iter().map(|(task, calls)| ((*task).to_owned(), *calls)).collect()
}

#[test]
fn a_task_out_of_dollars_gets_no_further_attempt() {
    let tree = Tree::of(&["T001", "T002"]).tests("T001", &["unit: test -e mended"]);
    let garden = garden(&tree, "tree: {early_stop: false}\nbudget: {per_task_usd: 3}");
    let ran = garden.gardener(&[]).expect(1);
    assert!(matches!(ran.failed(), ("T001", 3, why) if why.contains("$3.00 of $3.00")), "{ran}");
    assert_eq!(calls(&garden), owned(&[("T001", 3)]));
    let failed = garden.newest("main", "T001 failed");
    assert_eq!(failed.subject, "task(main@T001@failed): failed \"Grow T001\" after 3 retries");
    assert!(failed.body.contains("$3.00 of $3.00 (`budget.per_task_usd`); raise it"), "{}", failed.body);
    // The others have a budget of their own.
    garden.gardener(&[]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 3), ("T002", 2)]));
    assert_eq!(garden.completed(), ["T002"]);
    // Trying again costs nothing as long as there is nothing to spend, also in a new session.
    garden.gardener(&["--retry-failed"]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 3), ("T002", 2)]));
    garden.env.configure(&settings("tree: {early_stop: false}\nbudget: {per_task_usd: 5}"));
    garden.gardener(&["--retry-failed"]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 5), ("T002", 2)]), "all sessions of a task count together");
}

#[test]
fn a_task_has_a_limit_in_tokens_as_well() {
    let tree = Tree::of(&["T001", "T002"]).tests("T001", &["unit: test -e mended"]);
    let stops = garden(&tree, "budget: {per_task_tokens: 3}");
    let ran = stops.gardener(&[]).expect(1);
    let said = "3 of 3 tokens (`budget.per_task_tokens`)";
    assert!(matches!(ran.failed(), ("T001", 3, why) if why.contains(said)), "{ran}");
    assert_eq!(calls(&stops), owned(&[("T001", 3)]));
}

#[test]
fn a_tasks_own_limit_fails_it_also_where_runs_pause() {
    let tree = Tree::of(&["T001", "T002"]).tests("T001", &["unit: test -e mended"]);
    let garden = garden(&tree, "tree: {early_stop: false}\nbudget: {per_task_tokens: 2, on_exceeded: pause}");
    let ran = garden.gardener(&[]).expect(1);
    let said = "2 of 2 tokens (`budget.per_task_tokens`)";
    assert!(matches!(ran.failed(), ("T001", 2, why) if why.contains(said)), "{ran}");
    let failed = garden.newest("main", "T001 failed");
    assert!(failed.body.contains(said), "{}", failed.body);
    // The others go on, and the task does once there is more for it.
    garden.gardener(&[]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 2), ("T002", 2)]));
    assert_eq!(garden.completed(), ["T002"]);
    garden.env.configure(&settings("tree: {early_stop: false}\nbudget: {per_task_tokens: 3, on_exceeded: pause}"));
    garden.gardener(&["--retry-failed"]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 3), ("T002", 2)]));
    // What all tasks share is no task's fault.
    garden.env.configure(&settings("budget: {tokens: 5, on_exceeded: pause}"));
    let ran = garden.env.pleach(&["-y", "--json", "gardener", "--retry-failed"]).expect(3);
    let last = ran.json_lines().pop().expect("a line");
    assert!(last["ended"] == "paused" && last["reason"].is_string(), "{last}");
}

#[test]
fn a_run_over_a_tree_has_one_budget() {
    let tree = Tree::of(&["T001", "T002: T001", "T003: T002"]);
    let garden = garden(&tree, "budget: {usd: 3}");
    let ran = garden.gardener(&[]).expect(1);
    assert!(ran.stdout.contains("$3.00 of $3.00 (`budget.usd`)"), "{ran}");
    assert_eq!(calls(&garden), owned(&[("T001", 2), ("T002", 1)]), "stopped in the middle of the second task");
    assert_eq!(garden.told("main").last().map(String::as_str), Some("T001 complete"), "which has not failed");
    garden.gardener(&[]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 2), ("T002", 1)]), "another process knows what was spent");
    garden.env.configure(&settings("budget: {usd: 4, on_exceeded: pause}"));
    let ran = garden.gardener(&[]).expect(3);
    assert!(ran.stdout.contains("$4.00 of $4.00"), "{ran}");
    assert_eq!(calls(&garden), owned(&[("T001", 2), ("T002", 2)]));
    assert_eq!(garden.completed(), ["T001", "T002"], "what is done needs no money to land");
    garden.env.configure(&settings("budget: {usd: 6}"));
    garden.gardener(&[]).expect(0);
    assert_eq!(calls(&garden), owned(&[("T001", 2), ("T002", 2), ("T003", 2)]));
    let story = Story::of(&garden.env, &garden.env.repo_path(), &garden.env.sessions()[0]);
    assert!(!story.kinds().is_empty());
    // A fresh run starts with a fresh budget.
    garden.env.configure(&settings("budget: {usd: 2}"));
    garden.gardener(&["--fresh"]).expect(1);
    assert_eq!(calls(&garden), owned(&[("T001", 4), ("T002", 2), ("T003", 2)]));
}

#[test]
fn an_unreadable_review_is_not_repeated_without_money() {
    let garden = garden(&Tree::of(&["T001"]), "budget: {usd: 2, on_exceeded: pause}");
    let again = "  - name: again\n    when: {contains: does not end with a verdict}\n    steps: [{text: APPROVED, usage: {input: 1}}]\n";
    let unreadable =
        SCRIPT.replace("scripts:\n", &format!("scripts:\n{again}")).replace("- {text: APPROVED,", "- {text: Hm.,");
    garden.env.write("script.yaml", unreadable);
    garden.gardener(&[]).expect(3);
    garden.gardener(&[]).expect(3);
    assert_eq!(calls(&garden), owned(&[("T001", 2)]));
    garden.env.configure(&settings("budget: {usd: 9, on_exceeded: pause}"));
    garden.gardener(&[]).expect(0);
    assert_eq!(calls(&garden), owned(&[("T001", 3)]));
    assert_eq!(garden.completed(), ["T001"]);
}
