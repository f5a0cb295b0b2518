//! Reads what a mirror has of a session: to compare it with the records here, and to make them again where there are none.

use std::collections::{BTreeMap, BTreeSet};

use super::connection::Connection;
use super::contexts::{self, MirroredContext};
use super::error::MirrorError;
use super::frame::{Hash, LastTurn, MirrorRequest, Reply};
use super::http;
use super::payload::{EventPlace, Payload, decode};
use super::report::Verified;
use git::record::{StoredRecord, chain_records, context_ref, run_contexts};
use git::{RefUpdate, Repo};
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{CommitId, ContextId, RunId, SessionId};

/// How many payloads are asked for together.
const TOGETHER: usize = 512;

/// What was read of contexts.
#[derive(Debug, Default)]
struct ReadBack {
    /// Every turn that was read, once.
    payloads: BTreeMap<Hash, Payload>,
    /// The turn of every event.
    events: BTreeMap<EventPlace, Hash>,
}

impl ReadBack {
    /// Reads the turns of a context that were not read before. Returns how many events are in it more than once.
    async fn read(&mut self, connection: &mut Connection, turns: &[LastTurn]) -> Result<u64, MirrorError> {
        let is_new = |turn: &&LastTurn| !self.payloads.contains_key(&turn.hash);
        let new: Vec<&LastTurn> = turns.iter().filter(is_new).collect();
        for some in new.chunks(TOGETHER) {
            let names: Vec<Hash> = some.iter().map(|turn| turn.hash).collect();
            let texts = connection.blobs(&names).await?;
            for (turn, text) in some.iter().zip(texts) {
                let Some(mut payload) = Payload::read(&turn.type_id, turn.version, &text) else { continue };
                let apart = payload.blobs();
                if !apart.is_empty() {
                    let found = connection.blobs(&apart).await?;
                    payload.fill_in(&apart.into_iter().zip(found).collect());
                }
                self.payloads.insert(turn.hash, payload);
            }
        }
        let (mut seen, mut repeated) = (BTreeSet::new(), 0);
        for turn in turns {
            let Some(payload) = self.payloads.get(&turn.hash) else { continue };
            repeated += u64::from(!seen.insert(payload.place));
            self.events.insert(payload.place, turn.hash);
        }
        Ok(repeated)
    }

    /// A record, if all its events were read and come to one.
    fn record(&self, id: CommitId) -> Option<StoredRecord> {
        let first = EventPlace { record: id, number: 1 };
        let last = EventPlace { record: id, number: usize::MAX };
        let payloads = self.events.range(first..=last).map(|(_, hash)| self.payloads.get(hash));
        decode(&payloads.collect::<Option<Vec<_>>>()?)
    }

    /// The records of which something was read.
    fn ids(&self) -> BTreeSet<CommitId> {
        self.events.keys().map(|place| place.record).collect()
    }
}

/// The turns of a context; none if the server does not know it.
async fn turns_of(
    address: &MirrorAddress,
    connection: &mut Connection,
    context: u64,
) -> Result<Vec<LastTurn>, MirrorError> {
    let head = match connection.ask(&MirrorRequest::Head { context }).await {
        Err(MirrorError::Closed) => {
            *connection = Connection::open(address).await?;
            return Ok(Vec::new());
        }
        head => head?,
    };
    let Reply::Head(head) = head else { return Ok(Vec::new()) };
    let limit = head.depth.saturating_add(1);
    match connection.ask(&MirrorRequest::Last { context, limit, payloads: false }).await? {
        Reply::Last(turns) => Ok(turns),
        _ => Ok(Vec::new()),
    }
}

/// Compares the records of a run with what a mirror has, object by object.
pub async fn verify(repo: &Repo, run: &RunId, address: &MirrorAddress) -> Result<Verified, MirrorError> {
    let mut connection = Connection::open(address).await?;
    let mut read = ReadBack::default();
    let mut verified = Verified::default();
    for context in run_contexts(repo, run)? {
        if let Some(MirroredContext { context, .. }) = contexts::read(repo, address, &run.session, &context)? {
            let turns = turns_of(address, &mut connection, context).await?;
            verified.repeated += read.read(&mut connection, &turns).await?;
        }
    }
    let (repo, run) = (repo.clone(), run.clone());
    let compared = tokio::task::spawn_blocking(move || compare(&repo, &run, &read, verified));
    compared.await.expect("comparing does not panic")
}

fn compare(repo: &Repo, run: &RunId, read: &ReadBack, mut verified: Verified) -> Result<Verified, MirrorError> {
    let there = read.ids();
    for context in run_contexts(repo, run)? {
        let Some(tip) = repo.refs().find(&context_ref(&run.session, &context))? else { continue };
        for record in chain_records(repo, &run.session, tip) {
            let record = record?;
            if record.context != context {
                break;
            }
            verified.records += 1;
            let is_same = |made: StoredRecord| made.write(&mut repo.writer());
            if !there.contains(&record.record) {
                verified.missing.push(record.record);
            } else if !read.record(record.record).map_or(Ok(false), is_same)? {
                verified.different.push(record.record);
            }
        }
    }
    Ok(verified)
}

/// A session a mirror has, with all its runs: what of it can be made again here.
#[derive(Debug)]
pub struct MirroredSession {
    session: SessionId,
    /// The records that come to their ids.
    records: BTreeMap<CommitId, StoredRecord>,
    newest: BTreeMap<ContextId, NewestContext>,
    address: MirrorAddress,
}

/// What the newest context of a name is called at the mirror, and its records, newest first.
#[derive(Debug)]
struct NewestContext {
    context: u64,
    records: Vec<CommitId>,
}

/// The newest records of a session that can be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredTips {
    tips: BTreeMap<ContextId, CommitId>,
    /// How many records there are up to them.
    pub records: usize,
    /// How many records are left out, because commits they speak of are not in the repository.
    pub left: usize,
    /// One of these commits.
    pub lacks: Option<CommitId>,
}

impl MirroredTips {
    /// Whether nothing can be made again.
    pub fn is_empty(&self) -> bool {
        self.tips.is_empty()
    }
}

/// Finds a session at a mirror by its id. None if the mirror has none. What the server says is believed as far as it comes to
/// the ids of records.
pub async fn find_session(
    repo: &Repo,
    address: &MirrorAddress,
    session: &SessionId,
) -> Result<Option<MirroredSession>, MirrorError> {
    let mut connection = Connection::open(address).await?;
    let mut read = ReadBack::default();
    // Of contexts with one name the newest counts: the others were left.
    let mut newest: BTreeMap<ContextId, (u64, NewestContext)> = BTreeMap::new();
    for found in http::contexts_of(address, session).await? {
        let turns = turns_of(address, &mut connection, found).await?;
        read.read(&mut connection, &turns).await?;
        let own = turns.iter().rev().filter_map(|turn| Some((turn.turn, read.payloads.get(&turn.hash)?)));
        let own: Vec<(u64, &Payload)> = own.collect();
        let Some((turn, Payload { context, .. })) = own.first().copied() else { continue };
        let mut records: Vec<CommitId> = own.iter().map(|(_, payload)| payload.place.record).collect();
        records.dedup();
        if newest.get(context).is_none_or(|(known, _)| *known < turn) {
            newest.insert(context.clone(), (turn, NewestContext { context: found, records }));
        }
    }
    let (repo, wanted) = (repo.clone(), session.clone());
    let sound = tokio::task::spawn_blocking(move || {
        let mut records = BTreeMap::new();
        for record in read.ids().into_iter().filter_map(|id| read.record(id)) {
            if record.session().as_ref() == Some(&wanted) && record.write(&mut repo.writer())? {
                records.insert(record.id, record);
            }
        }
        Ok::<_, git::Error>(records)
    });
    let records = sound.await.expect("writing objects does not panic")?;
    let newest = newest.into_iter().map(|(context, (_, newest))| (context, newest)).collect();
    let (session, address) = (session.clone(), address.clone());
    Ok((!records.is_empty()).then_some(MirroredSession { session, records, newest, address }))
}

impl MirroredSession {
    /// The newest record of each context that comes with all before it, and with the work they speak of.
    pub fn tips(&self, repo: &Repo) -> MirroredTips {
        let mut is_whole: BTreeMap<CommitId, bool> = BTreeMap::new();
        let mut lacks = None;
        let mut is_here = |commit: &CommitId| {
            let is_here = repo.commit(*commit).is_ok();
            lacks = lacks.or(Some(*commit).filter(|_| !is_here));
            is_here
        };
        for id in self.records.keys() {
            // Back to the first record, or to one that is known. Ids are hashes of what leads back, so this comes to an end.
            let (mut way, mut whole) = (Vec::new(), false);
            let mut next = Some(*id);
            while let Some(record) = next.and_then(|id| self.records.get(&id)) {
                if let Some(known) = is_whole.get(&record.id) {
                    whole = *known;
                    break;
                }
                way.push(record);
                whole = record.is_first();
                next = if whole { None } else { record.parents().first().copied() };
            }
            for record in way.into_iter().rev() {
                let before = usize::from(!record.is_first());
                whole = whole && record.parents().iter().skip(before).all(&mut is_here);
                is_whole.insert(record.id, whole);
            }
        }
        let whole = |id: &CommitId| is_whole.get(id).copied().unwrap_or_default();
        let is_of = |id: &CommitId, context: &ContextId| {
            self.records.get(id).and_then(StoredRecord::context).as_ref() == Some(context)
        };
        let tip = |(context, newest): (&ContextId, &NewestContext)| {
            let tip = newest.records.iter().copied().find(|id| whole(id) && is_of(id, context))?;
            Some((context.clone(), tip))
        };
        let tips: BTreeMap<ContextId, CommitId> = self.newest.iter().filter_map(tip).collect();
        let left = is_whole.values().filter(|whole| !**whole).count();
        MirroredTips { tips, records: is_whole.len() - left, left, lacks }
    }

    /// Makes its records again, each with the id it had, and its refs when all of them are there.
    pub fn write(&self, repo: &Repo, tips: &MirroredTips) -> Result<(), MirrorError> {
        let mut written = BTreeSet::new();
        let mut writer = repo.writer();
        for tip in tips.tips.values() {
            let mut next = Some(*tip);
            while let Some(record) =
                next.and_then(|id| self.records.get(&id)).filter(|record| written.insert(record.id))
            {
                if !record.write(&mut writer)? {
                    let why = "what the mirror has of it comes to another one".to_owned();
                    return Err(MirrorError::Record { record: record.id, why });
                }
                next = record.parents().first().copied();
            }
        }
        writer.flush()?;
        let made = tips.tips.iter().map(|(context, tip)| RefUpdate {
            name: context_ref(&self.session, context),
            old: None,
            new: Some(*tip),
        });
        repo.refs().swap_all(&made.collect::<Vec<_>>(), "pleach: brought from a mirror").map_err(git::Error::from)?;
        for (context, newest) in self.newest.iter().filter(|(context, _)| tips.tips.contains_key(*context)) {
            // Another machine may go on there, so this one goes on in a fork.
            contexts::write(repo, &self.address, &self.session, context, newest.context, true)?;
        }
        Ok(())
    }
}
