//! Merges an entry: the commit its target would move to, built on any commit. The same inputs give the same commit, so
//! whoever comes after a crash builds the one that was tested.

use super::markers::introduced_markers;
use crate::config::HistoryShape;
use crate::engine::landing::{self, RebuildError};
use crate::git::merge::{Conflict, MergeError};
use crate::git::{self, CommitSpec, MergeCheckError, Person, Repo, TreeId, Writer};
use crate::ids::CommitId;
use crate::queue::{Candidate, QueueEntry};
use crate::text::named;
use crate::trailer::CommitMessage;

/// A merge that may be tested.
#[derive(Debug, Clone)]
pub(super) struct BuiltMerge {
    pub commit: CommitId,
    pub tree: TreeId,
    /// What it is built on.
    pub onto: CommitId,
    /// What merged it.
    pub tier: &'static str,
}

/// What became of a merge.
#[derive(Debug)]
pub(super) enum MergeBuild {
    /// It may be tested.
    Built(BuiltMerge),
    /// Everything is there already.
    Present,
    /// The sides conflict.
    Conflict(Box<Conflict>),
    /// The result is not fit to be tested, for this reason.
    Unfit(String),
}

impl BuiltMerge {
    pub(super) fn candidate(&self) -> Candidate {
        Candidate { commit: self.commit, tree: CommitId::from_bytes(*self.tree.as_bytes()), base: self.onto }
    }
}

/// Merges an entry onto a commit.
pub(super) fn build(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    history: HistoryShape,
) -> Result<MergeBuild, git::Error> {
    if repo.history().is_ancestor(entry.head, onto)? {
        return Ok(MergeBuild::Present);
    }
    let Some(shared) = repo.history().merge_base(entry.head, onto)? else {
        return Ok(MergeBuild::Unfit(format!("it has no commit in common with `{}`", entry.target)));
    };
    let base = match entry.base {
        // What the target had when the work began may have been taken off it since, and is not part of the work.
        Some(own) if repo.history().is_ancestor(shared, own)? => own,
        _ => shared,
    };
    let is_linear = history == HistoryShape::Linear;
    if base == onto && is_linear {
        let tree = repo.tree_of(entry.head)?;
        return Ok(MergeBuild::Built(BuiltMerge { commit: entry.head, tree, onto, tier: "fast-forward" }));
    }
    let mut writer = repo.writer();
    let built = match entry.base {
        Some(_) if is_linear => rebuilt(repo, &mut writer, entry, base, onto)?,
        _ => merged(repo, &mut writer, entry, onto)?,
    };
    let (commit, tree) = match built {
        Ok(built) => built,
        Err(conflict) => return Ok(MergeBuild::Conflict(Box::new(conflict))),
    };
    writer.flush()?;
    Ok(match unfit(repo, (base, onto, entry.head), tree)? {
        Some(why) => MergeBuild::Unfit(why),
        None => MergeBuild::Built(BuiltMerge { commit, tree, onto, tier: "clean" }),
    })
}

type Merged = Result<(CommitId, TreeId), Conflict>;

/// The entry's own commits, built again one by one.
fn rebuilt(
    repo: &Repo,
    writer: &mut Writer,
    entry: &QueueEntry,
    base: CommitId,
    onto: CommitId,
) -> Result<Merged, git::Error> {
    let commits = landing::commits_since(repo, entry.head, base)?;
    match landing::rebuild(repo, writer, &commits, base, onto) {
        Ok(copies) => {
            writer.flush()?;
            let commit = copies.last().copied().unwrap_or(onto);
            Ok(Ok((commit, repo.tree_of(commit)?)))
        }
        Err(RebuildError::Conflict { conflict, .. }) => Ok(Err(conflict)),
        Err(RebuildError::Git(error)) => Err(error),
    }
}

/// A merge commit of both sides.
fn merged(repo: &Repo, writer: &mut Writer, entry: &QueueEntry, onto: CommitId) -> Result<Merged, git::Error> {
    let tree = match git::merge::merge_commits(repo, onto, entry.head) {
        Ok(tree) => tree,
        Err(MergeError::Conflict(conflict)) => return Ok(Err(conflict)),
        Err(MergeError::Git(error)) => return Err(error),
    };
    let commit = writer.commit(&CommitSpec {
        tree,
        parents: vec![onto, entry.head],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: message(entry).write().into_bytes(),
        // Of the entry, so that building it again gives the same commit.
        at: entry.completed_at,
    })?;
    Ok(Ok((commit, tree)))
}

fn message(entry: &QueueEntry) -> CommitMessage {
    CommitMessage {
        subject: format!("merge: {}", entry.name()),
        body: entry.title.clone(),
        trailers: vec![("Pleach-Merge".to_owned(), entry.id.to_string()), ("Pleach-Tier".to_owned(), "clean".to_owned())],
    }
}

/// Why a merge result must not be tested: it lacks something of a side, or has markers of a conflict.
fn unfit(
    repo: &Repo,
    (base, ours, theirs): (CommitId, CommitId, CommitId),
    merged: TreeId,
) -> Result<Option<String>, git::Error> {
    let [base, ours, theirs] = [repo.tree_of(base)?, repo.tree_of(ours)?, repo.tree_of(theirs)?];
    match git::check_merge_result(repo, base, ours, theirs, merged) {
        Ok(()) => {}
        Err(MergeCheckError::Loss(lossy)) => return Ok(Some(lossy.to_string())),
        Err(MergeCheckError::Git(error)) => return Err(error),
    }
    let marked = introduced_markers(repo, ours, merged)?;
    Ok((!marked.is_empty()).then(|| format!("conflict markers are in {}", named(&marked))))
}
