//! A batch: entries merged one onto the other, so that each prefix of it is what the target would be.

use super::candidate::{BuiltMerge, MergeBuild, build};
use crate::config::HistoryShape;
use crate::git::merge::Conflict;
use crate::git::{self, Repo};
use crate::ids::{CommitId, EntryId};
use crate::queue::{EntryTest, QueueEntry};

/// An entry, merged onto those before it.
#[derive(Debug, Clone)]
pub(super) struct BatchItem {
    pub entry: QueueEntry,
    pub built: BuiltMerge,
}

/// Why an entry is not in a batch that was to have it.
#[derive(Debug)]
pub(super) enum LeftOut {
    /// The target has it.
    Present,
    /// It conflicts with the target.
    Conflict(Box<Conflict>),
    /// It conflicts with another of the batch: it is merged after that has landed, or has not.
    Crowded,
    /// Its merge must not be tested, for this reason.
    Unfit(String),
}

/// Entries merged one onto the other, and those that could not be.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub items: Vec<BatchItem>,
    pub left_out: Vec<(EntryId, LeftOut)>,
}

impl Batch {
    /// Merges entries onto a commit, in order. Blocks.
    pub(super) fn gather(
        repo: &Repo,
        entries: impl IntoIterator<Item = QueueEntry>,
        tip: CommitId,
        history: HistoryShape,
    ) -> Result<Self, git::Error> {
        let mut batch = Self::default();
        for entry in entries {
            let onto = batch.items.last().map_or(tip, |item| item.built.commit);
            let left_out = match build(repo, &entry, onto, history)? {
                MergeBuild::Built(built) => {
                    batch.items.push(BatchItem { entry, built });
                    continue;
                }
                MergeBuild::Present => LeftOut::Present,
                MergeBuild::Unfit(why) => LeftOut::Unfit(why),
                MergeBuild::Conflict(_) if onto != tip => match build(repo, &entry, tip, history)? {
                    MergeBuild::Conflict(conflict) => LeftOut::Conflict(conflict),
                    _ => LeftOut::Crowded,
                },
                MergeBuild::Conflict(conflict) => LeftOut::Conflict(conflict),
            };
            batch.left_out.push((entry.id, left_out));
        }
        Ok(batch)
    }

    /// What is run on the files of its first entries: the test of the queue, or all tests of these entries.
    pub(super) fn tests(&self, length: usize, of_queue: Option<&EntryTest>) -> Vec<EntryTest> {
        tests_of(self.items[..length].iter().map(|item| &item.entry), of_queue)
    }
}

/// The tests that merged entries have to pass.
pub(super) fn tests_of<'e>(
    entries: impl IntoIterator<Item = &'e QueueEntry>,
    of_queue: Option<&EntryTest>,
) -> Vec<EntryTest> {
    if let Some(test) = of_queue {
        return vec![test.clone()];
    }
    let mut tests: Vec<EntryTest> = Vec::new();
    for test in entries.into_iter().flat_map(|entry| &entry.tests) {
        if !tests.contains(test) {
            tests.push(test.clone());
        }
    }
    tests
}
