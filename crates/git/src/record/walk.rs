//! A chain of records as it is walked back, a commit at a time. What the files of a record say is read only where it is
//! asked for, so that whoever looks for the newest of many chains need not read them.

use jiff::Timestamp;
use serde_json::Value;

use super::{CONTEXT_TRAILER, Error, RECORD_TRAILER, RECORD_VERSION, SESSIONS, TASK_TRAILER, message, unreadable};
use crate::git::{self, BlobId, EntryKind, Repo, TreeId};
use pleach_core::event::Recorded;
use pleach_core::ids::{CommitId, ContextId, RepoPath, SessionId, TaskId};
use pleach_core::trailer::CommitMessage;

/// The chain of a context, by its newest record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainTip {
    /// The session.
    pub session: SessionId,
    /// The context.
    pub context: ContextId,
    /// The newest record.
    pub tip: CommitId,
}

/// The chains of all sessions, by name. Nothing of them is read.
pub fn chain_tips(repo: &Repo) -> Result<Vec<ChainTip>, git::Error> {
    let tip_of = |(name, tip): (String, Option<CommitId>)| {
        let (session, context) = name.strip_prefix(SESSIONS)?.split_once('/')?;
        Some(ChainTip { session: session.parse().ok()?, context: context.parse().ok()?, tip: tip? })
    };
    Ok(repo.refs().list_unpeeled(SESSIONS)?.into_iter().filter_map(tip_of).collect())
}

/// A record as its commit tells it.
#[derive(Debug, Clone)]
pub struct RecordCommit {
    /// The commit that holds it.
    pub commit: CommitId,
    /// When it was written.
    pub at: Timestamp,
    /// One line a person can read.
    pub subject: String,
    /// The task of a tree its session works on.
    pub task: Option<TaskId>,
    tree: TreeId,
}

/// The records a context has written, newest first; what it was forked from is told by other chains.
#[derive(Debug)]
pub struct ChainWalk {
    repo: Repo,
    chain: ChainTip,
    next: Option<CommitId>,
}

impl ChainWalk {
    /// A walk that begins with the newest record.
    pub fn new(repo: &Repo, chain: ChainTip) -> Self {
        Self { repo: repo.clone(), next: Some(chain.tip), chain }
    }

    fn read(&self, id: CommitId) -> Result<Option<(RecordCommit, Option<CommitId>)>, Error> {
        let commit = self.repo.commit(id).map_err(|error| Error::from(error).of(&self.chain.session))?;
        let message = CommitMessage::read(&commit.text());
        let Some(version) = message.trailer(RECORD_TRAILER) else { return Ok(None) };
        if version.parse::<u32>().map_or(true, |version| version > RECORD_VERSION) {
            let why = format!("its layout has version {version}, this pleach reads up to {RECORD_VERSION}");
            return Err(unreadable(&self.chain.session, id, why));
        }
        if message.trailer(CONTEXT_TRAILER) != Some(self.chain.context.as_str()) {
            return Ok(None);
        }
        let task = message.trailer(TASK_TRAILER).and_then(|task| task.parse().ok());
        let before = commit.parents.first().copied();
        let record = RecordCommit { commit: id, at: commit.at, tree: commit.tree, task, subject: message.subject };
        Ok(Some((record, before)))
    }
}

impl Iterator for ChainWalk {
    type Item = Result<RecordCommit, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let id = self.next.take()?;
        let (record, before) = match self.read(id) {
            Ok(read) => read?,
            Err(error) => return Some(Err(error)),
        };
        self.next = before;
        Some(Ok(record))
    }
}

impl RecordCommit {
    /// Its events as they are written.
    pub fn events_text(&self, repo: &Repo) -> Result<Vec<u8>, git::Error> {
        Ok(repo.tree_file(self.tree, &RepoPath::from("events.json"))?.unwrap_or_default())
    }

    /// The events of what [`RecordCommit::events_text`] gave, in order.
    pub fn events(&self, session: &SessionId, text: &[u8]) -> Result<Vec<Recorded>, Error> {
        let values: Vec<Value> =
            serde_json::from_slice(text).map_err(|error| unreadable(session, self.commit, error.to_string()))?;
        let events = values.into_iter().map(Recorded::from_json).collect::<Result<_, _>>();
        events.map_err(|source| Error::Event { commit: self.commit, source })
    }

    /// Its messages, in order; their contents are not read.
    pub fn messages(&self, repo: &Repo) -> Result<Vec<StoredMessage>, git::Error> {
        let (mut messages, mut apart) = (Vec::new(), Vec::new());
        for entry in repo.tree_entries(self.tree)? {
            let name = entry.path.to_string();
            if entry.kind != EntryKind::Directory || !["messages", "out"].contains(&name.as_str()) {
                continue;
            }
            for file in repo.tree_entries(TreeId::from_bytes(*entry.id.as_bytes()))? {
                let file_name = file.path.to_string();
                // `messages/0007.json`, `out/0007-1.txt`
                let Some(number) = file_name.split(['.', '-']).next().and_then(|number| number.parse().ok()) else {
                    continue;
                };
                match name.as_str() {
                    "out" => apart.push((number, (format!("out/{file_name}"), file.id))),
                    _ => messages.push(StoredMessage { number, file: file.id, apart: Vec::new() }),
                }
            }
        }
        for (number, file) in apart {
            let of = messages.iter_mut().find(|message| message.number == number);
            of.map(|message| message.apart.push(file)).unwrap_or_default();
        }
        Ok(messages)
    }
}

/// A message as its record stores it: a file, and those of its long texts.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its number in its context.
    pub number: u64,
    file: BlobId,
    apart: Vec<(String, BlobId)>,
}

impl StoredMessage {
    /// The message as it is written, without its long texts.
    pub fn text(&self, repo: &Repo) -> Result<Vec<u8>, git::Error> {
        repo.blob(self.file)
    }

    /// The same for a first look, see [`Repo::blob_at_a_glance`].
    pub fn text_at_a_glance(&self, repo: &Repo) -> Result<Vec<u8>, git::Error> {
        repo.blob_at_a_glance(self.file)
    }

    /// Its long texts, byte for byte, for a first look.
    pub fn long_texts_at_a_glance(&self, repo: &Repo) -> impl Iterator<Item = Result<Vec<u8>, git::Error>> {
        self.apart.iter().map(|(_, id)| repo.blob_at_a_glance(*id))
    }

    /// The whole message, from what [`StoredMessage::text`] gave. None where that is no JSON.
    pub fn whole(&self, repo: &Repo, text: &[u8]) -> Result<Option<Value>, git::Error> {
        let Ok(mut value) = serde_json::from_slice(text) else { return Ok(None) };
        message::join(&mut value, &mut |path| {
            let found = self.apart.iter().find(|(name, _)| name == path);
            let text = found.map(|(_, id)| repo.blob(*id)).transpose()?;
            Ok::<_, git::Error>(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
        })?;
        Ok(Some(value))
    }
}
