//! Sessions and commits a run uses that are not part of its plan. They can be fetched like branches, so all of them
//! must be approved first, and nothing else is used.

use std::collections::BTreeSet;

use super::Error;
use super::unfinished::OpenSession;
use git::TreeId;
use pleach_core::ids::{BranchName, CommitId, TaskId};

/// Sessions and files from elsewhere that a run may use.
#[derive(Debug, Default)]
pub struct PendingTrust {
    /// The sessions it may resume.
    pub left: Vec<OpenSession>,
    /// Other files agents may start from.
    pub starts: Vec<TaskBase>,
    /// Files this run itself has landed: their content comes from nowhere else.
    pub landed: Vec<TreeId>,
}

/// Files agents may start from.
#[derive(Debug)]
pub struct TaskBase {
    /// The branch they come from.
    pub branch: BranchName,
    /// The files.
    pub files: TreeId,
}

/// What was submitted for approval.
#[derive(Debug, Default)]
pub(super) struct Approved {
    /// The commits agents may start from: those submitted, and those this run built from them alone.
    pub(super) commits: BTreeSet<CommitId>,
    /// The newest of those this run has built.
    pub(super) built: BTreeSet<CommitId>,
    /// The task that needs something that was not.
    pub reached: Option<TaskId>,
}

impl Approved {
    /// Refuses a commit that was not submitted for approval.
    pub(super) fn require(&self, task: &TaskId, commit: CommitId) -> Result<(), Error> {
        if self.commits.contains(&commit) { Ok(()) } else { Err(Error::Unasked(task.clone())) }
    }

    /// Whether a commit counts as approved.
    pub(super) fn has(&self, commit: CommitId) -> bool {
        self.commits.contains(&commit)
    }

    /// Adds a commit this run made from others: it counts as approved if all of them are.
    pub(super) fn extend(&mut self, sources: &[CommitId], commit: CommitId) {
        if sources.iter().all(|source| self.commits.contains(source)) {
            self.commits.insert(commit);
            self.built.retain(|built| !sources.contains(built));
            self.built.insert(commit);
        }
    }
}
