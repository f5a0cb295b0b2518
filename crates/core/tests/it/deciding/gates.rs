//! Goal gates: what must have succeeded before a run may end.

use pleach_core::event::{Outcome, Route};
use pleach_core::route::unsatisfied_gate;

use super::driver::{Play, Script, graph, node, outcome};

const RED: &str = "red";

/// A gate that fails `times` times, on a way to the exit that takes its failure.
fn red(times: usize) -> Script {
    let mut answers = vec![Outcome::fail(RED); times];
    answers.push(Outcome::success());
    Script::new().node("check", answers)
}

fn checked(attributes: &str) -> String {
    graph(&format!(
        r#"start -> work -> check
        check [goal_gate=true{attributes}]
        check -> exit [condition="outcome!=nothing"]
        other -> check"#
    ))
}

#[test]
fn gate_allows_exit() {
    for word in ["success", "partial_success"] {
        let play = Play::run(&checked(""), Script::new().node("check", [outcome(word)]));
        assert_eq!((play.path().as_str(), play.ending()), ("start work check exit", "done"), "{word}");
    }
}

#[test]
fn gate_blocks_exit() {
    for word in ["fail", "skipped", "custom"] {
        let play = Play::run(&checked(""), Script::new().node("check", [outcome(word)]));
        assert_eq!(play.ending(), "goal gate `check` is unsatisfied and has no retry target", "{word}");
    }
    let play = Play::run(&checked(", retry_target=work"), red(1));
    assert_eq!((play.path().as_str(), play.ending()), ("start work check exit work check exit", "done"));
    let sent_back = &play.executions_of("exit")[0].route;
    assert_eq!(*sent_back, Route::GateRetry { gate: node("check"), to: node("work") });
}

#[test]
fn a_gate_not_reached_yet_does_not_block() {
    let inner = r#"start -> a -> exit a -> check [condition="outcome=again"] check [goal_gate=true] check -> exit"#;
    assert_eq!(Play::run(&graph(inner), Script::new()).ending(), "done");
}

#[test]
fn the_first_target_given_is_taken_node_before_graph() {
    let targets = ["retry_target", "fallback_retry_target"];
    let given = [(0, true), (1, true), (0, false), (1, false)];
    // Each round leaves the first targets out, so that the next one in order counts.
    for first in 0..given.len() {
        let mut of_node = String::new();
        let mut of_graph = String::new();
        for (index, (target, on_node)) in given.iter().enumerate().skip(first) {
            if *on_node {
                of_node.push_str(&format!(", {}=t{index}", targets[*target]));
            } else {
                of_graph.push_str(&format!("{}=t{index}\n", targets[*target]));
            }
        }
        let inner = format!(
            r#"{of_graph} start -> check
            check [goal_gate=true{of_node}]
            check -> exit [condition="outcome!=nothing"]
            t0 -> check t1 -> check t2 -> check t3 -> check"#
        );
        let play = Play::run(&graph(&inner), red(1));
        assert_eq!(play.path(), format!("start check exit t{first} check exit"));
    }
}

#[test]
fn a_gate_that_stays_red_is_bounded_by_its_visits() {
    let play = Play::run(&checked(", retry_target=work, max_visits=3"), red(100));
    assert_eq!(play.runs("check"), 3);
    assert_eq!(play.ending(), "goal gate `check` is still unsatisfied after 2 retries");
    let unlimited = Play::run(&checked(", retry_target=work"), red(100));
    assert_eq!(unlimited.runs("check"), 25, "and by default");
}

#[test]
fn a_gate_that_is_gone_round_is_bounded_too() {
    // The way back does not lead through the gate: it is never run again, yet the run ends, and not as a success.
    let inner = r#"start -> check
        check [goal_gate=true, retry_target=aside, max_visits=4]
        check -> exit [condition="outcome=fail"]
        aside -> exit"#;
    let play = Play::run(&graph(inner), red(100));
    assert_eq!(play.runs("check"), 1);
    assert_eq!(play.path(), "start check exit aside exit aside exit aside exit");
    assert_eq!(play.ending(), "goal gate `check` is still unsatisfied after 3 retries");
}

#[test]
fn a_gate_that_sent_back_must_run_again() {
    // `check` was green at first. What sends the run back is `second`, and the way back skips it.
    let inner = r#"start -> check -> second
        check [goal_gate=true]
        second [goal_gate=true, retry_target=check]
        check -> exit [condition="context.skip=yes"]
        second -> exit [condition="outcome!=nothing"]"#;
    let skip = Outcome { context_updates: [("skip".to_owned(), "yes".into())].into(), ..Outcome::success() };
    let script = Script::new()
        .node("check", [Outcome::success(), skip])
        .node("second", [Outcome::fail(RED), Outcome::success()]);
    let play = Play::run(&graph(inner), script);
    assert_ne!(play.ending(), "done");
    assert_eq!(play.runs("second"), 1);
}

#[test]
fn the_first_gate_in_the_file_sends_back_first() {
    let inner = r#"start -> one -> two
        one [goal_gate=true, retry_target=one] two [goal_gate=true, retry_target=two]
        one -> two [condition="outcome=fail"] two -> exit [condition="outcome!=nothing"]"#;
    let once = || [Outcome::fail(RED), Outcome::success()];
    let play = Play::run(&graph(inner), Script::new().node("one", once()).node("two", once()));
    assert_eq!(play.path(), "start one two exit one two exit");
    let other_way_round = format!("digraph g {{ start [shape=Mdiamond] exit [shape=Msquare] two one {inner} }}");
    let play = Play::run(&other_way_round, Script::new().node("one", once()).node("two", once()));
    assert_eq!(play.path(), "start one two exit two exit one two exit");
}

#[test]
fn gate_recheck_survives_resume() {
    let mut script = red(1);
    let mut play = Play::begin(&checked(", retry_target=other"));
    while play.state.gate_retries.is_empty() {
        assert!(play.step(&mut |visit| script.answer(visit)));
    }
    assert_eq!(unsatisfied_gate(&play.pipeline, &play.state).unwrap().id, "check");
    play.die_and_resume();
    assert!(play.state.recheck.contains("check"));
    assert_eq!(play.state.gate_retries[&node("check")], 1);
    let events = play.events();
    assert_eq!(
        pleach_core::state::State::fold(node("start"), &events).unwrap(),
        play.state,
        "also from the events alone"
    );
    while play.step(&mut |visit| script.answer(visit)) {}
    assert_eq!((play.path().as_str(), play.ending()), ("start work check exit other check exit", "done"));
    assert!(play.state.recheck.is_empty());
    // The bound counts on over a resume.
    let mut red = red(100);
    let mut bounded = Play::begin(&checked(", retry_target=other, max_visits=3"));
    while bounded.step(&mut |visit| red.answer(visit)) {
        if matches!(bounded.state.phase, pleach_core::state::Phase::Running) {
            bounded.die_and_resume();
        }
    }
    assert_eq!(bounded.runs("check"), 3);
}

#[test]
fn a_failing_exit_fails_the_run() {
    let pipeline = super::driver::pipeline(&graph("start -> exit"));
    let state = pleach_core::state::State::new(node("exit"));
    let visit = pleach_core::state::Visit { node: node("exit"), visit: 1, attempt: 1, from: None };
    let left = pleach_core::route::AttemptOutput { trees: &super::driver::snapshot(1), output: None };
    let decision = pleach_core::route::decide(&pipeline, &state, &visit, Outcome::fail("disk full"), left);
    assert_eq!(decision.route, Route::Fail { reason: "disk full".into() });
}
