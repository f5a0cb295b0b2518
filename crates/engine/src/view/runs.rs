//! The runs of a session: its first one, and its replays.

use jiff::Timestamp;
use serde::Serialize;

use super::{SessionStatus, Summary};
use crate::env::Error;
use git::Repo;
use git::record::{self, History};
use pleach_core::event::{ReplayChanges, Usage};
use pleach_core::ids::{BranchName, CommitId, RunId, SessionId, TurnId};

/// A run of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// The run it was forked from; none of the first.
    pub from: Option<RunId>,
    /// The turn it goes on after, unless it is another point.
    pub from_turn: Option<TurnId>,
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
            from: fork.map(|fork| RunId::of_context(&run.session, &fork.from)),
            from_turn: replayed.and_then(|replayed| replayed.turn.clone()),
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
