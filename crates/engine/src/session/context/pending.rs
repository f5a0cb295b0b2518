//! Events folded but not yet written.

use std::collections::BTreeMap;

use git::record::Batch;
use git::{TreeId, Writer};
use pleach_core::event::{Recorded, Snapshot};
use pleach_core::ids::{CommitId, RepoName};

/// Events folded but not yet written: the end of a node, and later nodes that only pass on. If another node starts at
/// once, all of them go into one record.
#[derive(Debug, Default)]
pub(crate) struct PendingRecord {
    pub writers: Writers,
    pub batch: Batch,
    /// The commit each branch is moved from. A branch that another process moved is missing.
    pub branches: Snapshot,
    /// The node's last commits, with their trees.
    pub commits: BTreeMap<RepoName, (CommitId, TreeId)>,
    /// The commit of the node's step, with its tree.
    pub step: Option<MadeStep>,
}

impl PendingRecord {
    /// The tree of its newest commit in a repository.
    pub(crate) fn tree(&self, repo: &RepoName) -> Option<TreeId> {
        let step = self.step.as_ref().filter(|step| step.repo == *repo).map(|step| step.tree);
        step.or_else(|| self.commits.get(repo).map(|(_, tree)| *tree))
    }

    pub(super) fn has_commits(&self) -> bool {
        self.step.is_some() || !self.commits.is_empty()
    }

    /// Appends events to the same record.
    pub(super) fn add(&mut self, summary: &str, events: Vec<Recorded>) {
        let before = &mut self.batch.summary;
        *before = if before.is_empty() { summary.to_owned() } else { format!("{before}; {summary}") };
        self.batch.events.extend(events);
    }
}

/// The commit of a step that is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MadeStep {
    pub repo: RepoName,
    pub commit: CommitId,
    pub tree: TreeId,
}

/// Writers of objects that are flushed with a record, by repository.
pub(crate) type Writers = BTreeMap<RepoName, Writer>;
