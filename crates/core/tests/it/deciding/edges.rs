//! Which edge the run follows.

use std::collections::BTreeMap;

use pleach_core::event::{Outcome, Status};
use pleach_core::route::{accelerator, entry_after, normalise_label, select_edge};
use pleach_core::state::State;
use serde_json::{Value, json};

use super::driver::{Play, Script, graph, node, outcome, pipeline};

/// The node the run goes to from `a`, whose edges are `edges`; `-` for none.
fn chosen(edges: &str, outcome: &Outcome) -> String {
    chosen_with(edges, outcome, &[])
}

fn chosen_with(edges: &str, outcome: &Outcome, context: &[(&str, Value)]) -> String {
    let pipeline = pipeline(&graph(&format!("start -> a {edges} b -> exit c -> exit d -> exit")));
    let mut state = State::new(node("start"));
    state.context = context.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    let from = pipeline.node(&node("a")).unwrap();
    select_edge(&pipeline, &state, from, outcome).map_or("-".into(), |edge| edge.to.to_string())
}

fn labelled(label: &str) -> Outcome {
    Outcome { preferred_label: Some(label.into()), ..Outcome::success() }
}

fn suggesting(ids: &[&str]) -> Outcome {
    Outcome { suggested_next_ids: ids.iter().map(|id| id.to_string()).collect(), ..Outcome::success() }
}

#[test]
fn condition_beats_weight() {
    let edges = r#"a -> b [weight=100] a -> c [condition="outcome=success"]"#;
    assert_eq!(chosen(edges, &Outcome::success()), "c");
    assert_eq!(chosen(edges, &outcome("partial_success")), "b", "a condition that does not hold is no candidate");
}

#[test]
fn condition_beats_label_and_suggestion() {
    let edges = r#"a -> b [label=go] a -> c [condition="outcome=success"]"#;
    let wish = Outcome { suggested_next_ids: vec!["b".into()], ..labelled("go") };
    assert_eq!(chosen(edges, &wish), "c");
}

#[test]
fn among_conditions_the_heaviest_then_the_first_by_name() {
    let edges = |weights: [i32; 3]| {
        let edge = |to, weight| format!(r#"a -> {to} [condition="outcome=success", weight={weight}] "#);
        format!("{}{}{}", edge("d", weights[0]), edge("c", weights[1]), edge("b", weights[2]))
    };
    assert_eq!(chosen(&edges([1, 2, 1]), &Outcome::success()), "c");
    assert_eq!(chosen(&edges([2, 2, 1]), &Outcome::success()), "c");
    assert_eq!(chosen(&edges([0, 0, 0]), &Outcome::success()), "b");
    assert_eq!(chosen(&edges([-1, -2, -3]), &Outcome::success()), "d");
}

#[test]
fn weight_breaks_ties() {
    assert_eq!(chosen("a -> b a -> c [weight=1] a -> d [weight=-5]", &Outcome::success()), "c");
}

#[test]
fn lexical_tiebreak() {
    assert_eq!(chosen("a -> d a -> c a -> b", &Outcome::success()), "b");
    assert_eq!(chosen("a -> d [weight=3] a -> c [weight=3] a -> b", &Outcome::success()), "c");
}

#[test]
fn the_preferred_label_comes_before_suggestion_and_weight() {
    let edges = r#"a -> b [weight=9] a -> c [label="[Y] Yes"] a -> d [label="N) No"]"#;
    for label in ["yes", "YES", " Yes ", "[Y] yes", "y) Yes", "Y - yes"] {
        let wish = Outcome { suggested_next_ids: vec!["d".into()], ..labelled(label) };
        assert_eq!(chosen(edges, &wish), "c", "{label}");
    }
    assert_eq!(chosen(edges, &labelled("no")), "d");
    assert_eq!(chosen(edges, &labelled("maybe")), "b", "a label no edge has is no wish");
    assert_eq!(chosen(edges, &labelled("  ")), "b", "an empty label matches no edge without one");
}

#[test]
fn a_preferred_label_does_not_open_a_conditional_edge() {
    let edges = r#"a -> b [label=go, condition="context.ready=yes"] a -> c"#;
    assert_eq!(chosen(edges, &labelled("go")), "c");
}

#[test]
fn suggestions_are_tried_in_order() {
    let edges = r#"a -> b [weight=9] a -> c a -> d a -> exit [condition="outcome=fail"]"#;
    assert_eq!(chosen(edges, &suggesting(&["d", "c"])), "d");
    assert_eq!(chosen(edges, &suggesting(&["nowhere", "exit", "c"])), "c");
    assert_eq!(chosen(edges, &suggesting(&["nowhere"])), "b");
}

#[test]
fn conditions_that_do_not_hold_never_lead_on() {
    let edges = r#"a -> b [condition="outcome=fail"] a -> c [condition="context.x=1"]"#;
    assert_eq!(chosen(edges, &Outcome::success()), "-");
    let play = Play::run(&graph(&format!("start -> a {edges} b -> exit c -> exit")), Script::new());
    assert_eq!(play.ending(), "`a` has no edge for outcome `success`");
}

#[test]
fn custom_outcomes_are_words_for_conditions() {
    let edges = r#"a -> b [condition="outcome=needs_dba"] a -> c"#;
    assert_eq!(chosen(edges, &outcome("needs_dba")), "b");
    assert_eq!(chosen(edges, &outcome("Needs_DBA")), "c", "compared to the letter");
    assert_eq!(chosen(edges, &outcome("anything")), "c");
}

#[test]
fn known_outcomes_are_known_in_any_case() {
    for (text, status) in [("FAIL", Status::Fail), (" Failed", Status::Fail), ("Succeeded", Status::Success)] {
        assert_eq!(Status::try_from(text.to_owned()).unwrap(), status);
    }
    assert!(Status::try_from(" ".to_owned()).is_err());
}

#[test]
fn context_keys_are_found_with_and_without_their_prefix() {
    let edges = |condition: &str| format!(r#"a -> b [condition="{condition}"] a -> c"#);
    let context =
        [("x", json!("1")), ("context.y", json!("2")), ("n", json!(3)), ("t", json!(true)), ("z", json!(null))];
    let table = [
        ("context.x=1", true),
        ("x=1", true),
        ("context.y=2", true),
        ("y=2", false),
        ("context.n=3", true),
        ("context.t=true", true),
        ("context.z=\\\"\\\"", true),
        ("context.missing=\\\"\\\"", true),
        ("context.x!=1", false),
        ("context.missing", false),
        ("t", true),
    ];
    for (condition, holds) in table {
        let to = chosen_with(&edges(condition), &Outcome::success(), &context);
        assert_eq!(to == "b", holds, "{condition}");
    }
}

#[test]
fn conditions_see_the_nodes_own_outcome() {
    let before = [("outcome", json!("fail")), ("preferred_label", json!("old")), ("k", json!("old"))];
    let before = [before.as_slice(), &[("current_node", json!("start"))]].concat();
    let told = BTreeMap::from([("k".to_owned(), json!("new"))]);
    let outcome = Outcome { context_updates: told, ..labelled("mine") };
    for condition in [
        "outcome=success",
        "context.outcome=success",
        "preferred_label=mine",
        "context.preferred_label=mine",
        "k=new",
        "context.k=new",
        "context.current_node=a",
    ] {
        let edges = format!(r#"a -> b [condition="{condition}"] a -> c"#);
        assert_eq!(chosen_with(&edges, &outcome, &before), "b", "{condition}");
    }
}

#[test]
fn conditions_see_the_attributes_of_the_graph() {
    let inner = r#"goal="ship" team="red" start -> a a -> b [condition="graph.team=red && graph.goal=ship"] a -> c b -> exit c -> exit"#;
    let play = Play::run(&graph(inner), Script::new());
    assert_eq!(play.path(), "start a b exit");
}

#[test]
fn a_skipped_node_leaves_the_outcome_before_it_standing() {
    let inner = r#"start -> a
        a -> s [condition="outcome=yellow"]
        s -> b [condition="outcome=yellow && preferred_label=slow"]
        s -> c
        b -> exit c -> exit"#;
    let yellow = Outcome { preferred_label: Some("slow".into()), ..outcome("yellow") };
    let play = Play::run(&graph(inner), Script::new().node("a", [yellow]).node("s", [outcome("skipped")]));
    assert_eq!(play.path(), "start a s b exit");
    let mut script = Script::new().node("s", [outcome("skipped")]);
    script = script.node("a", [Outcome { preferred_label: Some("slow".into()), ..outcome("yellow") }]);
    let mut play = Play::begin(&graph(inner));
    while play.state.completed.last().is_none_or(|last| *last != "s") {
        assert!(play.step(&mut |visit| script.answer(visit)));
    }
    assert_eq!(play.state.context["outcome"], "yellow");
    assert_eq!(play.state.context["preferred_label"], "slow");
    assert_eq!(play.state.context["current_node"], "s");
    assert_eq!(play.state.outcome(&node("s")).unwrap().status, Status::Skipped);
}

#[test]
fn labels_are_compared_without_accelerator_and_case() {
    let table = [
        ("Yes", "yes"),
        ("  Yes  ", "yes"),
        ("[Y] Yes", "yes"),
        ("[OK]  Fine", "fine"),
        ("Y) Yes", "yes"),
        ("Y - Yes", "yes"),
        ("1) First", "first"),
        ("Ü) Über", "über"),
        ("İ) Çok", "çok"),
        ("YY) Yes", "yy) yes"),
        ("Y- Yes", "y- yes"),
        ("-) Yes", "-) yes"),
        ("[] Yes", "[] yes"),
        ("[Y]Yes", "[y]yes"),
        ("[Y", "[y"),
        ("[Y] ", "[y]"),
        ("Y", "y"),
        ("", ""),
    ];
    for (label, normal) in table {
        assert_eq!(normalise_label(label), normal, "{label:?}");
    }
    assert_eq!(accelerator("[Y] Yes"), Some(("Y", "Yes")));
    assert_eq!(accelerator("N) No"), Some(("N", "No")));
    assert_eq!(accelerator("M - Maybe"), Some(("M", "Maybe")));
    assert_eq!(accelerator("Yes"), None);
}

#[test]
fn an_edge_is_taken_no_more_often_than_it_allows() {
    let inner = r#"start -> a
        a -> b [condition="outcome=fail", max_visits=2]
        a -> c [condition="outcome=fail", weight=-1]
        b -> a c -> exit"#;
    let play = Play::run(&graph(inner), Script::new().node("a", [Outcome::fail("red")]));
    assert_eq!(play.path(), "start a b a b a c exit");
}

#[test]
fn a_jump_to_a_retry_target_takes_no_edge() {
    // `a` fails twice and is sent to `b` by its target; the edge that leads there may still be taken once.
    let inner = r#"start -> a a [retry_target=b]
        a -> b [condition="outcome=again", max_visits=1]
        a -> exit [condition="outcome=again", weight=-1]
        b -> a"#;
    let script = Script::new().node("a", [Outcome::fail("1"), Outcome::fail("2"), outcome("again"), outcome("again")]);
    let play = Play::run(&graph(inner), script);
    assert_eq!(play.path(), "start a b a b a b a exit");
}

#[test]
fn success_fail_branching() {
    let inner = r#"start -> work
        work -> good [condition="outcome=success"]
        work -> bad [condition="outcome=fail"]
        good -> exit bad -> exit"#;
    assert_eq!(Play::run(&graph(inner), Script::new()).path(), "start work good exit");
    let failing = Script::new().node("work", [Outcome::fail("no")]);
    assert_eq!(Play::run(&graph(inner), failing).path(), "start work bad exit");
}

#[test]
fn context_visible_downstream_and_in_checkpoints() {
    let inner = r#"start -> a -> b -> c
        c -> exit [condition="context.colour=blue && size=7"]"#;
    let told = |pairs: &[(&str, Value)]| Outcome {
        context_updates: pairs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        ..Outcome::success()
    };
    let script = Script::new()
        .node("a", [told(&[("colour", json!("red")), ("size", json!(7))])])
        .node("b", [told(&[("colour", json!("blue"))])]);
    let play = Play::run(&graph(inner), script);
    assert_eq!(play.ending(), "done");
    let checkpoint = play.state.to_checkpoint(node("exit"));
    assert_eq!(checkpoint.context["colour"], "blue");
    assert_eq!(checkpoint.completed_nodes.value(), ["start", "a", "b", "c", "exit"]);
    assert_eq!(checkpoint.next_node, None);
}

#[test]
fn a_fresh_run_starts_after_a_node_if_deterministic() {
    let entry_after = |edges: &str| {
        let dot = graph(&format!("start -> a {edges} b -> exit c -> exit d -> exit e [shape=diamond]"));
        let pipeline = pipeline(&dot);
        let from = pipeline.node(&node("a")).unwrap();
        entry_after(&pipeline, from).map_or("-".into(), ToString::to_string)
    };
    for (edges, at) in [
        ("a -> b", "b"),
        (r#"a -> b [label="quick"]"#, "b"),
        (r#"a -> b [condition="outcome=success || outcome=partial_success"] a -> c"#, "b"),
        (r#"a -> c [condition="outcome=fail"] a -> b"#, "b"),
        (r#"a -> b b -> c [condition="outcome=fail && context.task_id!=T1"]"#, "b"),
        // Which one it is depends on what came of `a`, or of one before it.
        (r#"a -> b [label="quick"] a -> c [label="careful"]"#, "-"),
        (r#"a -> b [condition="outcome=success"] a -> c"#, "-"),
        (r#"a -> b [condition="context.task_id=T1"] a -> c [condition="context.task_id!=T1"]"#, "-"),
        (r#"a -> b [condition="preferred_label=quick"] a -> c"#, "-"),
        // So it is with one further on.
        (r#"a -> b b -> c [condition="context.risk=high"]"#, "-"),
        (r#"a -> b -> c c -> d [condition="last_stage"]"#, "-"),
        (r#"a -> e e -> b [condition="outcome=success"] e -> c"#, "-"),
    ] {
        assert_eq!(entry_after(edges), at, "{edges}");
    }
}
