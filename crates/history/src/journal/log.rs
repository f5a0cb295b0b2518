//! The log: many sources merged by time, each read only as far as the lines that somebody has asked for.

use std::cmp::{Ordering, Reverse};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use git::Repo;
use git::record::History;
use jiff::{Timestamp, ToSpan as _};
use pleach_core::ids::{CommitId, SessionId, TaskId};

use super::sources::{LogSource, sources};
use super::told::title;
use super::{LogEntry, LogError, LogFilter, LogKind};

/// The log of a repository, newest first.
#[derive(Debug)]
pub struct Log {
    repo: Repo,
    filter: LogFilter,
    /// By when the next commit of each was made.
    sources: BinaryHeap<InTime>,
    /// Lines that were read and may not be the newest; of those of one time, what came first is newer.
    ready: BTreeMap<LinePlace, LogEntry>,
    unreadable: VecDeque<LogError>,
    /// What was told already, and where: a step is in a record and on a branch, a landing in a record and in the queue.
    told: BTreeMap<Told, LinePlace>,
    titles: BTreeMap<SessionId, String>,
    /// Counts sources and lines.
    number: usize,
}

/// Where a line stands: when it happened, newest first, and its number.
type LinePlace = (Reverse<Timestamp>, usize);

/// A source with the time of its next commit; of those of one time, what came first is greater.
#[derive(Debug)]
struct InTime {
    at: Timestamp,
    number: usize,
    source: LogSource,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Step(Option<TaskId>, Option<u32>, String, i64),
    Landing(CommitId),
}

impl Log {
    /// The log, as a filter leaves it.
    pub fn open(repo: &Repo, filter: LogFilter) -> Result<Self, git::Error> {
        let (sources, unreadable) = sources(repo, &filter)?;
        let mut log = Self {
            repo: repo.clone(),
            filter,
            sources: BinaryHeap::new(),
            ready: BTreeMap::new(),
            unreadable: unreadable.into(),
            told: BTreeMap::new(),
            titles: BTreeMap::new(),
            number: 0,
        };
        sources.into_iter().for_each(|source| log.put(source));
        Ok(log)
    }

    fn put(&mut self, source: LogSource) {
        if let Some(at) = source.at() {
            self.number += 1;
            self.sources.push(InTime { at, number: self.number, source });
        }
    }

    /// No line of the sources is as new as this: commits know only the second.
    fn horizon(&self) -> Option<Timestamp> {
        let newest = self.sources.peek()?.at;
        Some(newest.checked_add(1.second()).unwrap_or(Timestamp::MAX))
    }

    fn read_next(&mut self) {
        let Some(InTime { source, .. }) = self.sources.pop() else { return };
        let (lines, rest) = match source.take(&self.repo, &self.filter) {
            Ok(taken) => taken,
            Err(error) => return self.unreadable.push_back(error),
        };
        rest.into_iter().for_each(|source| self.put(source));
        lines.into_iter().for_each(|line| self.keep(line));
    }

    /// Keeps a line until it is the newest, if it is wanted. What two sources tell is one line, at the finer time: commits
    /// know only the second, and no line goes out before all sources of that second were read.
    fn keep(&mut self, line: LogEntry) {
        if !self.filter.takes(&line) {
            return;
        }
        self.number += 1;
        let place = (Reverse(line.at), self.number);
        let told = match (line.kind, line.commit) {
            (LogKind::Step, _) => Told::Step(line.task.clone(), line.attempt, line.text.clone(), line.at.as_second()),
            (LogKind::Landing, Some(commit)) => Told::Landing(commit),
            _ => return drop(self.ready.insert(place, line)),
        };
        match self.told.entry(told) {
            Entry::Vacant(new) => {
                new.insert(place);
                self.ready.insert(place, line);
            }
            Entry::Occupied(mut before) if line.at > before.get().0.0 => {
                if let Some(same) = self.ready.remove(before.get()) {
                    before.insert(place);
                    self.ready.insert(place, LogEntry { at: line.at, ..same });
                }
            }
            Entry::Occupied(_) => {}
        }
    }

    /// A line with what its run is about. Where that cannot be read, the line says enough.
    fn titled(&mut self, line: LogEntry) -> LogEntry {
        let Some(session) = &line.untitled else { return line };
        let read = || History::newest(&self.repo, session).map(|history| title(&history.started)).unwrap_or_default();
        let text = self.titles.entry(session.clone()).or_insert_with(read).clone();
        LogEntry { text, ..line }
    }
}

impl Iterator for Log {
    type Item = Result<LogEntry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.unreadable.pop_front() {
                return Some(Err(error));
            }
            let horizon = self.horizon();
            if self.filter.since.zip(horizon).is_some_and(|(since, horizon)| horizon < since) {
                self.sources.clear();
                continue;
            }
            if let Some(line) = self.ready.first_entry()
                && horizon.is_none_or(|horizon| line.get().at >= horizon)
            {
                let line = line.remove();
                return Some(Ok(self.titled(line)));
            }
            horizon?;
            self.read_next();
        }
    }
}

impl Ord for InTime {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at).then_with(|| other.number.cmp(&self.number))
    }
}

impl PartialOrd for InTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InTime {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for InTime {}
