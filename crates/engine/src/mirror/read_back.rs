//! Reads what a mirror has of a session: to compare it with the records here, and to make them again where there are none.

use std::collections::{BTreeMap, BTreeSet};

use super::connection::Connection;
use super::contexts;
use super::error::MirrorError;
use super::frame::{Hash, LastTurn, MirrorRequest, Reply};
use super::http;
use super::payload::{EventPlace, Payload, decode};
use super::report::Verified;
use git::record::{chain_records, context_ref, run_contexts};
use git::{RefUpdate, Repo};
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{CommitId, ContextId, RunId, SessionId};

/// What is asked for together: so many payloads, of so many bytes.
const TOGETHER: (usize, usize) = (512, 32 << 20);

/// The longest payload that is read, and the most of texts that are kept apart from one.
const LONGEST: usize = 64 << 20;
const APART: usize = 1 << 30;

/// What was read of contexts. A record is made as soon as all its turns are there, and not kept.
#[derive(Debug)]
struct ReadBack {
    repo: Repo,
    /// The session whose records are written into the repository.
    writes: Option<SessionId>,
    /// Every turn of pleach's that was read, by the name of its payload.
    turns: BTreeMap<Hash, ReadTurn>,
    /// The records that come to their ids.
    made: BTreeMap<CommitId, MadeRecord>,
    /// Turns of others, by their place.
    open: BTreeMap<CommitId, BTreeMap<usize, Payload>>,
}

/// A turn that was read.
#[derive(Debug)]
struct ReadTurn {
    place: EventPlace,
    context: ContextId,
}

/// A record that could be made again.
#[derive(Debug)]
struct MadeRecord {
    context: Option<ContextId>,
    parents: Vec<CommitId>,
    is_first: bool,
}

impl ReadBack {
    fn new(repo: &Repo, writes: Option<SessionId>) -> Self {
        let (turns, made, open) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { repo: repo.clone(), writes, turns, made, open }
    }

    /// Reads the turns of a context that were not read before.
    async fn read(&mut self, connection: &mut Connection, turns: &[LastTurn]) -> Result<(), MirrorError> {
        let is_new = |turn: &&LastTurn| turn.length as usize <= LONGEST && !self.turns.contains_key(&turn.hash);
        let new: Vec<LastTurn> = turns.iter().filter(is_new).cloned().collect();
        let mut rest = new.as_slice();
        while let Some(first) = rest.first() {
            let mut bytes = first.length as usize;
            let more = rest.iter().skip(1).take(TOGETHER.0 - 1).take_while(|turn| {
                bytes += turn.length as usize;
                bytes <= TOGETHER.1
            });
            let (some, later) = rest.split_at(1 + more.count());
            self.read_some(connection, some).await?;
            rest = later;
        }
        Ok(())
    }

    async fn read_some(&mut self, connection: &mut Connection, turns: &[LastTurn]) -> Result<(), MirrorError> {
        let names: Vec<Hash> = turns.iter().map(|turn| turn.hash).collect();
        let texts = connection.blobs(&names, turns.iter().map(|turn| turn.length as usize).sum()).await?;
        let turns = turns.to_vec();
        let payloads = blocking(move || {
            let read = turns.into_iter().zip(texts);
            let read =
                read.filter_map(|(turn, text)| Some((turn.hash, Payload::read(&turn.type_id, turn.version, &text)?)));
            Ok(read.collect::<Vec<_>>())
        });
        for (hash, mut payload) in payloads.await? {
            let apart = payload.blobs();
            if !apart.is_empty() {
                let found = connection.blobs(&apart, APART).await?;
                payload.fill_in(&apart.into_iter().zip(found).collect());
            }
            let place = payload.place;
            self.turns.insert(hash, ReadTurn { place, context: payload.context.clone() });
            if !self.made.contains_key(&place.record) {
                self.open.entry(place.record).or_default().insert(place.number, payload);
            }
        }
        self.make_whole().await
    }

    /// Makes the records all of whose turns are there.
    async fn make_whole(&mut self) -> Result<(), MirrorError> {
        let is_whole = |turns: &BTreeMap<usize, Payload>| {
            turns.first_key_value().is_some_and(|(_, first)| first.of == turns.len())
        };
        let whole: Vec<CommitId> =
            self.open.iter().filter(|(_, turns)| is_whole(turns)).map(|(record, _)| *record).collect();
        let whole = whole.into_iter().filter_map(|record| self.open.remove(&record)).collect();
        let (repo, writes) = (self.repo.clone(), self.writes.clone());
        let (made, not) = blocking(move || make(&repo, writes.as_ref(), whole)).await?;
        self.made.extend(made);
        // Another context may have the right ones.
        self.open.extend(not);
        Ok(())
    }

    /// The events in a context, and how many are there more than once.
    fn events(&self, turns: &[LastTurn]) -> (BTreeSet<EventPlace>, u64) {
        let places: Vec<EventPlace> =
            turns.iter().filter_map(|turn| self.turns.get(&turn.hash)).map(|turn| turn.place).collect();
        let once: BTreeSet<EventPlace> = places.iter().copied().collect();
        let repeated = (places.len() - once.len()) as u64;
        (once, repeated)
    }
}

type OpenRecord = (CommitId, BTreeMap<usize, Payload>);
type MadeAndOpen = (Vec<(CommitId, MadeRecord)>, Vec<OpenRecord>);

/// Makes records of their turns. Those of a session are written into the repository. Returns those that are none, too.
fn make(
    repo: &Repo,
    writes: Option<&SessionId>,
    whole: Vec<BTreeMap<usize, Payload>>,
) -> Result<MadeAndOpen, MirrorError> {
    let (mut made, mut not, mut writer) = (Vec::new(), Vec::new(), repo.writer());
    for turns in whole {
        let record = decode(&turns.values().collect::<Vec<_>>());
        let is_sound = record.as_ref().map_or(Ok(false), |record| record.write(&mut repo.writer()))?;
        let Some(record) = record.filter(|_| is_sound) else {
            not.extend(turns.values().next().map(|first| first.place.record).map(|id| (id, turns)));
            continue;
        };
        if let Some(session) = writes {
            if record.session().as_ref() != Some(session) {
                continue;
            }
            record.write(&mut writer)?;
        }
        let (context, parents, is_first) = (record.context(), record.parents(), record.is_first());
        made.push((record.id, MadeRecord { context, parents, is_first }));
    }
    writer.flush()?;
    Ok((made, not))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MirrorError> + Send + 'static,
) -> Result<T, MirrorError> {
    tokio::task::spawn_blocking(work).await.expect("reading and making records do not panic")
}

/// The turns of a context; none if the server does not know it.
async fn turns_of(
    address: &MirrorAddress,
    connection: &mut Connection,
    context: u64,
) -> Result<Vec<LastTurn>, MirrorError> {
    let mut head = connection.ask(&MirrorRequest::Head { context }).await;
    if matches!(head, Err(MirrorError::Closed)) {
        // So it says that it knows none, or the connection was gone.
        *connection = Connection::open(address).await?;
        head = connection.ask(&MirrorRequest::Head { context }).await;
    }
    let head = match head {
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
    let mut read = ReadBack::new(repo, None);
    let mut there = BTreeMap::new();
    let mut verified = Verified::default();
    for context in run_contexts(repo, run)? {
        if let Some(known) = contexts::read(repo, address, &run.session, &context)? {
            let turns = turns_of(address, &mut connection, known.context).await?;
            read.read(&mut connection, &turns).await?;
            let (events, repeated) = read.events(&turns);
            verified.repeated += repeated;
            there.insert(context, events);
        }
    }
    let (repo, run) = (repo.clone(), run.clone());
    blocking(move || compare(&repo, &run, &read, &there, verified)).await
}

fn compare(
    repo: &Repo,
    run: &RunId,
    read: &ReadBack,
    there: &BTreeMap<ContextId, BTreeSet<EventPlace>>,
    mut verified: Verified,
) -> Result<Verified, MirrorError> {
    for context in run_contexts(repo, run)? {
        let Some(tip) = repo.refs().find(&context_ref(&run.session, &context))? else { continue };
        let events: BTreeSet<CommitId> = there.get(&context).into_iter().flatten().map(|place| place.record).collect();
        for record in chain_records(repo, &run.session, tip) {
            let record = record?;
            if record.context != context {
                break;
            }
            verified.records += 1;
            if !events.contains(&record.record) {
                verified.missing.push(record.record);
            } else if !read.made.contains_key(&record.record) {
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
    records: BTreeMap<CommitId, MadeRecord>,
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
    let mut read = ReadBack::new(repo, Some(session.clone()));
    // Of contexts with one name the newest counts: the others were left.
    let mut newest: BTreeMap<ContextId, (u64, NewestContext)> = BTreeMap::new();
    for found in http::contexts_of(address, session).await? {
        let turns = turns_of(address, &mut connection, found).await?;
        read.read(&mut connection, &turns).await?;
        let own = turns.iter().rev().filter_map(|turn| Some((turn.turn, read.turns.get(&turn.hash)?)));
        let own: Vec<(u64, &ReadTurn)> = own.collect();
        let Some((turn, ReadTurn { context, .. })) = own.first().copied() else { continue };
        let mut records: Vec<CommitId> = own.iter().map(|(_, turn)| turn.place.record).collect();
        records.dedup();
        if newest.get(context).is_none_or(|(known, _)| *known < turn) {
            newest.insert(context.clone(), (turn, NewestContext { context: found, records }));
        }
    }
    let newest = newest.into_iter().map(|(context, (_, newest))| (context, newest)).collect();
    let (session, address, records) = (session.clone(), address.clone(), read.made);
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
            while let Some((id, record)) = next.and_then(|id| Some((id, self.records.get(&id)?))) {
                if let Some(known) = is_whole.get(&id) {
                    whole = *known;
                    break;
                }
                way.push((id, record));
                whole = record.is_first;
                next = if whole { None } else { record.parents.first().copied() };
            }
            for (id, record) in way.into_iter().rev() {
                let before = usize::from(!record.is_first);
                whole = whole && record.parents.iter().skip(before).all(&mut is_here);
                is_whole.insert(id, whole);
            }
        }
        let whole = |id: &CommitId| is_whole.get(id).copied().unwrap_or_default();
        let is_of = |id: &CommitId, context: &ContextId| {
            self.records.get(id).and_then(|record| record.context.as_ref()) == Some(context)
        };
        let tip = |(context, newest): (&ContextId, &NewestContext)| {
            let tip = newest.records.iter().copied().find(|id| whole(id) && is_of(id, context))?;
            Some((context.clone(), tip))
        };
        let tips: BTreeMap<ContextId, CommitId> = self.newest.iter().filter_map(tip).collect();
        let left = is_whole.values().filter(|whole| !**whole).count();
        MirroredTips { tips, records: is_whole.len() - left, left, lacks }
    }

    /// Makes its refs: its records are in the repository.
    pub fn write(&self, repo: &Repo, tips: &MirroredTips) -> Result<(), MirrorError> {
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
