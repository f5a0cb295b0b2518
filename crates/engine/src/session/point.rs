//! A point in the history of a run, with what its contexts were then. Reading it changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::env::{Error, SessionRepos};
use crate::view::{recorded_pipeline, recorded_state};
use git::record::{CutTarget, History, cut_at, run_contexts};
use pleach_core::budget::Amount;
use pleach_core::event::{CutPoint, Event, HistoryCut, PipelineStarted, Recorded, Snapshot};
use pleach_core::ids::{CommitId, ContextId, NodeId, RunId, TurnId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::state::{Position, State};

/// A point in the history of a run.
#[derive(Debug)]
pub struct RunPoint {
    /// The run.
    pub run: RunId,
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
    /// What the run has done after it, by node.
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
        let found = Self::read(repos, run, target)?;
        match begins {
            Some(node) if !found.root()?.can_start_at(node) => Err(found.not_visited(node)),
            None if found.root()?.position == Position::Ended => Err(Error::NothingFollows { run: run.clone() }),
            _ => {
                found.check_code(repos)?;
                Ok(found)
            }
        }
    }

    /// Reads a point, also one that nothing can follow.
    pub fn read(repos: &SessionRepos, run: &RunId, target: &CutTarget) -> Result<Self, Error> {
        let repo = repos.record();
        let contexts = run_contexts(repo, run)?.into_iter();
        let chains = contexts.map(|context| History::all_in(repo, &run.session, &context));
        let chains = chains.collect::<Result<Vec<_>, _>>()?;
        let missing = || git::record::Error::Missing { session: run.session.clone() };
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
        let (started, tip, later) = (root.started.clone(), root.tip, done_later(&chains, &cut));
        Ok(Self { run: run.clone(), turn, cut, states, started, pipeline, tip, is_newest, later })
    }

    /// What the root of the run is there.
    pub fn root(&self) -> Result<&State, Error> {
        let missing = || git::record::Error::Missing { session: self.run.session.clone() };
        Ok(self.states.get(&self.run.root).ok_or_else(missing)?)
    }

    /// The point as people name it.
    pub fn name(&self) -> String {
        match &self.turn {
            Some(turn) => turn.to_string(),
            None => match self.states.get(&self.run.root).and_then(|state| state.completed.last()) {
                Some(node) => format!("after `{node}`"),
                None => "the start".to_owned(),
            },
        }
    }

    fn not_visited(&self, node: &NodeId) -> Error {
        let visited = self.states.get(&self.run.root).map(|root| root.nodes.keys()).into_iter().flatten();
        let visited = visited.map(|node| format!("`{node}`")).collect::<Vec<_>>();
        let visited = pleach_core::text::listed(&visited, usize::MAX);
        Error::NotVisited { session: self.run.session.clone(), node: node.clone(), visited }
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

fn done_later(chains: &[History], cut: &HistoryCut) -> Vec<DoneLater> {
    let mut nodes: Vec<DoneLater> = Vec::new();
    for event in chains.iter().flat_map(|chain| after(chain, cut)).map(|recorded| &recorded.event) {
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
