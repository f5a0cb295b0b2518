//! Where the lines of the log come from. Each source knows when its next commit was made before it reads more of it.

use std::fmt;

use git::record::entries::{
    ARCHIVED_AFTER_DAYS, QUEUES, archive_ref, archived_entries, entry_ref, read_state, state_commits,
};
use git::record::{ChainTip, ChainWalk, RecordCommit, chain_tips};
use git::{Commit, NewestFirst, Repo};
use jiff::{Timestamp, ToSpan as _};
use pleach_core::ids::{BranchName, CommitId, EntryId, SessionId, branch_of_key};

use super::told::Teller;
use super::{LogEntry, LogError, LogFilter, steps};

/// A source of lines.
#[derive(Debug)]
pub(super) enum LogSource {
    /// A chain of records.
    Chain(Box<ChainSource>),
    /// The history of the checked-out branch.
    Steps(Box<NewestFirst>),
    /// An entry of a merge queue.
    Entry(Box<EntrySource>),
    /// Entries of a queue that were closed long ago: nothing of them is newer than this.
    Archive(BranchName, Timestamp),
}

#[derive(Debug)]
pub(super) struct ChainSource {
    teller: Teller,
    walk: ChainWalk,
    next: RecordCommit,
}

pub(super) struct EntrySource {
    name: String,
    states: Box<dyn Iterator<Item = Result<Commit, git::Error>>>,
    next: Commit,
}

impl fmt::Debug for EntrySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntrySource").field("name", &self.name).field("next", &self.next.id).finish()
    }
}

/// All sources a filter leaves, and what cannot be read.
pub(super) fn sources(repo: &Repo, filter: &LogFilter) -> Result<(Vec<LogSource>, Vec<LogError>), git::Error> {
    let (mut sources, mut unreadable) = (Vec::new(), Vec::new());
    let mut take = |found: Result<Option<LogSource>, LogError>| match found {
        Ok(source) => sources.extend(source),
        Err(error) => unreadable.push(error),
    };
    match repo.head() {
        Ok(head) => take(Ok(Some(LogSource::Steps(Box::new(repo.history().newest_first(head.commit)?))))),
        // A branch without commits has no steps.
        Err(git::Error::NoSuchRevision { .. }) => {}
        Err(error) => return Err(error),
    }
    for chain in chain_tips(repo)? {
        take(ChainSource::open(repo, filter, chain));
    }
    for (name, at) in repo.refs().list_unpeeled(QUEUES)? {
        let parts: Vec<&str> = name[QUEUES.len()..].split('/').collect();
        let (target, Some(at)) = (parts.first().and_then(|key| branch_of_key(key)), at) else { continue };
        match (target, parts.get(1), parts.get(2)) {
            (Some(target), Some(&"entry"), Some(id)) => {
                if let Ok(id) = EntryId::new(*id) {
                    take(EntrySource::open(repo, filter, entry_ref(&target, &id), id, at));
                }
            }
            (Some(target), Some(_), None) if name == archive_ref(&target) => {
                let until = repo.commit(at)?.at.checked_sub((ARCHIVED_AFTER_DAYS * 24).hours());
                take(Ok(Some(LogSource::Archive(target, until.unwrap_or(Timestamp::MIN)))));
            }
            _ => {}
        }
    }
    Ok((sources, unreadable))
}

impl ChainSource {
    fn open(repo: &Repo, filter: &LogFilter, chain: ChainTip) -> Result<Option<LogSource>, LogError> {
        if filter.run.as_ref().is_some_and(|run| !run.has(&chain)) {
            return Ok(None);
        }
        let Some(teller) = Teller::new(chain.clone(), filter.has_turns()) else { return Ok(None) };
        let unreadable = |source| LogError::of(&chain.session, source);
        let mut walk = ChainWalk::new(repo, chain.clone());
        let Some(next) = walk.next().transpose().map_err(unreadable)? else { return Ok(None) };
        let is_wanted = filter.task.is_none() || next.task == filter.task;
        Ok(is_wanted.then(|| LogSource::Chain(Box::new(Self { teller, walk, next }))))
    }

    /// The lines of the next record, newest first.
    fn lines(&self, repo: &Repo) -> Result<Vec<LogEntry>, git::record::Error> {
        let Self { teller, next, .. } = self;
        if !teller.may_tell(&next.subject) {
            return Ok(Vec::new());
        }
        let text = next.events_text(repo)?;
        if !teller.may_be_told(&text) {
            return Ok(Vec::new());
        }
        let events = next.events(&teller.chain.session, &text)?;
        Ok(events.iter().rev().filter_map(|recorded| teller.told(recorded, next.task.as_ref())).collect())
    }

    fn session(&self) -> &SessionId {
        &self.teller.chain.session
    }
}

impl EntrySource {
    fn open(
        repo: &Repo,
        filter: &LogFilter,
        name: String,
        id: EntryId,
        at: CommitId,
    ) -> Result<Option<LogSource>, LogError> {
        if filter.run.is_some() || filter.task.is_some() {
            let entry = read_state(repo, &name, at)?.entry;
            let of_run = filter.run.as_ref().is_none_or(|run| entry.session.as_ref() == Some(run.session()));
            if !of_run || filter.task.is_some() && entry.task != filter.task {
                return Ok(None);
            }
        }
        let mut states: Box<dyn Iterator<Item = _>> = Box::new(state_commits(repo, id, at));
        let next = states.next().transpose().map_err(LogError::Git)?;
        Ok(next.map(|next| LogSource::Entry(Box::new(Self { name, states, next }))))
    }
}

impl LogSource {
    /// No line to come is of a commit newer than this. None at the end.
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Chain(chain) => Some(chain.next.at),
            Self::Steps(walk) => walk.next_at(),
            Self::Entry(entry) => Some(entry.next.at),
            Self::Archive(_, until) => Some(*until),
        }
    }

    /// The lines of its next commit, and what goes on after it.
    pub fn take(self, repo: &Repo, filter: &LogFilter) -> Result<(Vec<LogEntry>, Vec<Self>), LogError> {
        match self {
            Self::Chain(mut chain) => {
                let session = chain.session().clone();
                let unreadable = |source| LogError::of(&session, source);
                let lines = chain.lines(repo).map_err(unreadable)?;
                let next = chain.walk.next().transpose().map_err(unreadable)?;
                let rest = next.map(|next| {
                    chain.next = next;
                    Self::Chain(chain)
                });
                Ok((lines, rest.into_iter().collect()))
            }
            Self::Steps(mut walk) => {
                let line = walk.next().transpose().map_err(LogError::Git)?;
                let line = line.and_then(|(commit, text)| steps::step(commit, &text));
                let session = filter.run.as_ref().map(|run| run.session().to_string());
                let line = line.filter(|line| session.is_none() || line.run == session);
                Ok((line.into_iter().collect(), vec![Self::Steps(walk)]))
            }
            Self::Entry(mut entry) => {
                let line = steps::state(repo, &entry.name, &entry.next)?;
                let next = entry.states.next().transpose().map_err(LogError::Git)?;
                let rest = next.map(|next| {
                    entry.next = next;
                    Self::Entry(entry)
                });
                Ok((vec![line], rest.into_iter().collect()))
            }
            Self::Archive(target, _) => {
                let mut entries = Vec::new();
                for stored in archived_entries(repo, &target)? {
                    let name = entry_ref(&target, &stored.entry.id);
                    entries.extend(EntrySource::open(repo, filter, name, stored.entry.id, stored.at)?);
                }
                Ok((Vec::new(), entries))
            }
        }
    }
}
