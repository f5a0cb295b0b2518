//! Attempts of one node, and the waits between them.

use std::time::Duration;

use pleach_core::event::{NodeStarted, Outcome, Route, Status};
use pleach_core::plan::pipeline::Backoff;
use pleach_core::route::{Action, max_retries};
use pleach_core::state::Position;

use super::driver::{Play, Script, graph, next, node, pipeline, snapshot};

fn asking(times: usize) -> Script {
    let mut answers = vec![Outcome::retry("later"); times];
    answers.push(Outcome::success());
    Script::new().node("a", answers)
}

fn one_node(attributes: &str) -> String {
    graph(&format!("start -> a -> exit a [{attributes}]"))
}

fn millis(play: &Play) -> Vec<u128> {
    play.delays.iter().map(Duration::as_millis).collect()
}

#[test]
fn retry_max_retries_2() {
    let play = Play::run(&one_node("max_retries=2"), asking(2));
    assert_eq!((play.runs("a"), play.ending()), (3, "done"));
    assert_eq!(millis(&play), [200, 400]);
    let attempts: Vec<u32> = play.executions_of("a").iter().map(|execution| execution.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(play.executions_of("a").iter().all(|execution| execution.visit == 1), "attempts are one visit");
    assert_eq!(play.state.nodes[&node("a")].retries, 2);
    assert_eq!(play.state.completed, ["start", "a", "exit"], "attempts are completed once");

    let play = Play::run(&one_node("max_retries=2"), asking(3));
    assert_eq!((play.runs("a"), play.ending()), (3, "`a` failed after 3 attempts: max retries exceeded: later"));
    assert_eq!(play.last("a").outcome.status, Status::Fail);
}

#[test]
fn without_retries_asking_for_one_is_a_failure() {
    let play = Play::run(&one_node("label=a"), asking(1));
    assert_eq!((play.runs("a"), play.ending()), (1, "`a` failed: max retries exceeded: later"));
}

#[test]
fn the_presets_space_their_attempts() {
    let table: [(&str, &[u128]); 5] = [
        ("none", &[]),
        ("standard", &[200, 400, 800, 1600]),
        ("aggressive", &[500, 1000, 2000, 4000]),
        ("linear", &[500, 500]),
        ("patient", &[2000, 6000]),
    ];
    for (preset, waits) in table {
        for dot in
            [one_node(&format!("retry_policy={preset}")), graph(&format!("retry_policy={preset} start -> a -> exit"))]
        {
            let play = Play::run(&dot, asking(100));
            assert_eq!(millis(&play), waits, "{preset}");
            assert_eq!(play.runs("a"), waits.len() + 1);
        }
    }
    assert_eq!(table.map(|(name, _)| name), Backoff::PRESETS.map(|(name, _)| name), "every preset is in the table");
}

#[test]
fn no_wait_is_longer_than_a_minute() {
    let play = Play::run(&one_node("retry_policy=patient, max_retries=40"), asking(40));
    assert_eq!(millis(&play)[..4], [2000, 6000, 18_000, 54_000]);
    assert!(millis(&play)[4..].iter().all(|wait| *wait == 60_000));
    assert_eq!(play.delays.len(), 40);
}

#[test]
fn the_number_of_retries_is_inherited() {
    let table = [
        ("", "", 0),
        ("default_max_retries=3", "", 3),
        ("default_max_retry=3", "", 3),
        ("default_max_retries=3", "max_retries=1", 1),
        ("default_max_retries=3", "max_retries=0", 0),
        ("default_max_retries=3", "retry_policy=linear", 2),
        ("default_max_retries=3", "retry_policy=none", 0),
        ("default_max_retries=3 retry_policy=standard", "", 3),
        ("retry_policy=standard", "", 4),
        ("retry_policy=standard", "max_retries=1", 1),
        ("retry_policy=standard", "retry_policy=linear, max_retries=7", 7),
    ];
    for (of_graph, of_node, retries) in table {
        let pipeline = pipeline(&graph(&format!(
            "{of_graph} start -> a -> exit a [class=x {of_node}]",
            of_node = if of_node.is_empty() { String::new() } else { format!(", {of_node}") }
        )));
        let found = max_retries(&pipeline, pipeline.node(&node("a")).unwrap());
        assert_eq!(found, retries, "graph [{of_graph}] node [{of_node}]");
    }
}

#[test]
fn partial_results_are_taken_when_the_node_allows_it() {
    let play = Play::run(&one_node("max_retries=1, allow_partial=true"), asking(9));
    assert_eq!((play.runs("a"), play.ending()), (2, "done"));
    let last = play.last("a").outcome;
    assert_eq!(last.status, Status::PartialSuccess);
    assert_eq!(last.notes.as_deref(), Some("retries exhausted, partial accepted"));
    // A failure is not a partial result.
    let failing = Script::new().node("a", [Outcome::transient("offline")]);
    let play = Play::run(&one_node("max_retries=1, allow_partial=true"), failing);
    assert_eq!((play.runs("a"), play.ending()), (2, "`a` failed after 2 attempts: offline"));
}

#[test]
fn explicit_retries_are_for_failures_inherited_for_transient_ones() {
    let ends = |dot: &str, first: Outcome| {
        let play = Play::run(dot, Script::new().node("a", [first, Outcome::success()]));
        (play.runs("a"), play.ending().to_owned())
    };
    let (written, policy) = (one_node("max_retries=2"), one_node("retry_policy=standard"));
    let inherited = graph("default_max_retries=2 start -> a -> exit");
    for dot in [&written, &inherited, &policy] {
        assert_eq!(ends(dot, Outcome::transient("429")), (2, "done".into()), "{dot}");
        assert_eq!(ends(dot, Outcome::retry("later")), (2, "done".into()), "{dot}");
        assert_eq!(ends(dot, Outcome::final_failure("No")), (1, "`a` failed: No".into()), "{dot}");
    }
    assert_eq!(ends(&written, Outcome::fail("exit 1")), (2, "done".into()));
    for dot in [&inherited, &policy] {
        assert_eq!(ends(dot, Outcome::fail("exit 1")), (1, "`a` failed: exit 1".into()), "{dot}");
    }
    let play =
        Play::run(&one_node("label=a"), Script::new().node("a", [Outcome::transient("429"), Outcome::success()]));
    assert_eq!((play.runs("a"), play.ending()), (1, "`a` failed: 429"), "no retries, no second attempt");
}

#[test]
fn a_failure_edge_waits_for_the_last_attempt() {
    let inner = r#"start -> a a [max_retries=2] a -> fix [condition="outcome=fail"] a -> exit fix -> exit"#;
    let play = Play::run(&graph(inner), Script::new().node("a", [Outcome::fail("red")]));
    assert_eq!((play.runs("a"), play.path().as_str()), (3, "start a fix exit"));
    assert_eq!(millis(&play), [200, 400]);
}

#[test]
fn a_failure_is_routed_once_its_attempts_are_used_up() {
    let inner = r#"start -> a a [max_retries=1] a -> fix [condition="outcome=fail"] a -> exit fix -> a"#;
    let script =
        Script::new().node("a", [Outcome::retry("1"), Outcome::retry("2"), Outcome::retry("3"), Outcome::success()]);
    let play = Play::run(&graph(inner), script);
    assert_eq!(play.path(), "start a fix a exit");
    let passes: Vec<(u32, u32)> = play.executions_of("a").iter().map(|e| (e.visit, e.attempt)).collect();
    assert_eq!(passes, [(1, 1), (1, 2), (2, 1), (2, 2)], "each visit has its own attempts");
}

#[test]
fn a_retry_waits_for_its_time() {
    let mut play = Play::begin(&one_node("max_retries=1"));
    let mut script = asking(1);
    while play.delays.is_empty() {
        assert!(play.step(&mut |visit| script.answer(visit)));
    }
    let [Action::WakeAt(time)] = next(&play.state, play.now)[..] else { panic!("the run waits") };
    play.die_and_resume();
    assert_eq!(next(&play.state, play.now), [Action::WakeAt(time)], "a resumed run waits for the same moment");
    let [Action::Start(again)] = &next(&play.state, time)[..] else { panic!("the wait is over") };
    assert_eq!((again.visit, again.attempt), (1, 2));
    assert_eq!(play.state.context["internal.retry_count.a"], 1);
    while play.step(&mut |visit| script.answer(visit)) {}
    assert_eq!(play.ending(), "done");
    assert!(!play.state.context.contains_key("internal.retry_count.a"), "the count is gone once the node is through");
}

#[test]
fn an_interrupted_attempt_is_not_a_retry() {
    let mut done = super::driver::Done::from(Outcome::success());
    (done.crashes, done.turns) = (3, 2);
    let play = Play::run(&one_node("max_retries=0"), Script::new().node("a", [done]));
    assert_eq!((play.runs("a"), play.ending()), (1, "done"));
    assert_eq!(play.last("a").attempt, 1);
    assert_eq!(play.last("a").route, Route::Edge { to: node("exit") });
}

/// A run whose node `a` has had two turns when its process dies.
fn interrupted_in_a() -> (Play, pleach_core::state::Visit) {
    let mut play = Play::begin(&one_node("label=a"));
    assert!(play.step(&mut |_| Outcome::success().into()), "the start");
    let [Action::Start(visit)] = &next(&play.state, play.now)[..] else { panic!("`a` is due") };
    let visit = visit.clone();
    play.start_node(&visit);
    for _ in 0..2 {
        let turn = play.turn(&visit);
        play.record(vec![turn.into()]);
    }
    play.die_and_resume();
    (play, visit)
}

#[test]
fn a_node_that_continues_keeps_its_turns_and_its_work() {
    let (mut play, visit) = interrupted_in_a();
    let work = play.state.work.clone();
    assert_ne!(work, play.state.base);
    play.start_node(&visit);
    let Position::Running { turns, base, .. } = &play.state.position else { panic!("`a` runs") };
    assert_eq!((turns.len(), base), (2, &play.state.base));
    assert_eq!((play.state.work.clone(), play.state.threads["a"].len()), (work, 2));
}

#[test]
fn a_restarted_node_forgets_turns_but_not_numbers() {
    let (mut play, visit) = interrupted_in_a();
    let restored = snapshot(77);
    let event = NodeStarted { starts_over: true, base: restored.clone(), ..play.node_started(&visit) };
    play.record(vec![event.into()]);
    let Position::Running { turns, base, .. } = &play.state.position else { panic!("`a` runs") };
    assert_eq!((turns.len(), base), (0, &restored));
    assert_eq!(play.state.work, restored);
    assert_eq!(play.state.threads["a"], [], "the conversation begins again");
    assert_eq!((play.state.turns, play.state.messages), (2, 4), "numbers are given once");
    assert_eq!(play.state.spent.total.tokens.input, 20, "and what was spent stays spent");
}
