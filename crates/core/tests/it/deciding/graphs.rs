//! Random pipelines and random answers.

use pleach_core::event::{Outcome, Status};
use proptest::prelude::*;
use serde_json::json;

use super::driver::Done;

/// The conditions random edges have.
pub const CONDITIONS: [&str; 8] = [
    "outcome=success",
    "outcome=fail",
    "outcome!=success",
    "outcome=odd",
    "context.k=v1",
    "k!=v1",
    "preferred_label=L1",
    "outcome=fail && context.k=v2",
];

/// Whether a condition holds, worked out apart from the library.
pub fn holds(condition: &str, outcome: &str, label: &str, k: &str) -> bool {
    match condition {
        "outcome=success" => outcome == "success",
        "outcome=fail" => outcome == "fail",
        "outcome!=success" => outcome != "success",
        "outcome=odd" => outcome == "odd",
        "context.k=v1" => k == "v1",
        "k!=v1" => k != "v1",
        "preferred_label=L1" => label == "L1",
        "outcome=fail && context.k=v2" => outcome == "fail" && k == "v2",
        other => panic!("{other}"),
    }
}

/// The inner nodes of random graphs.
const INNER: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

#[derive(Debug, Clone)]
pub struct RandomEdge {
    pub from: String,
    pub to: String,
    pub condition: Option<&'static str>,
    pub weight: i8,
    pub restart: bool,
    pub max_visits: Option<u8>,
}

impl RandomEdge {
    /// The edge in DOT; `index` makes its label.
    pub fn dot(&self, index: usize) -> String {
        let mut text = format!("{} -> {} [label=\"L{index}\", weight={}", self.from, self.to, self.weight);
        text.extend(self.condition.map(|condition| format!(", condition=\"{condition}\"")));
        text.extend(self.max_visits.map(|max| format!(", max_visits={max}")));
        text.push_str(if self.restart { ", loop_restart=true]\n" } else { "]\n" });
        text
    }
}

fn one_of_inner() -> impl Strategy<Value = String> {
    (0..INNER.len()).prop_map(|index| INNER[index].to_owned())
}

/// A node an edge may lead to.
fn target() -> impl Strategy<Value = String> {
    prop_oneof![4 => one_of_inner(), 1 => Just("exit".to_owned())]
}

pub fn edge_from(from: impl Strategy<Value = String>) -> impl Strategy<Value = RandomEdge> {
    let condition = proptest::option::of((0..CONDITIONS.len()).prop_map(|index| CONDITIONS[index]));
    let restart = prop::bool::weighted(0.1);
    let max_visits = proptest::option::weighted(0.1, 0..3_u8);
    (from, target(), condition, -1..3_i8, restart, max_visits).prop_map(
        |(from, to, condition, weight, restart, max_visits)| RandomEdge {
            from,
            to,
            condition,
            weight,
            restart,
            max_visits,
        },
    )
}

fn attributes() -> impl Strategy<Value = String> {
    let shape = prop_oneof![Just("box"), Just("parallelogram"), Just("diamond"), Just("hexagon"), Just("insulator")];
    let number = |chance, range| proptest::option::weighted(chance, range);
    let flag = || prop::bool::weighted(0.2);
    let targets = (proptest::option::weighted(0.3, target()), proptest::option::weighted(0.2, target()));
    (shape, number(0.3, 0..3_u8), number(0.4, 1..4_u8), flag(), flag(), targets).prop_map(
        |(shape, retries, visits, gate, partial, (retry, fallback))| {
            let mut text = format!("shape={shape}, goal_gate={gate}, allow_partial={partial}");
            text.extend(retries.map(|number| format!(", max_retries={number}")));
            text.extend(visits.map(|number| format!(", max_visits={number}")));
            text.extend(retry.map(|target| format!(", retry_target={target}")));
            text.extend(fallback.map(|target| format!(", fallback_retry_target={target}")));
            text
        },
    )
}

/// A pipeline in DOT that loads without errors; it need not make sense.
pub fn random_dot() -> impl Strategy<Value = String> {
    let edges = proptest::collection::vec(edge_from(one_of_inner()), 1..14);
    let nodes = proptest::collection::vec(attributes(), INNER.len());
    (edges, nodes, 1..5_u8, proptest::option::weighted(0.3, target())).prop_map(|(edges, nodes, visits, target)| {
        let mut text = format!("digraph random {{ default_max_visits={visits}\n");
        text.extend(target.map(|target| format!("retry_target={target}\n")));
        text.push_str("start [shape=Mdiamond] exit [shape=Msquare]\nstart -> n0\n");
        text.extend(INNER.iter().zip(nodes).map(|(id, attributes)| format!("{id} [{attributes}]\n")));
        text.extend(edges.iter().enumerate().map(|(index, edge)| edge.dot(index)));
        text + "}"
    })
}

pub fn random_outcome() -> impl Strategy<Value = Outcome> {
    let status = prop_oneof![
        4 => Just(Status::Success),
        1 => Just(Status::PartialSuccess),
        2 => Just(Status::Retry),
        3 => Just(Status::Fail),
        1 => Just(Status::Skipped),
        1 => Just(Status::Custom("odd".into())),
    ];
    let label = proptest::option::of((0..14_u8).prop_map(|index| format!("[{index}] l{index}")));
    let ids = proptest::collection::vec(target(), 0..3);
    let told = proptest::option::of((0..3_u8, any::<f64>()));
    let transient = any::<bool>();
    (status, label, ids, told, transient).prop_map(|(status, preferred_label, suggested_next_ids, told, transient)| {
        let mut outcome = if transient { Outcome::transient("t") } else { Outcome::fail("f") };
        (outcome.status, outcome.preferred_label, outcome.suggested_next_ids) =
            (status, preferred_label, suggested_next_ids);
        if let Some((v, number)) = told {
            outcome.context_updates.insert("k".into(), json!(format!("v{v}")));
            outcome.context_updates.insert("number".into(), json!(number));
        }
        outcome
    })
}

/// What one handler does.
pub fn random_done() -> impl Strategy<Value = Done> {
    let answered = proptest::option::weighted(0.3, prop_oneof![Just("console"), Just("auto-approve")]);
    let crashes = prop_oneof![4 => Just(0_u8), 1 => 1..3_u8];
    (random_outcome(), proptest::option::of(0..2_u8), answered, 0..3_u8, crashes).prop_map(
        |(outcome, tree, answered_by, turns, crashes)| Done {
            outcome,
            tree,
            answered_by,
            turns,
            crashes,
            output: None,
        },
    )
}
