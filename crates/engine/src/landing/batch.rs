//! A batch: entries merged one onto the other, so that each prefix of it is what the target would be.

use super::candidate::{BuiltMerge, LeftConflict, MergeBuild, MergeOptions, UnfitMerge, build};
use super::error::QueueError;
use crate::merging::TierResult;
use git::Repo;
use pleach_core::ids::{CommitId, EntryId};
use pleach_core::queue::{EntryTest, MergeTests, QueueEntry};

/// An entry, merged onto those before it.
#[derive(Debug, Clone)]
pub(super) struct BatchItem {
    pub entry: QueueEntry,
    pub built: BuiltMerge,
    /// A remark recorded when it lands.
    pub why: Option<String>,
}

impl BatchItem {
    /// Whether the entry is still as it was merged: another commit or other tests may have been queued meanwhile.
    pub(super) fn is_of(&self, entry: &QueueEntry) -> bool {
        let built = &self.entry;
        let is_same_work = entry.id == built.id && entry.head == built.head;
        is_same_work && entry.resolution == built.resolution && entry.tests == built.tests
    }
}

/// Why an entry is left out of its batch.
#[derive(Debug)]
pub(super) enum LeftOut {
    /// The target has it.
    Present,
    /// It conflicts with the target.
    Conflict(Box<LeftConflict>),
    /// Commands have to run in the merged files first.
    Derive(Box<TierResult>),
    /// It conflicts with another entry of the batch, and is merged once that is decided.
    Crowded,
    /// Its merge must not be tested.
    Unfit(UnfitMerge),
}

/// Entries merged on top of each other, and those left out.
#[derive(Debug, Default)]
pub(super) struct MergeBatch {
    pub items: Vec<BatchItem>,
    pub left_out: Vec<(EntryId, LeftOut)>,
}

impl MergeBatch {
    /// Merges entries onto a commit, in order. Blocks.
    pub(super) fn gather(
        repo: &Repo,
        entries: impl IntoIterator<Item = QueueEntry>,
        tip: CommitId,
        options: &MergeOptions,
    ) -> Result<Self, QueueError> {
        let mut batch = Self::default();
        for entry in entries {
            let onto = batch.items.last().map_or(tip, |item| item.built.commit);
            let left_out = match build(repo, &entry, onto, options)? {
                MergeBuild::Built(built) => {
                    batch.items.push(BatchItem { entry, built, why: None });
                    continue;
                }
                MergeBuild::Present => LeftOut::Present,
                MergeBuild::Conflict(_) | MergeBuild::Derive(..) | MergeBuild::Unfit(_) if onto != tip => {
                    match build(repo, &entry, tip, options)? {
                        MergeBuild::Conflict(conflict) => LeftOut::Conflict(conflict),
                        MergeBuild::Derive(tried) => LeftOut::Derive(tried),
                        MergeBuild::Unfit(unfit) => LeftOut::Unfit(unfit),
                        _ => LeftOut::Crowded,
                    }
                }
                MergeBuild::Unfit(unfit) => LeftOut::Unfit(unfit),
                MergeBuild::Conflict(conflict) => LeftOut::Conflict(conflict),
                MergeBuild::Derive(tried) => LeftOut::Derive(tried),
            };
            batch.left_out.push((entry.id, left_out));
        }
        Ok(batch)
    }

    /// The tests of its first `length` entries.
    pub(super) fn tests(&self, length: usize, tests: &MergeTests) -> Vec<EntryTest> {
        tests.of(self.items[..length].iter().map(|item| &item.entry))
    }
}
