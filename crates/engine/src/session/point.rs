//! A point in the history of a run, with what its contexts were then. Reading it changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::env::{Error, SessionRepos};
use crate::view::{recorded_pipeline, recorded_state};
use git::Repo;
use git::record::{self, CutTarget, History, Record, cut_at, run_contexts};
use pleach_core::budget::Amount;
use pleach_core::event::{CutPoint, Event, ForkKind, HistoryCut, PipelineStarted, Recorded, Snapshot};
use pleach_core::ids::{CommitId, ContextId, NodeId, RunId, TurnId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::state::{Position, State};

/// A point in the history of a run.
#[derive(Debug)]
pub struct RunPoint {
    /// The run.
    pub run: RunId,
    /// What was asked for.
    pub target: CutTarget,
    /// The turn it is right after, unless it is another point.
    pub turn: Option<TurnId>,
    /// Where its contexts stand.
    pub cut: HistoryCut,
    /// What they are there.
    pub states: BTreeMap<ContextId, State>,
    /// What the run was started with.
    pub started: PipelineStarted,
    /// The pipeline it runs.
    pub pipeline: Pipeline,
    /// Its newest record.
    pub tip: CommitId,
    /// Nothing has happened after it but that the run was paused or resumed.
    pub is_newest: bool,
    /// What the run has done after it, or from the node on that is to begin, by node.
    pub later: Vec<DoneLater>,
}

/// What a run has done of a node after a point. What went back to a turn before that counts as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoneLater {
    /// The node.
    pub node: NodeId,
    /// It runs a command, which runs again where the run goes on from the point.
    pub is_command: bool,
    /// How often it has ended.
    pub times: u32,
    /// The turns that agents have taken there.
    pub turns: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Their cost in dollars, as far as it is known.
    pub cost_usd: f64,
}

impl RunPoint {
    /// Finds a point to go on from. What is to go on there from another node, `begins`, may also be over.
    pub fn find(repos: &SessionRepos, run: &RunId, target: &CutTarget, begins: Option<&NodeId>) -> Result<Self, Error> {
        let mut found = Self::read(repos, run, target)?;
        match begins {
            Some(node) if !found.root()?.can_start_at(node) => return Err(found.not_visited(node)),
            None if found.root()?.position == Position::Ended => {
                return Err(Error::NothingFollows { run: run.clone() });
            }
            Some(node) => found.later = done_since(repos.record(), run, (node, found.root()?.visits(node)))?,
            None => {}
        }
        found.check_code(repos)?;
        Ok(found)
    }

    /// Reads a point, also one that nothing can follow.
    pub fn read(repos: &SessionRepos, run: &RunId, target: &CutTarget) -> Result<Self, Error> {
        let repo = repos.record();
        let chains = chains(repo, run)?;
        let missing = || record::Error::Missing { session: run.session.clone() };
        let root = chains.iter().find(|chain| chain.context == run.root).ok_or_else(missing)?;
        let pipeline = recorded_pipeline(&root.started)?;
        let cut = cut_at(&chains, &run.root, target)?;
        let mut states = BTreeMap::new();
        for (context, point) in &cut {
            let history = History::up_to(repo, &run.session, context, *point)?;
            states.insert(context.clone(), recorded_state(&history, &pipeline)?);
        }
        let turn = match target {
            CutTarget::Turn(turn) => Some(turn.clone()),
            _ => None,
        };
        let is_newest = chains.iter().all(|chain| cut.get(&chain.context).is_some_and(|point| is_end(chain, *point)));
        let later = done(chains.iter().flat_map(|chain| after(chain, &cut)));
        let (started, tip, target) = (root.started.clone(), root.tip, target.clone());
        Ok(Self { run: run.clone(), target, turn, cut, states, started, pipeline, tip, is_newest, later })
    }

    /// What the root of the run is there.
    pub fn root(&self) -> Result<&State, Error> {
        let missing = || record::Error::Missing { session: self.run.session.clone() };
        Ok(self.states.get(&self.run.root).ok_or_else(missing)?)
    }

    /// The point as people name it.
    pub fn name(&self) -> String {
        match &self.target {
            CutTarget::Turn(turn) => turn.to_string(),
            CutTarget::Checkpoint { node, .. } => format!("after `{node}`"),
            CutTarget::Start => "the start".to_owned(),
            CutTarget::Newest => "the end".to_owned(),
        }
    }

    /// The node that it goes on at: that of the branch which was asked for, where the run is in a fan-out.
    pub fn next_node(&self) -> Option<&NodeId> {
        let root = self.states.get(&self.run.root);
        let has_completed = |state: &&State, node: &NodeId| state.completed.last() == Some(node);
        let asked = match &self.target {
            CutTarget::Turn(turn) => self.states.get(&turn.context),
            CutTarget::Checkpoint { node, .. } => {
                let of_branch = || self.states.values().find(|state| has_completed(state, node));
                root.filter(|root| has_completed(root, node)).or_else(of_branch)
            }
            CutTarget::Start | CutTarget::Newest => None,
        };
        asked.and_then(State::next_node).or_else(|| root.and_then(State::next_node))
    }

    fn not_visited(&self, node: &NodeId) -> Error {
        let visited = self.states.get(&self.run.root).map(|root| root.nodes.keys()).into_iter().flatten();
        let visited = visited.map(|node| format!("`{node}`")).collect::<Vec<_>>();
        let visited = pleach_core::text::listed(&visited, usize::MAX);
        Error::NotVisited { run: self.run.clone(), node: node.clone(), visited }
    }

    /// Every tree of the point is here: nothing is begun that cannot be laid out.
    fn check_code(&self, repos: &SessionRepos) -> Result<(), Error> {
        let bases = self.states.values().filter_map(|state| match &state.position {
            Position::Running { base, .. } => Some(base),
            _ => None,
        });
        for snapshot in self.states.values().map(|state| &state.work).chain(bases) {
            check_commits(repos, snapshot)?;
        }
        Ok(())
    }
}

fn check_commits(repos: &SessionRepos, snapshot: &Snapshot) -> Result<(), Error> {
    for (name, commit) in snapshot {
        let Some(repo) = repos.get(name) else { continue };
        let read = repo.tree_of(*commit).and_then(|tree| repo.tree_entries(tree));
        if let Err(source) = read {
            return Err(Error::CommitMissing { repo: name.clone(), commit: *commit, source: source.into() });
        }
    }
    Ok(())
}

/// The events of a chain after a point, or all of its own where the point is before them.
fn after<'h>(chain: &'h History, cut: &HistoryCut) -> impl Iterator<Item = &'h Recorded> {
    let point = cut.get(&chain.context);
    let at = point.and_then(|point| chain.records.iter().position(|record| record.commit == point.record));
    let own = chain.records.iter().enumerate().filter(|(_, record)| record.context == chain.context);
    own.flat_map(move |(place, record)| {
        let skipped = match (at, point) {
            (Some(at), _) if place < at => usize::MAX,
            (Some(at), Some(point)) if place == at => point.events,
            _ => 0,
        };
        record.events.iter().skip(skipped)
    })
}

/// The chains of a run.
fn chains(repo: &Repo, run: &RunId) -> Result<Vec<History>, Error> {
    let contexts = run_contexts(repo, run)?;
    Ok(contexts.iter().map(|context| History::all_in(repo, &run.session, context)).collect::<Result<_, _>>()?)
}

/// What a run has done from a visit of a node on, that of the branches forked since then included. A replay has inherited
/// what it was forked behind.
fn done_since(repo: &Repo, run: &RunId, (node, visit): (&NodeId, u32)) -> Result<Vec<DoneLater>, Error> {
    let mut chains = chains(repo, run)?;
    let root = chains.iter().position(|chain| chain.context == run.root);
    let root = root.ok_or_else(|| record::Error::Missing { session: run.session.clone() })?;
    let root = chains.swap_remove(root);
    let begins = |event: &Event| match event {
        Event::NodeStarted(start) => {
            start.node_id == *node && (start.visit, start.attempt, start.starts_over) == (visit, 1, false)
        }
        _ => false,
    };
    let events: Vec<&Recorded> = root.events().collect();
    // A node that failed before it started has done nothing.
    let begun = events.iter().rposition(|recorded| begins(&recorded.event)).unwrap_or(events.len());
    let mut since: Vec<History> = Vec::new();
    let mut next = forked(events[begun..].iter().copied());
    let mut count = 0;
    while let Some(context) = next.get(count).cloned() {
        count += 1;
        let is_it = |chain: &History| chain.context.within_run() == context.within_run();
        // A branch tells of its own fork, too.
        if since.iter().any(is_it) {
            continue;
        }
        let own = chains.iter().position(is_it);
        let chain = match own.map(|at| chains.swap_remove(at)) {
            Some(chain) => chain,
            None => match History::all_in(repo, &run.session, &context) {
                // It was forked and never started.
                Err(record::Error::Missing { .. }) => continue,
                read => read?,
            },
        };
        next.extend(forked(own_events(&chain)));
        since.push(chain);
    }
    Ok(done(events[begun..].iter().copied().chain(since.iter().flat_map(own_events))))
}

/// The events of a branch, with those of the one in another run that it goes on from.
fn own_events(chain: &History) -> impl Iterator<Item = &Recorded> {
    let is_own = |record: &&Record| record.context.within_run() == chain.context.within_run();
    chain.records.iter().filter(is_own).flat_map(|record| &record.events)
}

/// The branches that are forked by events.
fn forked<'h>(events: impl Iterator<Item = &'h Recorded>) -> Vec<ContextId> {
    let context = |recorded: &Recorded| match &recorded.event {
        Event::ContextForked(fork) if fork.kind == ForkKind::Parallel => Some(fork.context.clone()),
        _ => None,
    };
    events.filter_map(context).collect()
}

/// What events say was done, by node.
fn done<'h>(events: impl Iterator<Item = &'h Recorded>) -> Vec<DoneLater> {
    let mut nodes: Vec<DoneLater> = Vec::new();
    for event in events.map(|recorded| &recorded.event) {
        let node = match event {
            Event::NodeExecution(data) => &data.node_id,
            Event::AgentTurn(data) => &data.node_id,
            Event::ToolExecution(data) => &data.node_id,
            _ => continue,
        };
        let known = nodes.iter().position(|known| known.node == *node).unwrap_or_else(|| {
            let (is_command, times, turns, tokens, cost_usd) = (false, 0, 0, 0, 0.0);
            nodes.push(DoneLater { node: node.clone(), is_command, times, turns, tokens, cost_usd });
            nodes.len() - 1
        });
        let known = &mut nodes[known];
        match event {
            Event::NodeExecution(_) => known.times += 1,
            Event::ToolExecution(_) => known.is_command = true,
            Event::AgentTurn(data) => {
                let spent = Amount::of_turn(data);
                known.turns += 1;
                known.tokens += spent.tokens.total();
                known.cost_usd += spent.known_usd().unwrap_or_default();
            }
            _ => {}
        }
    }
    nodes
}

/// Whether nothing of substance follows a point in its chain.
fn is_end(chain: &History, point: CutPoint) -> bool {
    let Some(at) = chain.records.iter().position(|record| record.commit == point.record) else { return false };
    let later = chain.records[at].events.iter().skip(point.events);
    let mut later = later.chain(chain.records[at + 1..].iter().flat_map(|record| &record.events));
    later.all(|recorded| match &recorded.event {
        Event::Resumed(resumed) => resumed.from.is_none() && resumed.back.is_none(),
        Event::PipelinePaused(_) | Event::WorktreeCreated(_) | Event::SessionBranchCreated(_) => true,
        _ => false,
    })
}
