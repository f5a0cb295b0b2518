//! The runs of a session: its first one, and its replays.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::{SessionStatus, Summary};
use crate::env::Error;
use git::Repo;
use git::record::{self, History};
use pleach_core::event::{ContextForked, Event, Recorded, ReplayChanges, Usage};
use pleach_core::ids::{BranchName, CommitId, NodeId, RunId, SessionId, TurnId};

/// Where a run was forked from another one. Nothing is known of the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ForkPoint {
    /// The run it was forked from.
    pub from: Option<RunId>,
    /// The turn it goes on after, unless it is another point.
    pub from_turn: Option<TurnId>,
    /// The node it goes on after, if that was asked for; at the start there is none.
    pub from_node: Option<NodeId>,
    /// The node it begins with on the code of the end, if that was asked for.
    pub begins: Option<NodeId>,
}

/// A run of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Where it was forked.
    #[serde(flatten)]
    pub forked: ForkPoint,
    /// Where it stands.
    pub standing: SessionStatus,
    /// The kinds of agents that took its own turns.
    pub agents: Vec<String>,
    /// Their models.
    pub models: Vec<String>,
    /// Its own turns.
    pub turns: u64,
    /// The tokens of those.
    pub tokens: Usage,
    /// Their cost in dollars, if known.
    pub cost_usd: Option<f64>,
    /// Its branch in the repository of the record.
    pub branch: Option<BranchName>,
    /// Its newest commit there.
    pub commit: Option<CommitId>,
    /// What it does otherwise than the run it was forked from.
    pub changes: ReplayChanges,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it was last written to.
    pub updated_at: Timestamp,
}

/// The runs of a session, each after the one it was forked from. One that cannot be read is left out.
pub fn runs(repo: &Repo, session: &SessionId) -> Result<Vec<RunView>, Error> {
    let mut views = Vec::new();
    for run in History::runs(repo, session)? {
        match RunView::read(repo, &run) {
            Ok(view) => views.push(view),
            Err(Error::Record(record::Error::Git(error))) => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(views)
}

impl RunView {
    /// Reads a run.
    pub fn read(repo: &Repo, run: &RunId) -> Result<Self, Error> {
        Self::of(repo, &Summary::newest(repo, run)?)
    }

    /// The run of a summary.
    pub fn of(repo: &Repo, summary: &Summary) -> Result<Self, Error> {
        let run = &summary.run;
        let fork = summary.forks.last().map(|fork| History::fork_of(repo, &run.session, *fork)).transpose()?;
        let fork = fork.as_ref();
        let replayed = fork.and_then(|fork| fork.replayed.as_deref());
        Ok(Self {
            forked: fork.map(|fork| ForkPoint::of(repo, &run.session, fork)).unwrap_or_default(),
            standing: summary.standing(),
            agents: summary.agents.clone(),
            models: summary.models.clone(),
            turns: summary.turns,
            tokens: summary.spent.tokens,
            cost_usd: summary.spent.known_usd(),
            branch: summary.branch().map(|(_, branch)| branch.clone()),
            commit: summary.work(),
            changes: replayed.map(|replayed| replayed.changes.clone()).unwrap_or_default(),
            started_at: summary.started_at,
            updated_at: summary.updated_at,
            run: run.clone(),
        })
    }
}

impl ForkPoint {
    fn of(repo: &Repo, session: &SessionId, fork: &ContextForked) -> Self {
        let from = Some(RunId::of_context(session, &fork.from));
        let Some(replayed) = fork.replayed.as_deref() else { return Self { from, ..Self::default() } };
        let (from_turn, begins) = (replayed.turn.clone(), replayed.begins.clone());
        let mut newest: Option<(Timestamp, NodeId)> = None;
        // What stands right after a checkpoint may be one of its branches; the others stand where they stood then.
        for point in replayed.cut.values().filter(|_| from_turn.is_none() && begins.is_none()) {
            // A branch of a run that was removed may be gone.
            if let Ok(Some(Recorded { at, event: Event::Checkpoint(data) })) = History::event_at(repo, session, *point)
                && newest.as_ref().is_none_or(|(before, _)| *before <= at)
            {
                newest = Some((at, data.current_node));
            }
        }
        Self { from, from_turn, from_node: newest.map(|(_, node)| node), begins }
    }
}

impl fmt::Display for ForkPoint {
    /// As tables have it: `main.17`, `start`, `check` for after that node, `at write`. Nothing of the first run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { from_turn: Some(turn), .. } => write!(f, "{turn}"),
            Self { begins: Some(node), .. } => write!(f, "at {node}"),
            Self { from_node: Some(node), .. } => write!(f, "{node}"),
            Self { from: Some(_), .. } => f.write_str("start"),
            Self { from: None, .. } => Ok(()),
        }
    }
}
