//! Points in the history of a run, decided on values: where all its contexts stood when one of them was at a turn.

use std::collections::{BTreeMap, BTreeSet};

use super::{History, Record};
use pleach_core::event::{CutPoint, Event, ForkKind, HistoryCut, Recorded, Route};
use pleach_core::ids::{CommitId, ContextId, NodeId, TurnId};

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
    #[error("`{node}` has not completed{}", visit.map(|visit| format!(" {visit} times")).unwrap_or_default())]
    NotCompleted {
        /// The node.
        node: NodeId,
        /// The visit that is wanted.
        visit: Option<u32>,
    },
}

/// The cut of a run at a point of it. `chains` are its contexts, read whole, the root among them.
///
/// A context other than that of the point stands at its newest record that is not later, within the same stretch between two
/// resumes: inside a stretch one loop stamps all of them. Clocks may step back, so what does not fit together is moved until
/// it does.
pub fn cut_at(chains: &[History], root: &ContextId, target: &CutTarget) -> Result<HistoryCut, NoCut> {
    let chains: BTreeMap<&ContextId, Chain<'_>> =
        chains.iter().map(|history| (&history.context, Chain::new(history))).collect();
    if *target == CutTarget::Newest {
        return Ok(chains.iter().filter_map(|(id, chain)| Some(((*id).clone(), chain.end()?))).collect());
    }
    let (of, at) = find(&chains, root, target)?;
    let (stretch, time) = (chains[&of].stretch(at), chains[&of].events(at).last().map(|(_, event)| event.at));
    let stands = |(id, chain): (&&ContextId, &Chain<'_>)| {
        if **id == of {
            return Some(((*id).clone(), at));
        }
        let is_before = |record: &&&Record| {
            let point = CutPoint { record: record.commit, events: record.events.len() };
            let own = chain.stretch(point);
            own < stretch || own == stretch && record.events.last().map(|event| event.at) <= time
        };
        let own = chain.own.iter().rev().find(|record| is_before(&record));
        own.map(|record| ((*id).clone(), CutPoint { record: record.commit, events: record.events.len() }))
    };
    let mut cut: HistoryCut = chains.iter().filter_map(stands).collect();
    while repair(&chains, root, &of, &mut cut) {}
    Ok(cut)
}

/// The turns of a run that it has gone back behind. They stay recorded and count as spent.
pub fn left_turns(chains: &[History], root: &ContextId) -> BTreeSet<TurnId> {
    let chains: BTreeMap<&ContextId, Chain<'_>> =
        chains.iter().map(|history| (&history.context, Chain::new(history))).collect();
    let mut cut: HistoryCut = chains.iter().filter_map(|(id, chain)| Some(((*id).clone(), chain.end()?))).collect();
    while repair(&chains, root, root, &mut cut) {}
    let turn = |event: &Event| match event {
        Event::AgentTurn(data) => Some(data.turn.clone()),
        Event::ToolExecution(data) => Some(data.turn.clone()),
        _ => None,
    };
    let own = |chain: &Chain<'_>| -> BTreeSet<TurnId> {
        chain.own.iter().flat_map(|record| &record.events).filter_map(|event| turn(&event.event)).collect()
    };
    let counts: BTreeSet<TurnId> = cut
        .iter()
        .flat_map(|(id, point)| chains[id].effective(*point).filter_map(|(_, _, event)| turn(&event.event)))
        .collect();
    chains.values().flat_map(own).filter(|turn| !counts.contains(turn)).collect()
}

/// The point, and the context it is in.
fn find(
    chains: &BTreeMap<&ContextId, Chain<'_>>,
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
fn repair(chains: &BTreeMap<&ContextId, Chain<'_>>, root: &ContextId, of: &ContextId, cut: &mut HistoryCut) -> bool {
    let forked: BTreeSet<ContextId> = cut.iter().flat_map(|(id, point)| chains[id].forked(*point)).collect();
    let stray =
        cut.keys().find(|id| *id != root && *id != of && !forked.contains(*id) && chains[id].is_branch()).cloned();
    if let Some(stray) = stray {
        cut.remove(&stray);
        return true;
    }
    for (parent, point) in cut.iter() {
        let told = chains[parent].told_ends(*point);
        let early = told.into_iter().find(|(branch, _)| {
            let there = cut.get(branch).zip(chains.get(branch));
            there.is_some_and(|(point, chain)| !chain.has_ended(*point))
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
struct Chain<'h> {
    context: &'h ContextId,
    records: &'h [Record],
    /// Its own records, without those it was forked from.
    own: Vec<&'h Record>,
    /// The place of each record in the chain.
    places: BTreeMap<CommitId, usize>,
}

impl<'h> Chain<'h> {
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

    /// Whether another context tells of its fork. A branch of a replay that was open when it began does so itself.
    fn is_branch(&self) -> bool {
        let first = self.own.first().and_then(|record| record.events.first());
        matches!(first.map(|first| &first.event), Some(Event::ContextForked(fork)) if fork.kind == ForkKind::Parallel)
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
