//! Points in the history of a run, decided on values: where all its contexts stood when one of them was at a turn.

use std::collections::{BTreeMap, BTreeSet};

use super::{History, Record};
use pleach_core::event::{ContextForked, CutPoint, Event, ForkKind, HistoryCut, Recorded, Route};
use pleach_core::ids::{CommitId, ContextId, NodeId, TurnId};
use pleach_core::text::counted;

/// The point that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutTarget {
    /// After a turn.
    Turn(TurnId),
    /// After a node has completed, for the last time unless a visit is given.
    Checkpoint {
        /// The node.
        node: NodeId,
        /// Its visit.
        visit: Option<u32>,
    },
    /// Before the first node.
    Start,
    /// Where the run stands now.
    Newest,
}

/// Why there is no such point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCut {
    /// No record of the run has the turn.
    #[error("the run has no turn {turn}")]
    NoTurn {
        /// The turn.
        turn: TurnId,
    },
    /// The run has no record.
    #[error("`{context}` has no record")]
    NoRecord {
        /// Its root.
        context: ContextId,
    },
    /// The node has not completed, or not that often.
    #[error("`{node}` has not completed{}", visit.map(|visit| format!(" {}", counted(visit, "time"))).unwrap_or_default())]
    NotCompleted {
        /// The node.
        node: NodeId,
        /// The visit that is wanted.
        visit: Option<u32>,
    },
}

/// The cut of a run at a point of it. `chains` are its contexts, read whole, the root among them.
///
/// A context other than that of the point stands at its newest event that is not later, within the same stretch between two
/// resumes: inside a stretch one loop stamps all of them. Clocks may step back, so what does not fit together is moved until
/// it does.
pub fn cut_at(chains: &[History], root: &ContextId, target: &CutTarget) -> Result<HistoryCut, NoCut> {
    let chains: BTreeMap<&ContextId, ContextChain<'_>> =
        chains.iter().map(|history| (&history.context, ContextChain::new(history))).collect();
    if *target == CutTarget::Newest {
        return Ok(chains.iter().filter_map(|(id, chain)| Some(((*id).clone(), chain.end()?))).collect());
    }
    let (of, at) = find(&chains, root, target)?;
    let (stretch, time) = (chains[&of].stretch(at), chains[&of].events(at).last().map(|(_, event)| event.at));
    let stands = |(id, chain): (&&ContextId, &ContextChain<'_>)| {
        if **id == of {
            return Some(((*id).clone(), at));
        }
        let mut resumes = chain.stretch_before();
        let mut newest = None;
        for record in &chain.own {
            for (event, events) in record.events.iter().zip(1..) {
                resumes += usize::from(matches!(event.event, Event::Resumed(_)));
                if resumes < stretch || resumes == stretch && Some(event.at) <= time {
                    newest = Some(CutPoint { record: record.commit, events });
                }
            }
        }
        newest.map(|point| ((*id).clone(), point))
    };
    let mut cut: HistoryCut = chains.iter().filter_map(stands).collect();
    while repair(&chains, root, &of, &mut cut) {}
    Ok(cut)
}

/// The events of a run that it has gone back behind, by their record and their place in it. They stay recorded, and turns
/// among them count as spent.
pub fn left_events(chains: &[History], root: &ContextId) -> BTreeSet<(CommitId, usize)> {
    let chains: BTreeMap<&ContextId, ContextChain<'_>> =
        chains.iter().map(|history| (&history.context, ContextChain::new(history))).collect();
    let mut cut: HistoryCut = chains.iter().filter_map(|(id, chain)| Some(((*id).clone(), chain.end()?))).collect();
    while repair(&chains, root, root, &mut cut) {}
    let effective = |(id, point): (&ContextId, &CutPoint)| {
        let (chain, point) = (&chains[id], *point);
        chain.effective(point).map(|(place, at, _)| (chain.records[place].commit, at)).collect::<Vec<_>>()
    };
    let counts: BTreeSet<(CommitId, usize)> = cut.iter().flat_map(effective).collect();
    let own = chains.values().flat_map(|chain| &chain.own);
    let own = own.flat_map(|record| (0..record.events.len()).map(|at| (record.commit, at)));
    own.filter(|event| !counts.contains(event)).collect()
}

/// The point, and the context it is in.
fn find(
    chains: &BTreeMap<&ContextId, ContextChain<'_>>,
    root: &ContextId,
    target: &CutTarget,
) -> Result<(ContextId, CutPoint), NoCut> {
    let nothing = || NoCut::NoRecord { context: root.clone() };
    match target {
        CutTarget::Turn(turn) => {
            let found = chains.get(&turn.context).and_then(|chain| chain.after_turn(turn));
            let found = found.map(|point| (turn.context.clone(), point));
            found.ok_or_else(|| NoCut::NoTurn { turn: turn.clone() })
        }
        CutTarget::Checkpoint { node, visit } => {
            let found = chains.iter().filter_map(|(id, chain)| {
                let (at, point) = chain.after_checkpoint(node, *visit)?;
                Some((at, ((*id).clone(), point)))
            });
            let newest = found.max_by_key(|(at, (id, _))| (*at, id == root)).map(|(_, found)| found);
            newest.ok_or_else(|| NoCut::NotCompleted { node: node.clone(), visit: *visit })
        }
        CutTarget::Start => {
            let chain = chains.get(root);
            let point = chain.and_then(|chain| Some((root.clone(), chain.before_first_node()?)));
            point.ok_or_else(nothing)
        }
        CutTarget::Newest => {
            let end = chains.get(root).and_then(|chain| Some((root.clone(), chain.end()?)));
            end.ok_or_else(nothing)
        }
    }
}

/// Moves one context that does not fit to the others. Returns whether there was one.
fn repair(
    chains: &BTreeMap<&ContextId, ContextChain<'_>>,
    root: &ContextId,
    of: &ContextId,
    cut: &mut HistoryCut,
) -> bool {
    let forked: BTreeSet<ContextId> = cut.iter().flat_map(|(id, point)| chains[id].forked(*point)).collect();
    // What is asked for was forked, whatever the clock says, and so were those it was forked from.
    let mut asked = of.clone();
    while let Some(fork) = chains.get(&asked).and_then(ContextChain::fork).filter(|_| asked != *root) {
        if !forked.contains(&asked)
            && let Some(point) = chains.get(&fork.from).and_then(|parent| parent.telling_of(&asked))
        {
            cut.insert(fork.from.clone(), point);
            return true;
        }
        asked.clone_from(&fork.from);
    }
    let stray =
        cut.keys().find(|id| *id != root && *id != of && !forked.contains(*id) && chains[id].fork().is_some()).cloned();
    if let Some(stray) = stray {
        cut.remove(&stray);
        return true;
    }
    for (parent, point) in cut.iter() {
        let told = chains[parent].told_ends(*point);
        let early = told.into_iter().find(|(branch, _)| {
            let has_ended = |chain: &ContextChain<'_>| cut.get(branch).is_some_and(|point| chain.has_ended(*point));
            chains.get(branch).is_some_and(|chain| !has_ended(chain))
        });
        let Some((branch, before)) = early else { continue };
        if parent == of {
            // What is asked for stays: the branch has ended before.
            if let Some(end) = chains[&branch].end() {
                cut.insert(branch, end);
            }
        } else {
            let parent = parent.clone();
            match before {
                Some(before) => drop(cut.insert(parent, before)),
                None => drop(cut.remove(&parent)),
            }
        }
        return true;
    }
    false
}

/// The chain of a context.
struct ContextChain<'h> {
    context: &'h ContextId,
    records: &'h [Record],
    /// Its own records, without those it was forked from.
    own: Vec<&'h Record>,
    /// The place of each record in the chain.
    places: BTreeMap<CommitId, usize>,
}

impl<'h> ContextChain<'h> {
    fn new(history: &'h History) -> Self {
        let (context, records) = (&history.context, &history.records[..]);
        let own = records.iter().filter(|record| record.context == *context).collect();
        let places = records.iter().enumerate().map(|(place, record)| (record.commit, place)).collect();
        Self { context, records, own, places }
    }

    fn end(&self) -> Option<CutPoint> {
        self.own.last().map(|record| CutPoint { record: record.commit, events: record.events.len() })
    }

    /// The events that count at a point, the newest first, each with the place of its record. What returns have left is not
    /// among them.
    fn effective(&self, point: CutPoint) -> impl Iterator<Item = (usize, usize, &'h Recorded)> {
        let place = |point: CutPoint| self.places.get(&point.record).map(|place| (*place, point.events));
        let mut next = place(point);
        std::iter::from_fn(move || {
            loop {
                let (record, events) = next?;
                if events == 0 {
                    next = record.checked_sub(1).map(|before| (before, self.records[before].events.len()));
                    continue;
                }
                let event = self.records[record].events.get(events - 1)?;
                let back = match &event.event {
                    Event::Resumed(resumed) => resumed.back.as_ref().map(|back| back.to),
                    _ => None,
                };
                next = match back {
                    Some(to) => place(to),
                    None => Some((record, events - 1)),
                };
                return Some((record, events - 1, event));
            }
        })
    }

    /// The same without those of the contexts it was forked from.
    fn effective_own(&self, point: CutPoint) -> impl Iterator<Item = (usize, &'h Recorded)> {
        let own = self.effective(point).filter(|(record, _, _)| self.records[*record].context == *self.context);
        own.map(|(record, _, event)| (record, event))
    }

    /// All events of the chain up to a point, with their records.
    fn events(&self, point: CutPoint) -> impl Iterator<Item = (&'h Record, &'h Recorded)> {
        let place = self.places.get(&point.record).copied().unwrap_or_default();
        let records = self.records.iter().take(place + 1).enumerate();
        records.flat_map(move |(at, record)| {
            let counting = if at == place { point.events } else { usize::MAX };
            record.events.iter().take(counting).map(move |event| (record, event))
        })
    }

    /// How often the run was resumed before the chain began.
    fn stretch_before(&self) -> usize {
        let before = self.records.iter().take_while(|record| record.context != *self.context);
        before.flat_map(|record| &record.events).filter(|event| matches!(event.event, Event::Resumed(_))).count()
    }

    /// How often the run was resumed before.
    fn stretch(&self, point: CutPoint) -> usize {
        self.events(point).filter(|(_, event)| matches!(event.event, Event::Resumed(_))).count()
    }

    /// A turn with a record of its own counts with what was said of it right after. One that was recorded together with the
    /// end of its node stands for that end.
    fn after_turn(&self, turn: &TurnId) -> Option<CutPoint> {
        let is_turn = |event: &Event| match event {
            Event::AgentTurn(found) => found.turn == *turn,
            Event::ToolExecution(found) => found.turn == *turn,
            _ => false,
        };
        let record = self.own.iter().find(|record| record.events.iter().any(|event| is_turn(&event.event)))?;
        let at = record.events.iter().position(|event| is_turn(&event.event))? + 1;
        let rest = &record.events[at..];
        let is_of_turn = |event: &Event| {
            matches!(event, Event::TurnCommitted(_) | Event::BudgetExceeded(_) | Event::PriceUnknown(_))
        };
        let own = rest.iter().take_while(|event| is_of_turn(&event.event)).count();
        let is_next = |event: &Event| {
            matches!(
                event,
                Event::NodeStarted(_)
                    | Event::ContextForked(_)
                    | Event::ParallelStarted(_)
                    | Event::PipelineCompleted(_)
                    | Event::PipelineFailed(_)
            )
        };
        let end = rest.iter().take_while(|event| !is_next(&event.event)).count();
        Some(CutPoint { record: record.commit, events: at + own.max(end) })
    }

    /// The newest point after a checkpoint of a node, and its time.
    fn after_checkpoint(&self, node: &NodeId, visit: Option<u32>) -> Option<(jiff::Timestamp, CutPoint)> {
        let mut checkpoint = None;
        for (record, events, event) in self.effective(self.end()?) {
            if self.records[record].context != *self.context {
                break;
            }
            match &event.event {
                Event::Checkpoint(data) if data.current_node == *node => {
                    checkpoint = Some((event.at, CutPoint { record: self.records[record].commit, events: events + 1 }));
                }
                Event::NodeExecution(data) if data.node_id == *node => {
                    if checkpoint.is_some() && visit.is_none_or(|visit| visit == data.visit) {
                        return checkpoint;
                    }
                    checkpoint = None;
                }
                _ => {}
            }
        }
        None
    }

    fn before_first_node(&self) -> Option<CutPoint> {
        for record in self.records {
            let before = record.events.iter().position(|event| matches!(event.event, Event::NodeStarted(_)));
            if let Some(events) = before {
                return Some(CutPoint { record: record.commit, events });
            }
        }
        self.end()
    }

    /// The contexts that are forked from it at a point.
    fn forked(&self, point: CutPoint) -> impl Iterator<Item = ContextId> {
        self.effective_own(point).filter_map(|(_, event)| match &event.event {
            Event::ContextForked(fork) if fork.kind == ForkKind::Parallel && fork.from == *self.context => {
                Some(fork.context.clone())
            }
            _ => None,
        })
    }

    /// The fork it began with, where another context tells of it. A branch of a replay that was open when that began does
    /// so itself.
    fn fork(&self) -> Option<&'h ContextForked> {
        match &self.own.first()?.events.first()?.event {
            Event::ContextForked(fork) if fork.kind == ForkKind::Parallel => Some(fork),
            _ => None,
        }
    }

    /// The point after the record that tells of a fork.
    fn telling_of(&self, context: &ContextId) -> Option<CutPoint> {
        let tells = |event: &Recorded| matches!(&event.event, Event::ContextForked(fork) if fork.context == *context);
        let record = self.own.iter().find(|record| record.events.iter().any(tells))?;
        Some(CutPoint { record: record.commit, events: record.events.len() })
    }

    /// The branches whose end it tells of by themselves, each with the point before that.
    fn told_ends(&self, point: CutPoint) -> Vec<(ContextId, Option<CutPoint>)> {
        let before = |record: usize| {
            let before = &self.records[record.checked_sub(1)?];
            Some(CutPoint { record: before.commit, events: before.events.len() })
                .filter(|_| before.context == *self.context)
        };
        let told = self.effective_own(point).filter_map(|(record, event)| match &event.event {
            Event::ParallelBranchCompleted(ended) if !ended.stopped => Some((ended.context.clone(), before(record))),
            _ => None,
        });
        told.collect()
    }

    fn has_ended(&self, point: CutPoint) -> bool {
        let newest = self.effective(point).find_map(|(_, _, event)| match &event.event {
            Event::NodeStarted(_) => Some(false),
            Event::NodeExecution(data) => {
                Some(matches!(data.route, Route::Join { .. } | Route::Complete | Route::Fail { .. }))
            }
            _ => None,
        });
        newest == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::git::TreeId;

    /// An event at a second: `("AgentTurn", {…})`.
    fn event(kind: &str, at: i64, data: Value) -> Recorded {
        let at = Timestamp::from_second(at).expect("a time");
        let json = json!({"type": format!("dev.orchestra.{kind}"), "version": 1, "at": at, "data": data});
        Recorded::from_json(json).expect("an event")
    }

    fn turn(context: &str, number: u64, at: i64) -> Recorded {
        event(
            "AgentTurn",
            at,
            json!({
                "turn": format!("{context}.{number}"), "turn_number": number, "node_id": "n", "visit": 1, "attempt": 1,
                "agent": "a", "model": "m", "provider": "p", "messages": null, "tool_calls": [], "files_written": {},
                "token_usage": {"input": 0, "cache_read": 0, "cache_write": 0, "output": 0, "reasoning": 0},
                "cost_usd": null, "git_sha": null, "commit_message": null, "boundary": "exact", "agent_state_ref": null,
            }),
        )
    }

    fn fork(context: &str, at: i64) -> Recorded {
        let data = json!({
            "from": "main", "context": context, "kind": "parallel", "node_id": "n", "base": {}, "branches": {},
        });
        event("ContextForked", at, data)
    }

    fn ended(node: &str, at: i64) -> Recorded {
        event(
            "NodeExecution",
            at,
            json!({
                "node_id": node, "visit": 1, "attempt": 1, "outcome": {"status": "success"}, "route": {"kind": "join", "to": "j"},
                "duration_ms": 0, "prompt": null, "response": null,
            }),
        )
    }

    fn told(context: &str, at: i64) -> Recorded {
        event(
            "ParallelBranchCompleted",
            at,
            json!({
                "node_id": "f", "context": context, "outcome": {"status": "success"}, "work": {},
            }),
        )
    }

    fn resumed(at: i64) -> Recorded {
        event("Resumed", at, json!({}))
    }

    fn id(number: u8) -> CommitId {
        CommitId::from_bytes([number; 20])
    }

    /// A chain of records, each with its events; those of other contexts come first.
    fn chain(context: &str, first: u8, before: &[Record], own: Vec<Vec<Recorded>>) -> History {
        let context: ContextId = context.parse().expect("a context");
        let own = (first..).zip(own).map(|(number, events)| Record {
            commit: id(number),
            context: context.clone(),
            tree: TreeId::from_bytes([0; 20]),
            events,
        });
        let records: Vec<Record> = before.iter().cloned().chain(own).collect();
        History::of_values(context, records)
    }

    fn at(cut: &HistoryCut, context: &str) -> Option<(CommitId, usize)> {
        cut.get(&context.parse::<ContextId>().expect("a context")).map(|point| (point.record, point.events))
    }

    fn main() -> ContextId {
        ContextId::main()
    }

    /// `main` forks `a` and `b`; each takes turns, and `main` tells of their ends.
    fn fan_out(shift: i64) -> Vec<History> {
        let begin = vec![vec![resumed(1)], vec![turn("main", 1, 2)], vec![fork("a", 3), fork("b", 3)]];
        let root = chain("main", 1, &[], begin.clone());
        let a = vec![vec![fork("a", 3)], vec![turn("a", 1, 4)], vec![turn("a", 2, 6)], vec![ended("n", 7)]];
        let b = vec![vec![fork("b", 3)], vec![turn("b", 1, 5 + shift)], vec![ended("n", 8 + shift)]];
        let (a, b) = (chain("a", 10, &root.records, a), chain("b", 20, &root.records, b));
        let whole = begin.into_iter().chain([vec![told("a", 9), told("b", 9)], vec![turn("main", 2, 10)]]).collect();
        vec![chain("main", 1, &[], whole), a, b]
    }

    fn cut(chains: &[History], turn: &str) -> HistoryCut {
        cut_at(chains, &main(), &CutTarget::Turn(turn.parse().expect("a turn"))).expect("a cut")
    }

    #[test]
    fn others_stand_where_they_stood() {
        let chains = fan_out(0);
        let of_a = cut(&chains, "a.1");
        let stand = (at(&of_a, "main"), at(&of_a, "a"), at(&of_a, "b"));
        assert_eq!(stand, (Some((id(3), 2)), Some((id(11), 1)), Some((id(20), 1))));
        let of_b = cut(&chains, "b.1");
        assert_eq!((at(&of_b, "a"), at(&of_b, "b")), (Some((id(11), 1)), Some((id(21), 1))));
        let of_main = cut(&chains, "main.1");
        assert_eq!(of_main.keys().map(ContextId::as_str).collect::<Vec<_>>(), ["main"], "they are not forked yet");
        let later = cut(&chains, "main.2");
        assert_eq!((at(&later, "a"), at(&later, "b")), (Some((id(13), 1)), Some((id(22), 1))));
    }

    #[test]
    fn clock_steps_do_not_tear_contexts() {
        // The clock of the loop stepped back: b seems to end after main has told so, or before it was forked.
        for shift in [100, -100] {
            let chains = fan_out(shift);
            for turn in ["main.1", "a.1", "a.2", "b.1", "main.2"] {
                let cut = cut(&chains, turn);
                let main_at = at(&cut, "main").unwrap_or_else(|| panic!("{shift} {turn}: {cut:?}")).0;
                let tells = [id(4), id(5)].contains(&main_at);
                let has_ended = at(&cut, "b") == Some((id(22), 1)) && at(&cut, "a") == Some((id(13), 1));
                assert!(!tells || has_ended, "{shift} {turn}: {cut:?}");
                let is_forked = main_at != id(1) && main_at != id(2);
                assert!(is_forked || at(&cut, "a").is_none() && at(&cut, "b").is_none(), "{shift} {turn}: {cut:?}");
            }
        }
    }

    #[test]
    fn a_turn_recorded_with_its_end_stands_for_that() {
        let checkpoint = |at| event("PipelineCompleted", at, json!({"workspace_snapshot": {}}));
        let events = vec![turn("main", 1, 2), ended("n", 3), checkpoint(4)];
        let found = cut(&[chain("main", 1, &[], vec![vec![resumed(1)], events])], "main.1");
        assert_eq!(at(&found, "main"), Some((id(2), 2)), "up to what ends the run");
        let none = cut_at(
            &[chain("main", 1, &[], vec![vec![resumed(1)]])],
            &main(),
            &CutTarget::Turn("main.7".parse().unwrap()),
        );
        assert!(matches!(none, Err(NoCut::NoTurn { .. })));
    }

    proptest! {
        /// Which turns, ends and forks count does not depend on how events were gathered into records.
        #[test]
        fn a_cut_is_the_same_for_any_split(
            turns in 1_u64..12,
            splits in prop::collection::vec(any::<bool>(), 24),
            wanted in any::<prop::sample::Index>(),
        ) {
            let events: Vec<Recorded> = (1..=turns).map(|number| turn("main", number, number.cast_signed() * 10)).collect();
            let others: Vec<Recorded> = (1..=turns).map(|number| turn("a", number, number.cast_signed() * 10 + 5)).collect();
            let whole = |splits: &[bool], all: &[Recorded]| {
                let mut records: Vec<Vec<Recorded>> = Vec::new();
                for (event, split) in all.iter().zip(splits.iter().cycle()) {
                    match records.last_mut().filter(|_| !split) {
                        Some(last) => last.push(event.clone()),
                        None => records.push(vec![event.clone()]),
                    }
                }
                records
            };
            let count = |splits: &[bool]| {
                let begin = [vec![resumed(1), fork("a", 1)]];
                let root = chain("main", 1, &[], begin.iter().cloned().chain(whole(&[true], &events)).collect());
                let branch = chain("a", 100, &root.records[..1], whole(splits, &others));
                let number = wanted.index(usize::try_from(turns).unwrap()) as u64 + 1;
                let chains = [root, branch];
                let cut = cut(&chains, &format!("main.{number}"));
                let counts = |history: &History| {
                    let point = cut.get(&history.context).copied();
                    let chain = ContextChain::new(history);
                    point.map(|point| chain.effective_own(point).count())
                };
                (counts(&chains[0]), counts(&chains[1]), number)
            };
            let (own, others, number) = count(&[true]);
            let number = usize::try_from(number).unwrap();
            prop_assert_eq!((own, others.unwrap_or_default()), (Some(number + 2), number - 1));
            prop_assert_eq!(count(&splits), (own, others, number as u64), "the others stand where they stood");
        }
    }
}
