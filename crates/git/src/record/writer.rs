//! Appending to a chain of records.

use serde_json::Value;

use super::{
    CONTEXT_TRAILER, Error, LANDED_TRAILER, RECORD_TRAILER, RECORD_VERSION, SESSION_TRAILER, TASK_TRAILER, context_ref,
    message,
};
use crate::git::{self, BlobId, CommitSpec, EntryKind, Person, Repo, SwapError, TreeEdit, TreeId, Writer};
use pleach_core::event::{Event, Recorded};
use pleach_core::ids::{CommitId, ContextId, RepoPath, SessionId, TaskId};
use pleach_core::redact::Redactor;
use pleach_core::trailer::CommitMessage;

/// One transition of a session.
#[derive(Debug, Default)]
pub struct Batch {
    /// One line a person can read.
    pub summary: String,
    /// The events, in order.
    pub events: Vec<Recorded>,
    /// The messages that are new, numbered on from the last one.
    pub messages: Vec<Value>,
    /// The commits the events speak of, so that whatever keeps the record keeps them too.
    pub work: Vec<CommitId>,
    /// The folded state after the events, where it is worth keeping.
    pub state: Option<Value>,
    /// Files that belong to the events and are too large for them, by name. They are written already, without secrets:
    /// many sessions may have the same.
    pub files: Vec<(String, BlobId)>,
}

/// Where a chain of records ends.
#[derive(Debug, Clone)]
pub struct ChainEnd {
    /// The session's first record.
    pub first: CommitId,
    /// The first records of the replays it has come through.
    pub forks: Vec<CommitId>,
    pub tip: CommitId,
    /// The messages up to there.
    pub messages: u64,
}

/// The one writer of a chain of records. Holding one is what the session's lock is for.
#[derive(Debug)]
pub struct Recorder {
    repo: Repo,
    session: SessionId,
    context: ContextId,
    redactor: Redactor,
    /// The task of a tree the session works on.
    task: Option<TaskId>,
    tip: Option<CommitId>,
    /// The record of another context the chain goes on from.
    from: Option<CommitId>,
    /// The session's first record.
    first: Option<CommitId>,
    /// The first records of the replays it has come through.
    forks: Vec<CommitId>,
    messages: u64,
    /// The bytes of the events it has written.
    event_bytes: usize,
}

impl Recorder {
    /// A recorder for a chain that does not exist yet; the first append creates it.
    pub fn create(repo: Repo, session: SessionId, context: ContextId, redactor: Redactor) -> Self {
        let (task, forks) = (None, Vec::new());
        let (from, first, event_bytes) = (None, None, 0);
        Self { repo, session, context, redactor, task, tip: None, from, first, forks, messages: 0, event_bytes }
    }

    /// A recorder that goes on where a chain ends.
    pub fn resume(repo: Repo, session: SessionId, context: ContextId, redactor: Redactor, end: ChainEnd) -> Self {
        let ChainEnd { first, forks, tip, messages } = end;
        Self { tip: Some(tip), first: Some(first), forks, messages, ..Self::create(repo, session, context, redactor) }
    }

    /// A recorder for a context of a replay, whose chain goes on from the end of another part of one; the first append
    /// creates it. Messages are numbered on.
    pub fn replay(repo: Repo, session: SessionId, context: ContextId, redactor: Redactor, end: ChainEnd) -> Self {
        let from = Some(end.tip);
        Self { tip: None, from, ..Self::resume(repo, session, context, redactor, end) }
    }

    /// A recorder for another context of the session, whose chain goes on from a record of this one that has so many
    /// messages before it; the first append creates it. Messages are numbered on.
    pub fn fork(&self, context: ContextId, from: CommitId, messages: u64) -> Self {
        let Self { repo, session, redactor, task, .. } = self;
        Self {
            task: task.clone(),
            from: Some(from),
            first: self.first,
            forks: self.forks.clone(),
            messages,
            ..Self::create(repo.clone(), session.clone(), context, redactor.clone())
        }
    }

    /// Lets every record name the task its session works on, so that who looks for those need not read the others.
    pub fn on_task(self, task: Option<TaskId>) -> Self {
        Self { task, ..self }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The newest record.
    pub fn tip(&self) -> Option<CommitId> {
        self.tip
    }

    /// The bytes of the events it has written.
    pub fn event_bytes(&self) -> usize {
        self.event_bytes
    }

    /// The ref of the chain.
    pub fn reference(&self) -> String {
        context_ref(&self.session, &self.context)
    }

    /// The number the next message will get.
    pub fn next_message(&self) -> u64 {
        self.messages + 1
    }

    /// Writes a batch, together with the objects `writer` holds already, and swaps the ref. When this returns, all of
    /// it is on disk.
    pub fn append(&mut self, mut writer: Writer, batch: &Batch) -> Result<CommitId, Error> {
        let at = batch.events.last().map(|event| event.at).unwrap_or_else(pleach_core::clock::now);
        let (tree, event_bytes) = self.tree(&mut writer, batch)?;
        let before = self.tip.or(self.from);
        let parents = before.into_iter().chain(batch.work.iter().copied()).collect();
        let message = CommitMessage {
            subject: self.redactor.text(&batch.summary).into_owned(),
            body: String::new(),
            trailers: [
                (RECORD_TRAILER, RECORD_VERSION.to_string()),
                (SESSION_TRAILER, self.session.to_string()),
                (CONTEXT_TRAILER, self.context.to_string()),
            ]
            .into_iter()
            .chain(self.task.iter().map(|task| (TASK_TRAILER, task.to_string())))
            .chain(landed(batch).map(|commit| (LANDED_TRAILER, commit.to_string())))
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        };
        let commit = writer.commit(&CommitSpec {
            tree,
            parents,
            author: Person::pleach(),
            committer: Person::pleach(),
            at,
            message: message.write().into_bytes(),
        })?;
        writer.flush()?;
        self.repo
            .refs()
            .swap(&self.reference(), self.tip, commit, "pleach: record")
            .map_err(|error| self.refused(error))?;
        self.first = self.first.or(Some(commit));
        let begins = |event: &Recorded| matches!(&event.event, Event::ContextForked(fork) if fork.is_run());
        if self.tip.is_none() && batch.events.first().is_some_and(begins) {
            self.forks.push(commit);
        }
        self.tip = Some(commit);
        self.messages += batch.messages.len() as u64;
        self.event_bytes += event_bytes;
        git::pack::pack_if_large(&self.repo);
        Ok(commit)
    }

    /// Puts the ref back where this recorder left it, when somebody moved or removed it who is no recorder: what they
    /// put there is kept. None when nothing was wrong, otherwise the name it is kept under, if there was anything.
    /// A ref that went on from here was moved by another writer, which is an error.
    pub fn repair_ref(&mut self) -> Result<Option<Option<String>>, Error> {
        let name = self.reference();
        let actual = self.repo.refs().find(&name)?;
        let Some(tip) = self.tip.filter(|_| actual != self.tip) else { return Ok(None) };
        let kept = match actual {
            Some(at) if self.repo.history().is_ancestor(tip, at)? => {
                return Err(Error::Moved { session: self.session.clone() });
            }
            Some(at) => Some(self.keep(at)?),
            None => None,
        };
        self.repo.refs().swap(&name, actual, tip, "pleach: put back").map_err(|error| self.refused(error))?;
        Ok(Some(kept))
    }

    fn keep(&self, commit: CommitId) -> Result<String, Error> {
        let taken = self.repo.refs().list(&format!("refs/pleach/keep/{}-", self.session))?.len();
        let name = format!("refs/pleach/keep/{}-{}", self.session, taken + 1);
        self.repo.refs().swap(&name, None, commit, "pleach: keep").map_err(|error| self.refused(error))?;
        Ok(name)
    }

    /// An event as it is written, without secrets.
    fn event_text(&self, event: &Recorded) -> String {
        event.without_secrets(&self.redactor).map_or_else(|| event.to_text(), |clean| clean.to_string())
    }

    /// The tree of a batch, and the bytes of its events.
    fn tree(&self, writer: &mut Writer, batch: &Batch) -> Result<(TreeId, usize), Error> {
        let mut edits = Vec::new();
        let mut put = |writer: &mut Writer, path: &str, bytes: &[u8]| -> Result<(), Error> {
            edits.push(TreeEdit::Put(RepoPath::from(path), EntryKind::File, writer.blob(bytes)?));
            Ok(())
        };
        let events: Vec<String> = batch.events.iter().map(|event| self.event_text(event)).collect();
        let text = format!("[{}]", events.join(","));
        put(writer, "events.json", text.as_bytes())?;
        for (number, message) in (self.next_message()..).zip(&batch.messages) {
            let mut message = message.clone();
            self.redactor.json_text(&mut message, &message::part);
            for (path, text) in message::split(number, &mut message) {
                put(writer, &path, text.as_bytes())?;
            }
            put(writer, &message::path(number), message.to_string().as_bytes())?;
        }
        if let (Some(state), Some(first)) = (&batch.state, self.first) {
            // It follows from events without secrets.
            let cache =
                serde_json::json!({"version": RECORD_VERSION, "first": first, "forks": self.forks, "state": state});
            put(writer, "state.json", cache.to_string().as_bytes())?;
        }
        let files = batch.files.iter().map(|(name, id)| (RepoPath::from(name.as_str()), *id));
        edits.extend(files.map(|(path, id)| TreeEdit::Put(path, EntryKind::File, id)));
        Ok((writer.tree(None, &edits)?, text.len()))
    }

    fn refused(&self, error: SwapError) -> Error {
        match error {
            SwapError::Stale { .. } if self.tip.is_none() => Error::Exists { session: self.session.clone() },
            SwapError::Stale { .. } => Error::Moved { session: self.session.clone() },
            other => Error::Git(other.into()),
        }
    }
}

/// What a batch says has landed.
fn landed(batch: &Batch) -> Option<CommitId> {
    batch.events.iter().rev().find_map(|event| match &event.event {
        Event::Landed(landed) => Some(landed.commit),
        _ => None,
    })
}
