//! What holds for every pipeline and every course of a run.

use pleach_core::event::{Event, Outcome, Recorded, Resumed, Status};
use pleach_core::route::{self, Action, max_retries, max_visits, select_edge};
use pleach_core::state::{Phase, Position, State};
use proptest::prelude::*;

use super::driver::{BEGIN, Done, Play, next, node, pipeline};
use super::graphs::{RandomEdge, edge_from, holds, random_done, random_dot, random_outcome};

/// Plays a whole run with these answers, over and over.
fn play(dot: &str, answers: &[Done]) -> Play {
    let mut play = Play::begin(dot);
    let mut asked = 0;
    let mut answer = |_: &_| {
        asked += 1;
        answers[(asked - 1) % answers.len()].clone()
    };
    let attempts =
        |node| u64::from(max_visits(&play.pipeline, node)) * u64::from(max_retries(&play.pipeline, node) + 1);
    let bound: u64 = play.pipeline.nodes().iter().map(attempts).sum();
    // Each attempt is at most one wait and one step.
    for _ in 0..=2 * bound + 1 {
        if !play.step(&mut answer) {
            return play;
        }
    }
    panic!("the run does not end: {}", play.path());
}

fn answers() -> impl Strategy<Value = Vec<Done>> {
    proptest::collection::vec(random_done(), 1..24)
}

fn start() -> pleach_core::ids::NodeId {
    node("start")
}

/// A part of the usual number of cases: whole runs are long. `PROPTEST_CASES` multiplies them.
fn share(part: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: (usual.cases / part).max(1), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(share(4))]

    #[test]
    fn every_run_ends(dot in random_dot(), answers in answers()) {
        let play = play(&dot, &answers);
        for node in play.pipeline.nodes() {
            prop_assert!(play.state.visits(&node.id) <= max_visits(&play.pipeline, node), "{}", node.id);
        }
        prop_assert_eq!(&play.state.position, &Position::Ended);
        let over = matches!(play.state.phase, Phase::Completed | Phase::Failed { .. });
        prop_assert!(over);
        if play.state.phase == Phase::Completed {
            prop_assert!(route::unsatisfied_gate(&play.pipeline, &play.state).is_none());
            prop_assert_eq!(play.state.completed.last().map(|node| node.as_str()), Some("exit"));
        }
    }

    #[test]
    fn a_resumed_run_continues_exactly_the_node_without_an_outcome(dot in random_dot(), answers in answers()) {
        let play = play(&dot, &answers);
        let mut state = State::new(start());
        let mut running = None;
        for (index, batch) in play.batches.iter().enumerate() {
            batch.iter().for_each(|event| state.apply(event).unwrap());
            for event in batch {
                match &event.event {
                    Event::NodeStarted(data) => running = Some((data.node_id.clone(), data.visit, data.attempt)),
                    Event::NodeExecution(_) => running = None,
                    _ => {}
                }
            }
            let now = batch[0].at;
            let before = next(&state, now);
            let mut resumed = state.clone();
            let taken_up = resumed.apply(&Recorded { at: now, event: Resumed::default().into() });
            if index + 1 == play.batches.len() {
                prop_assert!(taken_up.is_err(), "a run that is over is not taken up again");
                break;
            }
            taken_up.unwrap();
            match &running {
                Some(pass) => {
                    let next = next(&resumed, now);
                    let [Action::Continue(visit)] = &next[..] else { panic!("{next:?}") };
                    prop_assert_eq!(&(visit.node.clone(), visit.visit, visit.attempt), pass);
                    // Taken up, it is where it was.
                    let restart = play.batches[..=index].iter().rfind(|batch| matches!(batch[0].event, Event::NodeStarted(_)));
                    resumed.apply(&restart.unwrap()[0]).unwrap();
                    if !matches!(batch[0].event, Event::Resumed(_)) {
                        prop_assert_eq!(&resumed, &state);
                    }
                }
                None => {
                    prop_assert_eq!(next(&resumed, now), before);
                    prop_assert_eq!(&resumed, &state);
                }
            }
        }
    }

    #[test]
    fn next_never_emits_an_action_twice(dot in random_dot(), answers in answers()) {
        let play = play(&dot, &answers);
        let mut state = State::new(start());
        let far = "9999-01-01T00:00:00Z".parse().unwrap();
        let mut emitted = Vec::new();
        for event in play.events() {
            if let Event::NodeStarted(data) = &event.event {
                let due = next(&state, far);
                let [Action::Start(visit) | Action::Continue(visit)] = &due[..] else { panic!("{due:?}") };
                prop_assert_eq!((&visit.node, visit.visit, visit.attempt), (&data.node_id, data.visit, data.attempt));
                if let Action::Start(visit) = &due[0] {
                    prop_assert!(!emitted.contains(visit), "{:?} was emitted before", visit);
                    emitted.push(visit.clone());
                }
            }
            state.apply(&event).unwrap();
            if matches!(event.event, Event::NodeStarted(_) | Event::AgentTurn(_)) {
                prop_assert_eq!(next(&state, far), []);
            }
        }
        prop_assert_eq!(next(&state, far), []);
    }
}

proptest! {
    // Every run is split at every event.
    #![proptest_config(share(12))]

    #[test]
    fn the_fold_is_the_same_for_any_split(dot in random_dot(), answers in answers()) {
        let play = play(&dot, &answers);
        // Through the record and back, as a later process sees them.
        let json: Vec<String> = play.events().iter().map(|event| event.to_json().to_string()).collect();
        let read = |text: &String| Recorded::from_json(serde_json::from_str(text).unwrap()).unwrap();
        let events: Vec<Recorded> = json.iter().map(read).collect();
        prop_assert_eq!(&events, &play.events());
        prop_assert_eq!(&State::fold(start(), &events).unwrap(), &play.state);
        let mut first = State::new(start());
        for split in 0..=events.len() {
            let kept = serde_json::to_string(&first).unwrap();
            let mut second: State = serde_json::from_str(&kept).unwrap();
            prop_assert_eq!(&second, &first, "the kept state is the state");
            events[split..].iter().for_each(|event| second.apply(event).unwrap());
            prop_assert_eq!(&second, &play.state, "split at {}", split);
            if let Some(event) = events.get(split) {
                first.apply(event).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(share(1))]

    #[test]
    fn edge_choice_is_total_and_deterministic(
        edges in proptest::collection::vec(edge_from(Just("n0".to_owned())), 0..8),
        order in any::<u64>(),
        outcome in random_outcome(),
        label in proptest::option::of(0..8_usize),
    ) {
        let label = label.map(|index| format!("L{index}"));
        let outcome = Outcome { preferred_label: label, ..outcome };
        let chosen = choose(&edges, 0, &outcome);
        prop_assert_eq!(&choose(&edges, 0, &outcome), &chosen, "the same twice");
        prop_assert_eq!(&choose(&edges, order, &outcome), &chosen, "in whatever order they are written");
        prop_assert_eq!(&chosen, &expected(&edges, &outcome), "as the five steps say");
    }
}

/// The index of each edge in a shuffled order.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for index in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = if seed == 0 { index } else { (state >> 33) as usize % (index + 1) };
        order.swap(index, other);
    }
    order
}

fn choose(edges: &[RandomEdge], seed: u64, outcome: &Outcome) -> Option<String> {
    let lines: String = shuffled(edges.len(), seed).into_iter().map(|index| edges[index].dot(index)).collect();
    let others = "n1 -> exit n2 -> exit n3 -> exit n4 -> exit";
    let pipeline = pipeline(&super::driver::graph(&format!("start -> n0 n0 [shape=box]\n{lines}{others}")));
    let from = pipeline.node(&node("n0")).unwrap();
    let chosen = select_edge(&pipeline, &State::new(node("start")), from, outcome);
    chosen.map(|edge| edge.to.to_string())
}

/// The five steps in other words. Labels are unique here, so nothing depends on the order of the edges.
fn expected(edges: &[RandomEdge], outcome: &Outcome) -> Option<String> {
    let label = outcome.preferred_label.clone().unwrap_or_default();
    let k = outcome.context_updates.get("k").and_then(|value| value.as_str()).unwrap_or_default();
    // Nothing came before, so a skipped node leaves no outcome to compare with.
    let (word, seen) =
        if outcome.status == Status::Skipped { ("", "") } else { (outcome.status.as_str(), label.as_str()) };
    let heaviest = |mut edges: Vec<&RandomEdge>| {
        edges.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.to.cmp(&b.to)));
        edges.first().map(|edge| edge.to.clone())
    };
    let usable: Vec<(usize, &RandomEdge)> =
        edges.iter().enumerate().filter(|(_, edge)| edge.max_visits != Some(0)).collect();
    let true_ones = usable.iter().filter(|(_, edge)| edge.condition.is_some_and(|text| holds(text, word, seen, k)));
    let by_condition = heaviest(true_ones.map(|(_, edge)| *edge).collect());
    if by_condition.is_some() || outcome.status == Status::Fail {
        return by_condition;
    }
    let plain: Vec<_> = usable.into_iter().filter(|(_, edge)| edge.condition.is_none()).collect();
    let by_label = plain.iter().find(|(index, _)| label == format!("L{index}")).map(|(_, edge)| edge.to.clone());
    let by_wish =
        || outcome.suggested_next_ids.iter().find(|id| plain.iter().any(|(_, edge)| edge.to == **id)).cloned();
    by_label.or_else(by_wish).or_else(|| heaviest(plain.iter().map(|(_, edge)| *edge).collect()))
}

#[test]
fn the_fold_takes_any_run_of_numbers_without_overflow() {
    let mut play = Play::begin(&super::driver::graph("start -> exit"));
    let [Action::Start(visit)] = &next(&play.state, BEGIN.parse().unwrap())[..] else { panic!() };
    play.start_node(visit);
    for _ in 0..2 {
        let mut turn = play.turn(visit);
        turn.token_usage.input = u64::MAX;
        turn.messages = None;
        play.record(vec![turn.into()]);
    }
    assert_eq!(play.state.spent.total.tokens.input, u64::MAX);
    assert_eq!(play.state.spent.total.tokens.total(), u64::MAX);
}
