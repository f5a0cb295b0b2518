//! What git has for a mirror: the records of a context in order, and their turns.

use super::error::MirrorError;
use super::frame::{Hash, MirrorTurn};
use super::payload::{EncodedRecord, EventPlace, encode};
use git::Repo;
use git::record::{ChainRecord, StoredRecord, chain_records, chain_tips, context_ref};
use pleach_core::ids::{CommitId, ContextId, RunId};

/// What a mirror lacks of a chain.
#[derive(Debug)]
pub(super) enum Missing {
    Nothing,
    /// The records from the one it stands in, of which it lacks some events, or after it.
    After(Vec<ChainRecord>),
    /// All of it: where the mirror stands is not in this chain.
    All(Vec<ChainRecord>),
}

impl Missing {
    /// How many of them are of a context itself.
    pub fn own(&self, context: &ContextId) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::After(records) | Self::All(records) => {
                records.iter().filter(|record| record.context == *context).count() as u64
            }
        }
    }
}

fn tip(repo: &Repo, run: &RunId, context: &ContextId) -> Result<Option<CommitId>, git::Error> {
    repo.refs().find(&context_ref(&run.session, context))
}

/// The records of a context after an event, oldest first, or all with those before the fork.
pub(super) fn missing(
    repo: &Repo,
    run: &RunId,
    context: &ContextId,
    at: Option<EventPlace>,
) -> Result<Missing, MirrorError> {
    let Some(tip) = tip(repo, run, context)? else { return Ok(Missing::Nothing) };
    let mut chain = Vec::new();
    for record in chain_records(repo, &run.session, tip) {
        let record = record?;
        let Some(at) = at.filter(|at| at.record == record.record) else {
            chain.push(record);
            continue;
        };
        let of = match record.events {
            Some(events) => events,
            None => encoded(repo, &record)?.turns.len(),
        };
        // Beyond that, the mirror has gone on where this chain was forked.
        let is_there = at.number <= of;
        if at.number != of {
            chain.push(record);
        }
        if is_there {
            chain.reverse();
            return Ok(if chain.is_empty() { Missing::Nothing } else { Missing::After(chain) });
        }
    }
    chain.reverse();
    Ok(Missing::All(chain))
}

/// The hashes of the events up to one of a chain, newest first, so many at most. None if it is not in the chain.
pub(super) fn tail(
    repo: &Repo,
    run: &RunId,
    context: &ContextId,
    at: EventPlace,
    most: usize,
) -> Result<Option<Vec<Hash>>, MirrorError> {
    let Some(tip) = tip(repo, run, context)? else { return Ok(None) };
    let mut tail = None::<Vec<Hash>>;
    for record in chain_records(repo, &run.session, tip) {
        let record = record?;
        if tail.is_none() && record.record != at.record {
            continue;
        }
        let turns = encoded(repo, &record)?.turns;
        let last = if record.record == at.record { at.number } else { record.events.unwrap_or(turns.len()) };
        let found = tail.get_or_insert_default();
        found.extend(turns.iter().take(last).rev().map(MirrorTurn::hash));
        if found.len() >= most {
            found.truncate(most);
            break;
        }
    }
    Ok(tail)
}

/// The turns of a record.
pub(super) fn encoded(repo: &Repo, record: &ChainRecord) -> Result<EncodedRecord, MirrorError> {
    encode(StoredRecord::read(repo, record.record)?, &record.context)
}

/// The runs of a repository with the newest records, newest first.
pub fn newest_runs(repo: &Repo, most: usize) -> Result<Vec<RunId>, git::Error> {
    let tips = chain_tips(repo)?.into_iter();
    // One that cannot be read is said elsewhere.
    let mut tips: Vec<_> = tips.filter_map(|chain| Some((repo.commit(chain.tip).ok()?.at, chain))).collect();
    tips.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut runs = Vec::new();
    for (_, chain) in tips {
        let run = RunId::of_context(&chain.session, &chain.context);
        if runs.len() < most && !runs.contains(&run) {
            runs.push(run);
        }
    }
    Ok(runs)
}
