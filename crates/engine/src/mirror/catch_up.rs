//! Brings contexts at a mirror up to their records.
//!
//! Where a context at the mirror ends, its own head says, by the event it holds: nothing else is kept of it. A head that is no
//! event of this chain means that the mirror has lost it, or was never told, and it is begun anew. Where something that was not
//! acknowledged may still be worked, or somebody else has written, it goes on in a fork from the last turn that was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use super::bundle::TurnType;
use super::chain::{Missing, encoded, missing, tail};
use super::connection::Connection;
use super::contexts::{self, MirroredContext};
use super::error::MirrorError;
use super::frame::{Hash, LastTurn, MirrorHead, MirrorRequest, MirrorTurn, Reply};
use super::http::put_types;
use super::payload::{EncodedRecord, EventPlace};
use super::report::CaughtUp;
use git::Repo;
use git::record::{ChainRecord, run_contexts};
use git::workspace::Lock;
use os::deadline::within;
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{ContextId, RunId};

/// How many of the newest turns a run compares before it adds anything: more than are ever sent together.
const TAIL: u32 = 300;

/// Records that are read and written together.
const BATCH: usize = 64;

/// How long the types of turns may take when all else is done.
const TYPES: Duration = Duration::from_millis(500);

/// A turn, and the event it holds; none in a context without turns.
#[derive(Debug, Clone, Copy)]
struct Stand {
    head: MirrorHead,
    at: Option<EventPlace>,
}

/// The contexts of a run at a mirror, and who writes them: one at a time.
#[derive(Debug)]
pub(super) struct RunMirror {
    repo: Repo,
    run: RunId,
    address: MirrorAddress,
    connection: Option<Connection>,
    /// How many of the newest turns are compared before anything is added.
    compared: u32,
    /// Where contexts end, all of which is acknowledged.
    stands: BTreeMap<ContextId, Stand>,
    /// Contexts with appends that were not acknowledged: the last turn that was.
    doubtful: BTreeMap<ContextId, Option<Stand>>,
    /// Contexts that are noted as being written.
    opened: BTreeSet<ContextId>,
    /// The server is told the types of turns, once for each connection.
    types: Option<JoinHandle<Result<(), MirrorError>>>,
    /// Nobody else writes these contexts.
    lock: Option<Lock>,
}

impl RunMirror {
    pub fn new(repo: Repo, run: RunId, address: MirrorAddress) -> Self {
        Self {
            repo,
            run,
            address,
            connection: None,
            compared: TAIL,
            stands: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            opened: BTreeSet::new(),
            types: None,
            lock: None,
        }
    }

    /// The same, and every turn is compared before anything is added.
    pub fn comparing_all(self) -> Self {
        Self { compared: u32::MAX, ..self }
    }

    /// The same, over a connection of another run.
    pub fn over(self, connection: Option<Connection>) -> Self {
        Self { connection, ..self }
    }

    pub fn take_connection(&mut self) -> Option<Connection> {
        self.connection.take()
    }

    /// Brings contexts up to their records. `copied` hears how many records were, batch by batch.
    pub async fn catch_up(
        &mut self,
        wanted: &BTreeSet<ContextId>,
        copied: &mut (dyn FnMut(CaughtUp) + Send),
    ) -> Result<(), MirrorError> {
        if self.lock.is_none() {
            let locked = self.blocking(self.run.clone(), |repo, run| Ok(contexts::lock(repo, &run)?)).await?;
            self.lock = Some(locked);
        }
        let mut done = BTreeSet::new();
        for context in wanted {
            let caught_up = self.catch_up_one(context, &mut done, copied).await;
            if caught_up.is_err() {
                // What is asked next would be answered with what was asked before.
                self.connection = None;
            }
            caught_up?;
        }
        Ok(())
    }

    /// Lets others write these contexts.
    pub async fn close(&mut self) {
        let opened = std::mem::take(&mut self.opened);
        for context in opened {
            if let Some(stand) = self.stands.get(&context).copied().filter(|_| !self.doubtful.contains_key(&context)) {
                // One that stays open goes on in a fork.
                let _ = self.note(&context, stand.head.context, false).await;
            }
        }
        // A lock that stays is no longer held, and goes with the session.
        let _ = self.lock.take().map(Lock::remove);
    }

    /// Why the server does not take the types of turns, if that is known by now, or soon where all else is done.
    pub async fn types_problem(&mut self, is_all_done: bool) -> Option<MirrorError> {
        let types = self.types.as_mut().filter(|types| is_all_done || types.is_finished())?;
        let told = within(TYPES, types).await;
        self.types = None;
        told?.ok()?.err()
    }

    async fn connection(&mut self) -> Result<&mut Connection, MirrorError> {
        if self.connection.is_none() {
            let connection = Connection::open(&self.address).await?;
            if self.lock.is_some() {
                // A server that does not take them has all turns, and nobody waits for it.
                let address = self.address.clone();
                self.types = Some(tokio::spawn(async move { put_types(&address).await }));
            }
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it was opened"))
    }

    /// Asks about a context or a turn. None if the server knows no such one, which it says by closing the connection: a
    /// connection may be closed for other reasons, so it is asked twice.
    async fn ask(&mut self, request: MirrorRequest) -> Result<Option<Reply>, MirrorError> {
        for _ in 0..2 {
            match self.connection().await?.ask(&request).await {
                Err(MirrorError::Closed) => self.connection = None,
                answered => return answered.map(Some),
            }
        }
        Ok(None)
    }

    async fn catch_up_one(
        &mut self,
        context: &ContextId,
        done: &mut BTreeSet<ContextId>,
        copied: &mut (dyn FnMut(CaughtUp) + Send),
    ) -> Result<(), MirrorError> {
        if !done.insert(context.clone()) {
            return Ok(());
        }
        let stand = self.stand(context).await?;
        let (mut chain, mut stand) = match self.missing(context, stand.and_then(|stand| stand.at)).await? {
            Missing::Nothing => return Ok(()),
            Missing::After(chain) => (chain, stand),
            Missing::All(chain) => (chain, None),
        };
        // A context that was forked goes on where the other one was then, if the mirror has that.
        if stand.is_none()
            && let Some(parent) = chain.iter().rev().find(|record| record.context != *context).cloned()
        {
            if self.run.has(&parent.context) {
                Box::pin(self.catch_up_one(&parent.context, done, copied)).await?;
            }
            stand = self.fork(context, &parent).await?;
            if stand.is_some() {
                chain.retain(|record| record.context == *context);
            }
        }
        let stand = match stand {
            Some(stand) => stand,
            None => match self.ask(MirrorRequest::Create { base: 0 }).await? {
                Some(Reply::Head(head)) => self.begin(context, Stand { head, at: None }).await?,
                _ => return Err(MirrorError::Closed),
            },
        };
        self.append(context, stand, chain, copied).await
    }

    /// Where a context goes on at the mirror; none if the mirror does not have it.
    async fn stand(&mut self, context: &ContextId) -> Result<Option<Stand>, MirrorError> {
        if let Some(stand) = self.stands.get(context).copied() {
            // Somebody else may have written, and the connection be gone without a word.
            let head = self.ask(MirrorRequest::Head { context: stand.head.context }).await?;
            if head == Some(Reply::Head(stand.head)) {
                return Ok(Some(stand));
            }
            self.stands.remove(context);
        }
        if let Some(acknowledged) = self.doubtful.get(context).copied() {
            return match acknowledged {
                Some(stand) => self.fork_at(context, stand).await,
                None => Ok(None),
            };
        }
        let Some(found) = self.find(context).await? else { return Ok(None) };
        if found.may_go_on {
            self.stands.insert(context.clone(), found.stand);
            return Ok(Some(found.stand));
        }
        self.fork_at(context, found.stand).await
    }

    /// Looks for the newest event of a context at the mirror.
    async fn find(&mut self, context: &ContextId) -> Result<Option<FoundStand>, MirrorError> {
        let Some(MirroredContext { context: mirrored, open, .. }) = self.known(context).await? else { return Ok(None) };
        let last = MirrorRequest::Last { context: mirrored, limit: self.compared, payloads: false };
        let Some(Reply::Last(mut turns)) = self.ask(last).await? else { return Ok(None) };
        // What others have added is left where it is.
        let is_own = |turn: &LastTurn| TurnType::read(&turn.type_id, turn.version).is_some();
        let Some(index) = turns.iter().rposition(is_own) else { return Ok(None) };
        let may_go_on = !open && index + 1 == turns.len();
        let are_all = turns.len() < self.compared as usize;
        turns.truncate(index + 1);
        let (turn, depth, hash) = (turns[index].turn, turns[index].depth, turns[index].hash);
        let Some(at) = self.place(hash).await? else { return Ok(None) };
        let head = MirrorHead { context: mirrored, turn, depth };
        let is_whole = self.is_whole(context, at, turns, are_all).await?;
        Ok(is_whole.then_some(FoundStand { stand: Stand { head, at: Some(at) }, may_go_on }))
    }

    /// The event of a turn by the name of its payload; none if the mirror has lost that.
    async fn place(&mut self, hash: Hash) -> Result<Option<EventPlace>, MirrorError> {
        for _ in 0..2 {
            match self.connection().await?.blobs(&[hash], usize::MAX).await {
                Err(MirrorError::Closed | MirrorError::Odd(_)) => self.connection = None,
                payloads => {
                    // Somebody else may have written it, and it may be large.
                    return self.blocking(payloads?, |_, payloads| Ok(EventPlace::read(&payloads.concat()))).await;
                }
            }
        }
        Ok(None)
    }

    /// Whether turns, oldest first, are those of a chain up to an event: a server may have taken some of what was sent
    /// together and refused others, and somebody else may have written in between.
    async fn is_whole(
        &self,
        context: &ContextId,
        at: EventPlace,
        turns: Vec<LastTurn>,
        are_all: bool,
    ) -> Result<bool, MirrorError> {
        let (run, named, most) = (self.run.clone(), context.clone(), self.compared as usize);
        self.blocking((run, named, turns), move |repo, (run, named, turns)| {
            let Some(tail) = tail(repo, &run, &named, at, most)? else { return Ok(false) };
            let there = turns.iter().rev().map(|turn| turn.hash);
            Ok(there.eq(tail.iter().take(turns.len()).copied()) && (!are_all || tail.len() == turns.len()))
        })
        .await
    }

    /// What a context is called at the mirror.
    async fn known(&self, context: &ContextId) -> Result<Option<MirroredContext>, MirrorError> {
        let input = (self.address.clone(), self.run.session.clone(), context.clone());
        let read = |repo: &Repo, (address, session, context)| contexts::read(repo, &address, &session, &context);
        self.blocking(input, read).await
    }

    /// A context that goes on from a turn, if the mirror still has that and it holds the same event.
    async fn fork_at(&mut self, context: &ContextId, stand: Stand) -> Result<Option<Stand>, MirrorError> {
        self.doubtful.remove(context);
        let forked = self.ask(MirrorRequest::Fork { base: stand.head.turn }).await?;
        let Some(Reply::Head(head)) = forked else { return Ok(None) };
        let last = MirrorRequest::Last { context: head.context, limit: self.compared, payloads: false };
        let Some(Reply::Last(turns)) = self.ask(last).await? else { return Ok(None) };
        let Some(at) = stand.at else { return Ok(None) };
        let are_all = turns.len() < self.compared as usize;
        if !self.is_whole(context, at, turns, are_all).await? {
            return Ok(None);
        }
        self.begin(context, Stand { head, at: stand.at }).await.map(Some)
    }

    /// A context of the mirror that is this one from now on.
    async fn begin(&mut self, context: &ContextId, stand: Stand) -> Result<Stand, MirrorError> {
        self.note(context, stand.head.context, true).await?;
        self.opened.insert(context.clone());
        self.doubtful.remove(context);
        self.stands.insert(context.clone(), stand);
        Ok(stand)
    }

    async fn note(&self, context: &ContextId, mirrored: u64, open: bool) -> Result<(), MirrorError> {
        let input = (self.address.clone(), self.run.session.clone(), context.clone());
        let write = move |repo: &Repo, (address, session, context)| {
            contexts::write(repo, &address, &session, &context, mirrored, open)
        };
        self.blocking(input, write).await
    }

    /// A context that goes on from the record another one was forked at, where the mirror has that.
    async fn fork(&mut self, context: &ContextId, parent: &ChainRecord) -> Result<Option<Stand>, MirrorError> {
        let Some(MirroredContext { context: mirrored, .. }) = self.known(&parent.context).await? else {
            return Ok(None);
        };
        let turns = self.blocking(parent.clone(), |repo, parent| encoded(repo, &parent)).await?.turns;
        let number = parent.events.unwrap_or(turns.len());
        let Some(wanted) = number.checked_sub(1).and_then(|index| turns.get(index)).map(MirrorTurn::hash) else {
            return Ok(None);
        };
        let Some(Reply::Head(head)) = self.ask(MirrorRequest::Head { context: mirrored }).await? else {
            return Ok(None);
        };
        let limit = head.depth.saturating_add(1);
        let all = self.ask(MirrorRequest::Last { context: mirrored, limit, payloads: false }).await?;
        let Some(Reply::Last(all)) = all else { return Ok(None) };
        let Some(turn) = all.into_iter().rfind(|turn| turn.hash == wanted) else { return Ok(None) };
        let head = MirrorHead { context: mirrored, turn: turn.turn, depth: turn.depth };
        self.fork_at(context, Stand { head, at: Some(EventPlace { record: parent.record, number }) }).await
    }

    async fn missing(&self, context: &ContextId, at: Option<EventPlace>) -> Result<Missing, MirrorError> {
        let (run, context) = (self.run.clone(), context.clone());
        self.blocking((run, context), move |repo, (run, context)| missing(repo, &run, &context, at)).await
    }

    async fn append(
        &mut self,
        context: &ContextId,
        mut stand: Stand,
        chain: Vec<ChainRecord>,
        copied: &mut (dyn FnMut(CaughtUp) + Send),
    ) -> Result<(), MirrorError> {
        if !self.opened.contains(context) {
            self.note(context, stand.head.context, true).await?;
            self.opened.insert(context.clone());
        }
        let mut batches = chain.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>().into_iter();
        let repo = self.repo.clone();
        let read = |batch: Vec<ChainRecord>| {
            let repo = repo.clone();
            spawn_blocking(move || read_batch(&repo, &batch))
        };
        let mut next = batches.next().map(read);
        while let Some(batch) = next.take() {
            let batch = batch.await.expect("reading does not panic")?;
            // The next one is read while this one is sent.
            next = batches.next().map(read);
            let records = batch.len() as u64;
            let (mut turns, mut places) = (Vec::new(), Vec::new());
            for (place, encoded) in batch {
                for bytes in encoded.blobs {
                    self.connection().await?.ask(&MirrorRequest::PutBlob { bytes }).await?;
                }
                // Of the record it stands in, some events may be there already.
                let known = stand.at.filter(|at| at.record == place.record).map_or(0, |at| at.number);
                let counting = place.events.unwrap_or(encoded.turns.len());
                for (index, turn) in encoded.turns.into_iter().enumerate().take(counting).skip(known) {
                    places.push(EventPlace { record: place.record, number: index + 1 });
                    turns.push(turn);
                }
            }
            // Until it is acknowledged, nobody knows what becomes of it.
            self.stands.remove(context);
            self.doubtful.insert(context.clone(), stand.at.map(|_| stand));
            let mut taken = 0;
            let appended = self.connection().await?.append(&mut stand.head, &turns, &mut taken).await;
            stand.at = taken.checked_sub(1).and_then(|last| places.get(last)).copied().or(stand.at);
            self.doubtful.insert(context.clone(), stand.at.map(|_| stand));
            appended?;
            self.doubtful.remove(context);
            self.stands.insert(context.clone(), stand);
            copied(CaughtUp { records, turns: turns.len() as u64 });
        }
        Ok(())
    }

    /// Reads or writes git, which takes its time.
    async fn blocking<I: Send + 'static, T: Send + 'static>(
        &self,
        input: I,
        work: impl FnOnce(&Repo, I) -> Result<T, MirrorError> + Send + 'static,
    ) -> Result<T, MirrorError> {
        let repo = self.repo.clone();
        spawn_blocking(move || work(&repo, input)).await.expect("reading and writing do not panic")
    }

    /// How many records of the run the mirror lacks.
    pub async fn behind(&mut self) -> Result<u64, MirrorError> {
        let mut behind = 0;
        // Also where nothing was ever copied: somebody wants to know whether it answers.
        self.connection().await?;
        for context in run_contexts(&self.repo, &self.run)? {
            let at = self.find(&context).await?.and_then(|found| found.stand.at);
            behind += self.missing(&context, at).await?.own(&context);
        }
        Ok(behind)
    }
}

/// Where a context ends at a mirror.
#[derive(Debug)]
struct FoundStand {
    stand: Stand,
    /// Nothing came after it, and nothing may.
    may_go_on: bool,
}

fn read_batch(repo: &Repo, batch: &[ChainRecord]) -> Result<Vec<(ChainRecord, EncodedRecord)>, MirrorError> {
    batch.iter().map(|record| Ok((record.clone(), encoded(repo, record)?))).collect()
}
