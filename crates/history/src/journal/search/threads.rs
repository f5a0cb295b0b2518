//! All cores look at once, each at the next few records; what they find is told in the order of the records.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use git::Repo;
use git::record::{self, ChainTip, ChainWalk, RecordCommit, chain_tips};
use jiff::Timestamp;
use pleach_core::ids::SessionId;

use super::scan::hits;
use super::{SearchFilter, SearchHit, SearchPattern};

/// So many records are looked at in a row.
const AT_ONCE: usize = 16;

/// A session that cannot be read on. Others can.
#[derive(Debug, thiserror::Error)]
#[error("session {session} is left out from here on")]
pub struct SearchError {
    session: SessionId,
    source: Box<record::Error>,
}

/// The records that are to be looked at, newest run first, and in a run the newest record of each context first.
struct RecordsToRead {
    repo: Repo,
    chains: std::vec::IntoIter<ChainTip>,
    /// The chain that is walked.
    walk: Option<(ChainTip, ChainWalk)>,
    since: Option<Timestamp>,
    number: usize,
}

/// Some records of a chain.
struct FewRecords {
    number: usize,
    chain: ChainTip,
    records: Vec<RecordCommit>,
    /// Why there are no more.
    error: Option<record::Error>,
}

/// Looks through the messages of all runs. What is found is told as soon as nothing before it can be found any more, until
/// the listener has enough.
pub fn search(
    repo: &Repo,
    pattern: &SearchPattern,
    filter: &SearchFilter,
    mut found: impl FnMut(Result<SearchHit, SearchError>) -> ControlFlow<()>,
) -> Result<(), git::Error> {
    let chains = chains(repo, filter)?.into_iter();
    let jobs = Mutex::new(RecordsToRead { repo: repo.clone(), chains, walk: None, since: filter.since, number: 0 });
    let is_enough = AtomicBool::new(false);
    let (sender, done) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (jobs, is_enough, sender) = (&jobs, &is_enough, sender.clone());
            scope.spawn(move || {
                while !is_enough.load(Ordering::Relaxed) {
                    let Some(job) = jobs.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
                    let number = job.number;
                    if sender.send((number, work(repo, job, pattern, filter))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        for (number, results) in done {
            waiting.insert(number, results);
            while let Some(results) = waiting.remove(&next) {
                next += 1;
                if results.into_iter().any(|result| found(result).is_break()) {
                    is_enough.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
    Ok(())
}

fn work(
    repo: &Repo,
    job: FewRecords,
    pattern: &SearchPattern,
    filter: &SearchFilter,
) -> Vec<Result<SearchHit, SearchError>> {
    let FewRecords { chain, records, error, .. } = job;
    let unreadable = |source: record::Error| SearchError { session: chain.session.clone(), source: source.into() };
    let mut results = Vec::new();
    for record in &records {
        match hits(repo, &chain, record, (pattern, filter)) {
            Ok(hits) => results.extend(hits.into_iter().map(Ok)),
            Err(error) => results.push(Err(unreadable(error))),
        }
    }
    results.extend(error.map(|error| Err(unreadable(error))));
    results
}

/// The chains that are wanted, those of the newest run first.
fn chains(repo: &Repo, filter: &SearchFilter) -> Result<Vec<ChainTip>, git::Error> {
    let mut sessions: BTreeMap<SessionId, (Timestamp, Vec<ChainTip>)> = BTreeMap::new();
    for chain in chain_tips(repo)?.into_iter().filter(|chain| filter.run.as_ref().is_none_or(|run| run.has(chain))) {
        let of_session = sessions.entry(chain.session.clone()).or_insert_with(|| (Timestamp::MIN, Vec::new()));
        // One that cannot be read says so when it is walked.
        if let Some(Ok(newest)) = ChainWalk::new(repo, chain.clone()).next() {
            if filter.task.is_some() && newest.task != filter.task
                || filter.since.is_some_and(|since| newest.at < since)
            {
                continue;
            }
            of_session.0 = of_session.0.max(newest.at);
        }
        of_session.1.push(chain);
    }
    let mut sessions: Vec<(Timestamp, Vec<ChainTip>)> = sessions.into_values().collect();
    sessions.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
    let in_order = |(_, mut chains): (_, Vec<ChainTip>)| {
        chains.sort_by_key(|chain| !chain.context.is_root());
        chains
    };
    Ok(sessions.into_iter().flat_map(in_order).collect())
}

impl Iterator for RecordsToRead {
    type Item = FewRecords;

    fn next(&mut self) -> Option<FewRecords> {
        loop {
            if self.walk.is_none() {
                let chain = self.chains.next()?;
                self.walk = Some((chain.clone(), ChainWalk::new(&self.repo, chain)));
            }
            let (chain, walk) = self.walk.as_mut()?;
            let (mut records, mut error) = (Vec::new(), None);
            while records.len() < AT_ONCE {
                match walk.next() {
                    Some(Ok(record)) if self.since.is_none_or(|since| record.at >= since) => records.push(record),
                    Some(Err(found)) => error = Some(found),
                    Some(Ok(_)) | None => break,
                }
            }
            let job = FewRecords { number: self.number, chain: chain.clone(), error, records };
            if job.records.len() < AT_ONCE {
                self.walk = None;
            }
            if !job.records.is_empty() || job.error.is_some() {
                self.number += 1;
                return Some(job);
            }
        }
    }
}
