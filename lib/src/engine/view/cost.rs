//! What sessions have cost.

use crate::budget::{By, Costs};
use crate::git::Repo;
use crate::ids::{ContextId, SessionId};
use crate::record::{AgentTurns, Error, History, PLANNING, context_ref};

/// What sessions have cost, and those whose record cannot be read.
#[derive(Debug)]
pub struct CostsRead {
    /// What the others have cost.
    pub costs: Costs,
    /// The models without a price.
    pub unpriced: Vec<String>,
    /// Why a session is missing.
    pub unreadable: Vec<(SessionId, Error)>,
}

/// What a session has cost, or all of a repository with what planners have. One pass over their records.
pub fn costs(repo: &Repo, session: Option<&SessionId>, by: By) -> Result<CostsRead, Error> {
    let ids = match session {
        Some(id) => vec![id.clone()],
        None => History::sessions(repo)?,
    };
    let mut costs = Costs::new(by);
    let mut unreadable = Vec::new();
    let mut unpriced = std::collections::BTreeSet::new();
    let mut add = |id: Option<&SessionId>, read: &AgentTurns| {
        let mut spent = crate::budget::Spent::default();
        for (at, turn) in &read.turns {
            costs.add(id, read.task.as_ref(), *at, turn);
            spent.add(*at, turn);
        }
        unpriced.extend(spent.unpriced);
    };
    for id in ids {
        match read(repo, &id) {
            Ok(Some(read)) => add(Some(&id), &read),
            // One that was removed while we looked was never there.
            Ok(None) => {}
            Err(error) if session.is_some() => return Err(error),
            Err(error) => unreadable.push((id, error)),
        }
    }
    if session.is_none()
        && let Some(tip) = repo.reference(PLANNING)?
    {
        add(None, &AgentTurns::read(repo, tip, None, None)?);
    }
    Ok(CostsRead { costs, unpriced: unpriced.into_iter().collect(), unreadable })
}

fn read(repo: &Repo, id: &SessionId) -> Result<Option<AgentTurns>, Error> {
    let tip = repo.reference(&context_ref(id, &ContextId::main()))?;
    tip.map(|tip| AgentTurns::read(repo, tip, None, None)).transpose()
}
