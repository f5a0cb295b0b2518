//! Where a failure leads.

use pleach_core::event::{Outcome, Route};
use pleach_core::route::{AttemptOutput, decide, select_edge};
use pleach_core::state::{State, Visit};

use super::driver::{Play, Script, graph, node, outcome, pipeline, snapshot};

/// The run with `a` failing once and then succeeding.
fn failing_once(inner: &str) -> Play {
    Play::run(&graph(inner), Script::new().node("a", [Outcome::fail("broken"), Outcome::success()]))
}

#[test]
fn an_edge_for_failures_comes_first() {
    let play = failing_once(
        r#"start -> a a [retry_target=r, fallback_retry_target=f] a -> fix [condition="outcome=fail"] a -> exit
        fix -> exit r -> exit f -> exit"#,
    );
    assert_eq!(play.path(), "start a fix exit");
}

#[test]
fn then_the_retry_target() {
    let play = failing_once("start -> a a [retry_target=r, fallback_retry_target=f] a -> exit r -> a f -> a");
    assert_eq!(play.path(), "start a r a exit");
    assert!(matches!(&play.executions_of("a")[0].route, Route::FailureTarget { to } if *to == "r"));
}

#[test]
fn then_the_fallback() {
    let play = failing_once("start -> a a [fallback_retry_target=f] a -> exit f -> a");
    assert_eq!(play.path(), "start a f a exit");
}

#[test]
fn then_the_run_fails_with_the_nodes_reason() {
    let play = failing_once("start -> a -> exit");
    assert_eq!(play.path(), "start a");
    assert_eq!(play.ending(), "`a` failed: broken");
    // The targets of the graph are for gates.
    let play = failing_once("retry_target=r fallback_retry_target=r start -> a -> exit r -> a");
    assert_eq!(play.ending(), "`a` failed: broken");
}

#[test]
fn a_failure_does_not_follow_a_plain_edge() {
    for edges in ["a -> exit", "a -> exit [weight=100]", "a -> exit [label=go]"] {
        let wish = Outcome {
            preferred_label: Some("go".into()),
            suggested_next_ids: vec!["exit".into()],
            ..Outcome::fail("x")
        };
        let play = Play::run(&graph(&format!("start -> a {edges}")), Script::new().node("a", [wish]));
        assert_eq!(play.ending(), "`a` failed: x", "{edges}");
    }
}

#[test]
fn any_condition_that_holds_takes_a_failure() {
    for condition in ["outcome=fail", "outcome=failed", "outcome!=success", "context.outcome=fail", "current_node=a"] {
        let play = failing_once(&format!(r#"start -> a a -> b [condition="{condition}"] a -> exit b -> exit"#));
        assert_eq!(play.path(), "start a b exit", "{condition}");
    }
}

#[test]
fn a_failure_reaches_a_branch_point_and_leaves_it() {
    let inner = r#"start -> implement -> validate -> gate
        gate [shape=diamond]
        gate -> exit [condition="outcome=success"]
        gate -> implement [condition="outcome!=success"]"#;
    let red_then_green = || Script::new().node("validate", [Outcome::fail("red"), Outcome::success()]);
    let round = "start implement validate gate implement validate gate exit";
    assert_eq!(Play::run(&graph(inner), red_then_green()).path(), round);
    let otherwise = inner.replace(r#" [condition="outcome!=success"]"#, "");
    assert_eq!(Play::run(&graph(&otherwise), red_then_green()).path(), round, "a plain edge is the other branch");
}

#[test]
fn an_unknown_target_fails_the_run_by_name() {
    let play = failing_once("start -> a a [retry_target=gone] a -> exit");
    assert_eq!(play.ending(), "`a` leads to `gone`, which is not a node");
}

#[test]
fn a_failed_jump_is_bounded_by_visits() {
    let inner = "start -> a a [retry_target=r] a -> exit r [max_visits=2] r -> a";
    let play = Play::run(&graph(inner), Script::new().node("a", [Outcome::fail("broken")]));
    assert_eq!(play.path(), "start a r a r a");
    assert_eq!(play.ending(), "`r` reached its visit limit of 2: r → a → r");
}

#[test]
fn a_node_the_pipeline_does_not_have_fails_the_run() {
    let pipeline = pipeline(&graph("start -> exit"));
    let visit = Visit { node: node("ghost"), visit: 1, attempt: 1, from: None };
    let left = AttemptOutput { trees: &snapshot(1), output: None };
    let decision = decide(&pipeline, &State::new(node("start")), &visit, Outcome::success(), left);
    assert_eq!(decision.route, Route::Fail { reason: "the pipeline has no node `ghost`".into() });
}

#[test]
fn a_failure_never_takes_a_plain_edge() {
    let pipeline = pipeline(&graph("start -> a a -> b a -> exit b -> exit"));
    let state = State::new(node("start"));
    let from = pipeline.node(&node("a")).unwrap();
    for word in ["success", "partial_success", "retry", "skipped", "custom"] {
        assert!(select_edge(&pipeline, &state, from, &outcome(word)).is_some(), "{word}");
    }
    assert!(select_edge(&pipeline, &state, from, &outcome("fail")).is_none());
}

#[test]
fn an_outcome_without_edge_is_a_failure() {
    for word in ["failure", "rejected", "done"] {
        let said = Outcome { notes: Some("why".into()), ..outcome(word) };
        let play = Play::run(&graph("start -> a -> exit"), Script::new().node("a", [said]));
        let reason = format!("`a` failed: unknown outcome `{word}`: why; use success, ");
        assert!(play.ending().starts_with(&reason), "{}", play.ending());
        let caught = r#"start -> a a -> fix [condition="outcome=fail"] a -> exit fix -> exit"#;
        assert_eq!(Play::run(&graph(caught), Script::new().node("a", [outcome(word)])).path(), "start a fix exit");
    }
}

#[test]
fn an_outcome_a_condition_names_is_known() {
    for condition in ["outcome=rejected", "outcome!=rejected", "context.outcome=rejected", "outcome contains reject"] {
        let inner = format!(r#"start -> a a -> b [condition="{condition}"] a -> exit b -> exit"#);
        let play = Play::run(&graph(&inner), Script::new().node("a", [outcome("rejected")]));
        assert_eq!(play.ending(), "done", "{condition}");
        assert_eq!(play.last("a").outcome, outcome("rejected"), "{condition}");
    }
    let behind = r#"start -> a -> c -> d c [shape=diamond] d [shape=diamond]
        d -> exit [condition="outcome=rejected"]
        d -> a [condition="outcome!=rejected"]"#;
    let play = Play::run(&graph(behind), Script::new().node("a", [outcome("other"), outcome("rejected")]));
    assert_eq!(play.path(), "start a c d a c d exit", "a branch point asks for it");
}
