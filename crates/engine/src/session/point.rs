//! A point in the history of a run, with what its contexts were then. Reading it changes nothing.

use std::collections::BTreeMap;

use crate::env::{Error, SessionRepos};
use crate::view::{recorded_pipeline, recorded_state};
use git::record::{CutTarget, History, cut_at, run_contexts};
use pleach_core::event::{CutPoint, Event, HistoryCut, PipelineStarted, Snapshot};
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
        let (started, tip) = (root.started.clone(), root.tip);
        Ok(Self { run: run.clone(), turn, cut, states, started, pipeline, tip, is_newest })
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
            return Err(Error::CommitMissing { repo: name.clone(), commit: *commit, source });
        }
    }
    Ok(())
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
