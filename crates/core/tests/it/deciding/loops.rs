//! Runs that go round: how often they may, and how they are stopped.

use pleach_core::event::{Outcome, Resumed};

use serde_json::json;

use super::driver::{Done, Play, Script, graph, next, node, on_tree, outcome};

const ROUND: &str = r#"start -> a -> b
    b -> a [condition="outcome=fail"]
    b -> exit"#;

#[test]
fn max_visits_of_the_node() {
    let inner = format!("{ROUND} a [max_visits=2]");
    let play = Play::run(&graph(&inner), Script::new().node("b", [Outcome::fail("red")]));
    assert_eq!(play.path(), "start a b a b");
    assert_eq!(play.ending(), "`a` reached its visit limit of 2: a → b → a");
}

#[test]
fn max_visits_of_the_graph() {
    for key in ["default_max_visits", "max_node_visits", "max_visits"] {
        let play = Play::run(&graph(&format!("{key}=3 {ROUND}")), Script::new().node("b", [Outcome::fail("red")]));
        assert_eq!(play.runs("a"), 3, "{key}");
    }
    let inner = format!("default_max_visits=3 {ROUND} a [max_visits=5] b [max_visits=9]");
    let play = Play::run(&graph(&inner), Script::new().node("b", [Outcome::fail("red")]));
    assert_eq!(play.runs("a"), 5, "a node's own limit wins");
}

#[test]
fn a_checked_agent_that_changes_nothing_ends_the_run() {
    let inner = format!("{ROUND} a [max_visits=5, check=b]");
    let play = Play::run(&graph(&inner), Script::new().node("b", [on_tree(1, Outcome::fail("red"))]));
    assert_eq!(play.path(), "start a b a b");
    assert_eq!(play.ending(), "`a` changed nothing, and again `b` failed: red");
    let answers = ["red", "other"].map(|why| on_tree(1, Outcome::fail(why)));
    let play = Play::run(&graph(&inner), Script::new().node("b", answers));
    assert_eq!(play.runs("a"), 3, "another failure is another round");
}

#[test]
fn the_default_limit_is_twenty_five_visits() {
    let play = Play::run(&graph(ROUND), Script::new().node("b", [Outcome::fail("red")]));
    assert_eq!((play.runs("a"), play.runs("b")), (25, 25));
    assert!(play.ending().starts_with("`a` reached its visit limit of 25: "), "{}", play.ending());
}

#[test]
fn a_node_that_leads_to_itself_is_bounded() {
    let inner = r#"start -> a a [max_visits=3] a -> a [condition="outcome=again"] a -> exit"#;
    let play = Play::run(&graph(inner), Script::new().node("a", [outcome("again")]));
    assert_eq!(play.path(), "start a a a");
    assert_eq!(play.ending(), "`a` reached its visit limit of 3: a → a");
}

#[test]
fn the_third_identical_result_fails_with_its_cycle() {
    let play = Play::run(&graph(ROUND), Script::new().node("b", [on_tree(1, Outcome::fail("red"))]));
    assert_eq!(play.path(), "start a b a b a b");
    assert_eq!(
        play.ending(),
        "`b` ended 3 times with the same result and output on the same files; the run is looping: b → a → b; \
         set `max_visits` on a node of this cycle to allow more rounds"
    );
}

#[test]
fn a_changed_tree_starts_the_count_again() {
    let trees = [1, 1, 2, 2, 1, 1, 3, 3];
    let script = trees.map(|tree| on_tree(tree, Outcome::fail("red")));
    let play = Play::run(&graph(ROUND), Script::new().node("b", script));
    assert_eq!(play.runs("b"), trees.len() + 1);
}

#[test]
fn a_changed_result_starts_the_count_again() {
    let reds = ["1 of 3 failed", "1 of 3 failed", "2 of 3 failed", "1 of 3 failed"];
    let script = reds.map(|reason| on_tree(1, Outcome::fail(reason)));
    let play = Play::run(&graph(ROUND), Script::new().node("b", script));
    assert_eq!(play.runs("b"), reds.len() + 2);
}

#[test]
fn changed_output_starts_the_count_again() {
    let said = ["1", "2", "2", "3", "3"]
        .map(|output| Done { output: Some(output.to_owned()), ..on_tree(1, Outcome::fail("not yet")) });
    let play = Play::run(&graph(ROUND), Script::new().node("b", said));
    assert_eq!(play.runs("b"), 6);
}

#[test]
fn a_waiting_or_limited_cycle_is_left_alone() {
    let counted = [
        ("a [max_visits=7]", 7),
        ("b [max_visits=7]", 7),
        ("default_max_visits=7", 7),
        ("a [shape=insulator, duration=\"1s\"]", 25),
    ];
    for (limit, rounds) in counted {
        let play =
            Play::run(&graph(&format!("{ROUND} {limit}")), Script::new().node("b", [on_tree(1, Outcome::fail("red"))]));
        assert_eq!(play.runs("b"), rounds, "{limit}: {}", play.ending());
        assert!(play.ending().contains("visit limit"), "{limit}: {}", play.ending());
    }
    let edge = r#"start -> b b -> b [condition="outcome=fail", max_visits=4] b -> exit"#;
    let play = Play::run(&graph(edge), Script::new().node("b", [on_tree(1, Outcome::fail("red"))]));
    assert_eq!((play.runs("b"), play.ending()), (5, "`b` failed: red"));
}

#[test]
fn conditions_read_visit_counts() {
    let inner = r#"start -> a -> b
        b -> exit [condition="context.internal.node_visit_count>=4 && internal.node_visit_count.a=4", weight=1]
        b -> a [condition="outcome=fail"]"#;
    let play = Play::run(&graph(inner), Script::new().node("b", [Outcome::fail("not yet")]));
    assert_eq!((play.runs("a"), play.runs("b"), play.ending()), (4, 4, "done"));
}

#[test]
fn attempts_of_one_visit_are_not_rounds() {
    let inner = "start -> a -> exit a [max_retries=5]";
    let mut answers = vec![on_tree(1, Outcome::retry("later")); 5];
    answers.push(on_tree(1, Outcome::success()));
    assert_eq!(Play::run(&graph(inner), Script::new().node("a", answers)).ending(), "done");
}

const ASKED: &str = r#"start -> a -> ask
    ask [shape=hexagon]
    ask -> a [label="Again"]
    ask -> exit [label="Done"]"#;

fn asked(source: &'static str, rounds: usize) -> Play {
    let again = Outcome { preferred_label: Some("Again".into()), ..Outcome::success() };
    let enough = Outcome { preferred_label: Some("Done".into()), ..Outcome::success() };
    let mut answers = vec![Done { answered_by: Some(source), ..Done::from(again) }; rounds];
    answers.push(Done { answered_by: Some(source), ..Done::from(enough) });
    let script = Script::new().node("a", [on_tree(1, Outcome::success())]).node("ask", answers);
    Play::run(&graph(ASKED), script)
}

#[test]
fn a_persons_answer_starts_the_count_again() {
    for source in ["console", "file"] {
        assert_eq!(asked(source, 6).ending(), "done", "{source}");
    }
}

#[test]
fn an_automatic_answer_does_not_reset_the_count() {
    for source in ["auto-approve", "default"] {
        let play = asked(source, 6);
        assert_eq!(play.runs("a"), 3, "{source}");
        assert!(play.ending().starts_with("`a` ended 3 times"), "{source}: {}", play.ending());
    }
}

#[test]
fn loop_breaker_counts_on_over_a_resume() {
    let mut script = Script::new().node("b", [on_tree(1, Outcome::fail("red"))]);
    let mut play = Play::begin(&graph(ROUND));
    while play.step(&mut |visit| script.answer(visit)) {
        if !next(&play.state, play.now).is_empty() {
            play.die_and_resume();
        }
    }
    assert_eq!(play.runs("b"), 3);
}

#[test]
fn loop_restart_forgets_the_context_and_keeps_the_visits() {
    let inner = r#"goal="ship" start -> a -> b
        b -> a [condition="outcome=fail", loop_restart=true]
        b -> exit
        a [goal_gate=true]"#;
    let told = Outcome { context_updates: [("k".to_owned(), json!("v"))].into(), ..Outcome::success() };
    let mut script = Script::new().node("a", [told, Outcome::success()]);
    script = script.node("b", [Outcome::fail("red"), Outcome::success()]);
    let mut play = Play::begin(&graph(inner));
    while play.runs("b") == 0 {
        assert!(play.step(&mut |visit| script.answer(visit)));
    }
    assert_eq!(play.state.context.keys().collect::<Vec<_>>(), ["graph.goal"], "as it was at the start");
    assert_eq!(play.state.completed.len(), 0);
    assert_eq!(play.state.threads.len(), 0);
    assert!(play.state.outcome(&node("a")).is_none());
    assert_eq!((play.state.visits(&node("a")), play.state.visits(&node("b"))), (1, 1));
    play.die_and_resume();
    while play.step(&mut |visit| script.answer(visit)) {}
    assert_eq!((play.path().as_str(), play.ending()), ("start a b a b exit", "done"));
    assert_eq!(play.last("a").visit, 2);
    assert!(!play.state.context.contains_key("k"));
}

#[test]
fn loop_restart_is_bounded_by_visits() {
    let inner = r#"start -> a a [max_visits=3] a -> a [condition="outcome=fail", loop_restart=true] a -> exit"#;
    let play = Play::run(&graph(inner), Script::new().node("a", [on_tree(1, Outcome::fail("red"))]));
    assert_eq!(play.runs("a"), 3);
    assert!(play.ending().starts_with("`a` reached its visit limit of 3"), "{}", play.ending());
}

#[test]
fn an_edge_limit_holds_over_a_restart() {
    let inner = r#"start -> a
        a -> a [condition="outcome=fail", loop_restart=true, max_visits=2]
        a -> exit [condition="outcome=fail", weight=-1]"#;
    let play = Play::run(&graph(inner), Script::new().node("a", [Outcome::fail("red")]));
    assert_eq!((play.path().as_str(), play.ending()), ("start a a a exit", "done"));
}

#[test]
fn a_resumed_failed_run_resets_its_counts() {
    let inner = r#"start -> a a [max_visits=2] a -> a [condition="outcome=again"] a -> exit"#;
    let mut play = Play::run(&graph(inner), Script::new().node("a", [outcome("again")]));
    assert_eq!((play.runs("a"), play.state.failed_node()), (2, Some(&node("a"))));
    play.record(vec![Resumed { from: Some(node("a")), ..Resumed::default() }.into()]);
    let mut script = Script::new().node("a", [outcome("again"), Outcome::success()]);
    while play.step(&mut |visit| script.answer(visit)) {}
    assert_eq!((play.path().as_str(), play.ending()), ("start a a a a exit", "done"));
    assert_eq!(play.last("a").visit, 4, "numbers of visits are given once");
}
