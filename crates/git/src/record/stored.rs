//! Records as their objects are, for copies of them elsewhere: read whole, and made again with the ids they had.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{CONTEXT_TRAILER, Error, History, RECORD_TRAILER, SESSION_TRAILER, message, unreadable};
use crate::git::{self, EntryKind, Repo, TreeEdit, TreeId, Writer};
use pleach_core::ids::{CommitId, ContextId, RepoPath, SessionId};
use pleach_core::trailer::CommitMessage;

/// A record of a chain that is walked back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRecord {
    pub record: CommitId,
    /// The context that wrote it.
    pub context: ContextId,
    /// How many of its events count, where a replay goes on in the middle of it.
    pub events: Option<usize>,
}

/// The records of a chain, newest first, and on in those it was forked from.
pub fn chain_records<'a>(
    repo: &'a Repo,
    session: &'a SessionId,
    tip: CommitId,
) -> impl Iterator<Item = Result<ChainRecord, Error>> + use<'a> {
    let (mut next, mut above) = (Some(tip), None::<ChainRecord>);
    std::iter::from_fn(move || {
        let record = next.take()?;
        let mut read = || -> Result<Option<ChainRecord>, Error> {
            let commit = repo.commit(record)?;
            let message = CommitMessage::read(&commit.text());
            if message.trailer(RECORD_TRAILER).is_none() {
                return Ok(None);
            }
            let context: Option<ContextId> = message.trailer(CONTEXT_TRAILER).and_then(|name| name.parse().ok());
            let context = context.ok_or_else(|| unreadable(session, record, "it names no context".into()))?;
            let events = match above.as_ref().filter(|above| above.context != context) {
                Some(above) => History::cut_before(repo, session, above.record)?.map(|point| point.events),
                None => None,
            };
            next = commit.parents.first().copied();
            Ok(Some(ChainRecord { record, context, events }))
        };
        let found = read().map_err(|error| error.of(session)).transpose()?;
        above = found.as_ref().ok().cloned();
        Some(found)
    })
}

/// A record, object by object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub id: CommitId,
    /// Its commit, byte for byte.
    pub commit: Vec<u8>,
    /// Its files, by path.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl StoredRecord {
    /// Reads a record whole.
    pub fn read(repo: &Repo, id: CommitId) -> Result<Self, git::Error> {
        let mut files = BTreeMap::new();
        read_files(repo, repo.tree_of(id)?, "", &mut files)?;
        Ok(Self { id, commit: repo.commit_object(id)?, files })
    }

    fn headers(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let head = self.commit.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        head.filter_map(move |line| std::str::from_utf8(line).ok()?.strip_prefix(name)?.strip_prefix(' '))
    }

    /// What its commit was made on: the record before it unless it is a session's first, then the work it speaks of.
    pub fn parents(&self) -> Vec<CommitId> {
        self.headers("parent").filter_map(|parent| parent.parse().ok()).collect()
    }

    /// Whether a session begins with it.
    pub fn is_first(&self) -> bool {
        let events = self.files.get("events.json").map(Vec::as_slice).unwrap_or_default();
        let first = serde_json::from_slice::<Vec<Value>>(events).ok().and_then(|events| events.into_iter().next());
        first.is_some_and(|event| event.get("type").is_some_and(|kind| kind == "dev.orchestra.PipelineStarted"))
    }

    /// What a trailer of its message says.
    fn trailer(&self, key: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.commit);
        let (_, message) = text.split_once("\n\n")?;
        CommitMessage::read(message).trailer(key).map(str::to_owned)
    }

    /// The session it is of.
    pub fn session(&self) -> Option<SessionId> {
        self.trailer(SESSION_TRAILER)?.parse().ok()
    }

    /// The context that wrote it.
    pub fn context(&self) -> Option<ContextId> {
        self.trailer(CONTEXT_TRAILER)?.parse().ok()
    }

    /// Adds its objects to those that are written. False if they do not come to its id: then it was not this record.
    pub fn write(&self, writer: &mut Writer) -> Result<bool, git::Error> {
        let mut edits = Vec::new();
        for (path, bytes) in &self.files {
            edits.push(TreeEdit::Put(RepoPath::from(path.as_str()), EntryKind::File, writer.blob(bytes)?));
        }
        let tree = writer.tree(None, &edits)?.to_string();
        Ok(self.headers("tree").eq([tree]) && writer.commit_object(&self.commit)? == self.id)
    }

    /// Takes its messages out of its files, by number. What [`StoredRecord::put_messages`] would not make again byte for
    /// byte stays a file.
    pub fn take_messages(&mut self) -> BTreeMap<u64, Value> {
        let mut messages = BTreeMap::new();
        let numbers = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix("messages/")?.strip_suffix(".json")?.parse::<u64>().ok());
        for number in numbers.collect::<Vec<_>>() {
            let Some(whole) = self.files.get(&message::path(number)).and_then(|text| self.whole(text)) else {
                continue;
            };
            let made: BTreeMap<String, Vec<u8>> = made_of(number, &whole);
            if made.iter().all(|(path, bytes)| self.files.get(path) == Some(bytes)) {
                made.keys().for_each(|path| drop(self.files.remove(path)));
                messages.insert(number, whole);
            }
        }
        messages
    }

    /// Makes messages files again.
    pub fn put_messages(&mut self, messages: &BTreeMap<u64, Value>) {
        self.files.extend(messages.iter().flat_map(|(number, whole)| made_of(*number, whole)));
    }

    fn whole(&self, text: &[u8]) -> Option<Value> {
        let mut whole = serde_json::from_slice(text).ok()?;
        let read = &mut |path: &str| match self.files.get(path) {
            Some(bytes) => String::from_utf8(bytes.clone()).map(Some),
            None => Ok(None),
        };
        message::join(&mut whole, read).ok()?;
        Some(whole)
    }
}

/// The files of a message.
fn made_of(number: u64, whole: &Value) -> BTreeMap<String, Vec<u8>> {
    let mut short = whole.clone();
    let texts = message::split(number, &mut short);
    let own = (message::path(number), short.to_string().into_bytes());
    texts.into_iter().map(|(path, text)| (path, text.into_bytes())).chain([own]).collect()
}

fn read_files(repo: &Repo, tree: TreeId, below: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), git::Error> {
    for entry in repo.tree_entries(tree)? {
        let path = format!("{below}{}", String::from_utf8_lossy(entry.path.as_bytes()));
        match entry.kind {
            EntryKind::Directory => {
                read_files(repo, TreeId::from_bytes(*entry.id.as_bytes()), &format!("{path}/"), files)?;
            }
            EntryKind::Submodule => {}
            _ => drop(files.insert(path, repo.blob(entry.id)?)),
        }
    }
    Ok(())
}
