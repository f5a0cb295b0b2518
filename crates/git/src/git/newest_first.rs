//! Walking history from its newest commit on, as far as somebody asks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use gix::ObjectId;
use gix::hashtable::{HashMap, HashSet};
use jiff::Timestamp;

use super::error::Error;
use super::history::{CommitHistory, CommitText, HistoryReader, kept, time};
use super::id::{from_gix, to_gix};
use pleach_core::ids::CommitId;

/// The commits of a history by when they were committed, newest first. One is read when a commit made on it has come.
pub struct NewestFirst {
    reader: HistoryReader,
    /// By date; of those of one date the one that was found first.
    queue: BinaryHeap<(i64, Reverse<usize>, ObjectId)>,
    read: HashMap<ObjectId, (CommitText, Vec<ObjectId>)>,
    found: HashSet<ObjectId>,
}

impl fmt::Debug for NewestFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewestFirst").field("found", &self.found.len()).finish()
    }
}

impl CommitHistory<'_> {
    /// The history of a commit, newest first.
    pub fn newest_first(&self, tip: CommitId) -> Result<NewestFirst, Error> {
        let reader = HistoryReader::new(self.shared)?;
        let mut walk =
            NewestFirst { reader, queue: BinaryHeap::new(), read: HashMap::default(), found: HashSet::default() };
        walk.add(to_gix(tip))?;
        Ok(walk)
    }
}

impl NewestFirst {
    /// When the next commit was committed.
    pub fn next_at(&self) -> Option<Timestamp> {
        let (seconds, ..) = self.queue.peek()?;
        Some(Timestamp::from_second(*seconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    fn add(&mut self, id: ObjectId) -> Result<(), Error> {
        if !self.found.insert(id) {
            return Ok(());
        }
        let (at, read) = self.reader.read(id, |commit, parents| (time(commit), (kept(commit), parents)))?;
        self.queue.push((at, Reverse(self.found.len()), id));
        self.read.insert(id, read);
        Ok(())
    }
}

impl Iterator for NewestFirst {
    type Item = Result<(CommitId, CommitText), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (_, _, id) = self.queue.pop()?;
        let (text, parents) = self.read.remove(&id)?;
        for parent in parents {
            if let Err(error) = self.add(parent) {
                return Some(Err(error));
            }
        }
        Some(Ok((from_gix(&id), text)))
    }
}
