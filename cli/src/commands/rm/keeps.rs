//! Kept refs that are no longer needed.

use std::collections::BTreeSet;

use engine::view::{SessionStatus, View};
use git::workspace::KEEP;
use git::{RefUpdate, Repo};
use jiff::Timestamp;
use pleach_core::ids::CommitId;

use crate::failure::Failure;
use crate::lib_errors::{of_engine, of_git};

/// A ref that keeps something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepRef {
    /// Its name.
    pub reference: String,
    /// The kept commit.
    pub commit: CommitId,
}

/// Everything that is kept and was made before a time, but for what sessions that have not ended, on record in one of
/// `records`, may still go by.
pub fn find(repo: &Repo, records: &[&Repo], before: Option<Timestamp>) -> Result<Vec<KeepRef>, Failure> {
    let mut needed = BTreeSet::new();
    for record in records {
        needed.extend(needed_in(record)?);
    }
    let mut found = Vec::new();
    for (reference, commit) in repo.refs().list(KEEP).map_err(|error| of_git(&error))? {
        let owner = reference.strip_prefix(KEEP).and_then(|name| name.rsplit_once('-')).map_or("", |(owner, _)| owner);
        let at = repo.commit(commit).map_err(|error| of_git(&error))?.at;
        if !needed.contains(owner) && before.is_none_or(|before| at < before) {
            found.push(KeepRef { reference, commit });
        }
    }
    Ok(found)
}

/// Removes a ref, unless it was moved since.
pub fn remove(repo: &Repo, kept: &KeepRef) -> Result<(), Failure> {
    let gone = RefUpdate { name: kept.reference.clone(), old: Some(kept.commit), new: None };
    repo.refs().swap_all(&[gone], "pleach: rm").map_err(|error| of_git(&error.into()))
}

/// The prefixes of kept refs that unfinished sessions need: their ids, and those of their tasks.
fn needed_in(repo: &Repo) -> Result<BTreeSet<String>, Failure> {
    let mut needed = BTreeSet::new();
    for (id, summary) in View::all(repo).map_err(|error| of_engine(&error))? {
        let Ok(summary) = summary else {
            needed.insert(id.to_string());
            continue;
        };
        let has_ended = match &summary.state.task {
            Some(task) => task.landed.is_some() || summary.standing() == SessionStatus::Cancelled,
            None => matches!(
                summary.standing(),
                SessionStatus::Done | SessionStatus::Failed { .. } | SessionStatus::Cancelled
            ),
        };
        if summary.in_use || !has_ended {
            needed.insert(id.to_string());
            needed.extend(summary.started.task.iter().map(|task| task.id.to_string()));
        }
    }
    Ok(needed)
}
