//! What a run works with that is no part of its plan: sessions and commits, which are fetched as branches are. Whoever has
//! to agree is given all of it first, and nothing else is worked with.

use std::collections::BTreeSet;

use super::Error;
use super::unfinished::OpenSession;
use crate::git::TreeId;
use crate::ids::{BranchName, CommitId, TaskId};

/// What was brought here that a run may work with.
#[derive(Debug, Default)]
pub struct PendingTrust {
    /// The sessions it may resume.
    pub left: Vec<OpenSession>,
    /// What agents may begin with elsewhere.
    pub starts: Vec<TaskBase>,
    /// Files this run itself has landed: what they hold comes from nowhere else.
    pub landed: Vec<TreeId>,
}

/// Files agents may begin with.
#[derive(Debug)]
pub struct TaskBase {
    /// The branch they are from.
    pub branch: BranchName,
    /// The files.
    pub files: TreeId,
}

/// What was given to whoever has to agree.
#[derive(Debug, Default)]
pub(super) struct Approved {
    /// The commits agents may begin with: those that were given, and what this run has built on them alone.
    pub(super) commits: BTreeSet<CommitId>,
    /// The newest of those this run has built.
    pub(super) made: BTreeSet<CommitId>,
    /// The task the run came to with something that was not.
    pub reached: Option<TaskId>,
}

impl Approved {
    /// Refuses a commit nobody was asked about.
    pub(super) fn require(&self, task: &TaskId, commit: CommitId) -> Result<(), Error> {
        match self.commits.contains(&commit) {
            true => Ok(()),
            false => Err(Error::Unasked(task.clone())),
        }
    }

    /// Takes in a commit this run has made of others: where somebody was asked about these, they were about it.
    pub(super) fn extend(&mut self, of: &[CommitId], commit: CommitId) {
        if of.iter().all(|of| self.commits.contains(of)) {
            self.commits.insert(commit);
            self.made.retain(|made| !of.contains(made));
            self.made.insert(commit);
        }
    }
}
