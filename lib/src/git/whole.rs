//! Whether all is there that a commit of an agent counts on. An agent can write commits of any content; one whose
//! history or files are missing would break whatever is built upon it, for good.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::error::Error;
use super::repo::Repo;
use crate::ids::CommitId;

/// Commits that are known to be whole: pleach put a HEAD there itself, or has looked.
#[derive(Debug, Default)]
pub(super) struct Whole(Mutex<BTreeSet<CommitId>>);

impl Whole {
    /// Takes a commit as whole.
    pub fn add(&self, commit: CommitId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(commit);
    }

    fn has(&self, commit: CommitId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&commit)
    }
}

impl Repo {
    /// Whether everything a commit names is there, as far down as no branch or tag has it. Each is looked at once.
    pub(super) fn is_whole(&self, commit: CommitId) -> Result<bool, Error> {
        if self.shared.whole.has(commit) {
            return Ok(true);
        }
        let id = commit.to_string();
        // The HEADs of worktrees are what is in question, and agents can write the parts of a commit graph.
        let args = ["-c", "core.commitGraph=false", "rev-list", "--quiet", "--objects", "--ignore-missing"];
        let args = args.into_iter().chain(["--single-worktree", &id, "--not", "--all"]);
        let ended = self.shared.program.run(self.common_dir(), args)?;
        match ended.code {
            Some(0) => {
                self.shared.whole.add(commit);
                Ok(true)
            }
            // It is all the same what is wrong with it: an object that is not there, or not what it should be.
            Some(_) => Ok(false),
            None => Err(ended.failure()),
        }
    }
}
