//! The cost of sessions.

use git::Repo;
use git::record::{AgentTurns, Error, History, PLANNING, context_ref, contexts};
use pleach_core::budget::{By, Costs};
use pleach_core::ids::{RunId, SessionId};

/// The cost of sessions and planners, and the unreadable records.
#[derive(Debug)]
pub struct CostsRead {
    /// The cost of all readable records.
    pub costs: Costs,
    /// The models without a price.
    pub unpriced: Vec<String>,
    /// The sessions with an unreadable record and the cause; `None` for the record of planners.
    pub unreadable: Vec<(Option<SessionId>, Error)>,
}

/// The cost of a session, of one of its runs if that is given, or of all sessions and planners of a repository. Reads each
/// record once.
pub fn costs(repo: &Repo, session: Option<&SessionId>, run: Option<&RunId>, by: By) -> Result<CostsRead, Error> {
    let ids = match session {
        Some(id) => vec![id.clone()],
        None => History::sessions(repo)?,
    };
    let mut costs = Costs::new(by);
    let mut unreadable = Vec::new();
    let mut unpriced = std::collections::BTreeSet::new();
    let mut add = |id: Option<&SessionId>, read: &AgentTurns| {
        let mut spent = pleach_core::budget::Spent::default();
        for (at, turn) in &read.turns {
            costs.add(id, read.task.as_ref(), *at, turn);
            spent.add(*at, turn);
        }
        unpriced.extend(spent.unpriced);
    };
    for id in ids {
        let own = contexts(repo, &id)?.into_iter().filter(|context| run.is_none_or(|run| run.has(context)));
        let chains = own.map(|context| read(repo, &context_ref(&id, &context)));
        match chains.collect::<Result<Vec<_>, _>>() {
            // A session removed while we read counts as never having existed.
            Ok(chains) => chains.iter().flatten().for_each(|read| add(Some(&id), read)),
            Err(error) if session.is_some() => return Err(error),
            Err(error) => unreadable.push((Some(id), error)),
        }
    }
    if session.is_none() {
        match read(repo, PLANNING) {
            Ok(read) => read.iter().for_each(|read| add(None, read)),
            Err(error) => unreadable.push((None, error)),
        }
    }
    Ok(CostsRead { costs, unpriced: unpriced.into_iter().collect(), unreadable })
}

fn read(repo: &Repo, chain: &str) -> Result<Option<AgentTurns>, Error> {
    let tip = repo.refs().find(chain)?;
    tip.map(|tip| AgentTurns::read(repo, tip, None, None)).transpose()
}
