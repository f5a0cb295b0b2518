//! Merges an entry: the commit its target would move to, built on any commit. The same inputs give the same commit, so
//! whoever comes after a crash builds the one that was tested.

use std::collections::BTreeSet;

use super::markers::introduced_markers;
use crate::config::HistoryShape;
use crate::engine::landing::{self, RebuildError};
use crate::git::merge::{Conflict, MergeError};
use crate::git::{self, CommitSpec, LossyMerge, MergeCheckError, Person, Repo, TreeId, Writer};
use crate::ids::{CommitId, RepoPath};
use crate::queue::{Candidate, EntryResolution, QueueEntry};
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
    pub tier: String,
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
    let Some(sides) = MergeSidesOf::find(repo, entry, onto)? else {
        return Ok(MergeBuild::Unfit(format!("it has no commit in common with `{}`", entry.target)));
    };
    let merging = Merging { repo, entry, sides, is_linear: history == HistoryShape::Linear };
    if let Some(resolution) = &entry.resolution
        && let Some(tree) = merging.replayed(resolution)?
    {
        return merging.with_resolution(tree, resolution);
    }
    merging.plain()
}

/// The commits of a merge.
#[derive(Debug, Clone, Copy)]
struct MergeSidesOf {
    base: CommitId,
    onto: CommitId,
    head: CommitId,
}

impl MergeSidesOf {
    fn find(repo: &Repo, entry: &QueueEntry, onto: CommitId) -> Result<Option<Self>, git::Error> {
        let Some(shared) = repo.history().merge_base(entry.head, onto)? else { return Ok(None) };
        let base = match entry.base {
            // What the target had when the work began may have been taken off it since, and is not part of the work.
            Some(own) if repo.history().is_ancestor(shared, own)? => own,
            _ => shared,
        };
        Ok(Some(Self { base, onto, head: entry.head }))
    }
}

/// A merge that is being made.
struct Merging<'a> {
    repo: &'a Repo,
    entry: &'a QueueEntry,
    sides: MergeSidesOf,
    /// The entry's own commits are built again, instead of a merge commit.
    is_linear: bool,
}

impl Merging<'_> {
    /// As git merges it.
    fn plain(&self) -> Result<MergeBuild, git::Error> {
        let MergeSidesOf { base, onto, head } = self.sides;
        if base == onto && self.is_linear {
            let (tree, tier) = (self.repo.tree_of(head)?, "fast-forward".to_owned());
            return Ok(match self.marked(tree)? {
                Some(why) => MergeBuild::Unfit(why),
                None => MergeBuild::Built(BuiltMerge { commit: head, tree, onto, tier }),
            });
        }
        let mut writer = self.repo.writer();
        let merged = match self.rebuilds() {
            true => self.rebuilt(&mut writer)?,
            false => match self.merged_tree()? {
                Ok(tree) => Ok((self.merge_commit(&mut writer, tree, "clean")?, tree)),
                Err(conflict) => Err(conflict),
            },
        };
        let (commit, tree) = match merged {
            Ok(merged) => merged,
            Err(conflict) => return Ok(MergeBuild::Conflict(Box::new(conflict))),
        };
        writer.flush()?;
        Ok(match self.unfit(tree, &BTreeSet::new())? {
            Some(why) => MergeBuild::Unfit(why),
            None => MergeBuild::Built(BuiltMerge { commit, tree, onto, tier: "clean".to_owned() }),
        })
    }

    fn rebuilds(&self) -> bool {
        self.is_linear && self.entry.base.is_some()
    }

    fn merged_tree(&self) -> Result<Result<TreeId, Conflict>, git::Error> {
        match git::merge::merge_commits(self.repo, self.sides.onto, self.sides.head) {
            Ok(tree) => Ok(Ok(tree)),
            Err(MergeError::Conflict(conflict)) => Ok(Err(conflict)),
            Err(MergeError::Git(error)) => Err(error),
        }
    }

    /// The entry's own commits, built again one by one.
    fn rebuilt(&self, writer: &mut Writer) -> Result<Result<(CommitId, TreeId), Conflict>, git::Error> {
        let MergeSidesOf { base, onto, head } = self.sides;
        let commits = landing::commits_since(self.repo, head, base)?;
        match landing::rebuild(self.repo, writer, &commits, base, onto) {
            Ok(copies) => {
                writer.flush()?;
                let commit = copies.last().copied().unwrap_or(onto);
                Ok(Ok((commit, self.repo.tree_of(commit)?)))
            }
            // One commit on the way conflicts; what they come to may not.
            Err(RebuildError::Conflict { .. }) => match self.whole_tree()? {
                Ok(tree) => Ok(Ok((self.rebuilt_with(writer, tree, "clean")?, tree))),
                Err(conflict) => Ok(Err(conflict)),
            },
            Err(RebuildError::Git(error)) => Err(error),
        }
    }

    /// All of the entry's own commits as one change.
    fn whole_tree(&self) -> Result<Result<TreeId, Conflict>, git::Error> {
        let tree = |commit| self.repo.tree_of(commit);
        let MergeSidesOf { base, onto, head } = self.sides;
        match git::merge::merge_trees(self.repo, tree(base)?, tree(onto)?, tree(head)?) {
            Ok(tree) => Ok(Ok(tree)),
            Err(MergeError::Conflict(conflict)) => Ok(Err(conflict)),
            Err(MergeError::Git(error)) => Err(error),
        }
    }

    fn merge_commit(&self, writer: &mut Writer, tree: TreeId, tier: &str) -> Result<CommitId, git::Error> {
        self.commit(writer, tree, vec![self.sides.onto, self.sides.head], self.message("merge", tier))
    }

    fn commit(
        &self,
        writer: &mut Writer,
        tree: TreeId,
        parents: Vec<CommitId>,
        message: CommitMessage,
    ) -> Result<CommitId, git::Error> {
        writer.commit(&CommitSpec {
            tree,
            parents,
            author: Person::pleach(),
            committer: Person::pleach(),
            message: message.write().into_bytes(),
            // Of the entry, so that building it again gives the same commit.
            at: self.entry.completed_at,
        })
    }

    fn message(&self, act: &str, tier: &str) -> CommitMessage {
        let resolved = self.entry.resolved.iter().map(|hunk| ("Pleach-Resolved".to_owned(), hunk.clone()));
        let own = [("Pleach-Merge".to_owned(), self.entry.id.to_string()), ("Pleach-Tier".to_owned(), tier.to_owned())];
        CommitMessage {
            subject: format!("{act}: {}", self.entry.name()),
            body: self.entry.title.clone(),
            trailers: own.into_iter().chain(resolved).collect(),
        }
    }

    /// The files of a resolution on the commit they are to be merged with. None where that has changed the same places.
    fn replayed(&self, resolution: &EntryResolution) -> Result<Option<TreeId>, git::Error> {
        let tree = |commit| self.repo.tree_of(commit);
        match git::merge::merge_trees(
            self.repo,
            tree(resolution.onto)?,
            tree(self.sides.onto)?,
            tree(resolution.commit)?,
        ) {
            Ok(tree) => Ok(Some(tree)),
            Err(MergeError::Conflict(_)) => Ok(None),
            Err(MergeError::Git(error)) => Err(error),
        }
    }

    /// The merge with files that an agent or a person has made of it.
    fn with_resolution(&self, tree: TreeId, resolution: &EntryResolution) -> Result<MergeBuild, git::Error> {
        let MergeSidesOf { onto, .. } = self.sides;
        let conflicted: BTreeSet<RepoPath> = self.entry.conflicts.iter().map(|file| file.path.clone()).collect();
        let mut writer = self.repo.writer();
        let commit = match self.plain()? {
            // Only the tests had failed: the merge is git's, and the repair a commit of its own on top of it.
            MergeBuild::Built(built) => {
                self.commit(&mut writer, tree, vec![built.commit], self.message("repair", &resolution.tier))?
            }
            _ if self.rebuilds() => self.rebuilt_with(&mut writer, tree, &resolution.tier)?,
            _ => self.merge_commit(&mut writer, tree, &resolution.tier)?,
        };
        writer.flush()?;
        if let Some(why) = self.unfit(tree, &conflicted)?.filter(|_| !conflicted.is_empty()) {
            return Ok(MergeBuild::Unfit(why));
        }
        Ok(MergeBuild::Built(BuiltMerge { commit, tree, onto, tier: resolution.tier.clone() }))
    }

    /// The entry's own commits, built again: those that conflict with the files before them, then a commit with the
    /// resolved ones, and the last commit on top of it.
    fn rebuilt_with(&self, writer: &mut Writer, tree: TreeId, tier: &str) -> Result<CommitId, git::Error> {
        let MergeSidesOf { base, onto, head } = self.sides;
        let commits = landing::commits_since(self.repo, head, base)?;
        let [before @ .., last] = &commits[..] else { return Ok(onto) };
        let (from, tip) = (self.repo.tree_of(base)?, self.repo.tree_of(onto)?);
        let (mut parent, mut files) = (onto, tip);
        for step in before {
            files = match git::merge::merge_trees(self.repo, from, tip, self.repo.tree_of(*step)?) {
                Ok(merged) => merged,
                Err(MergeError::Conflict(_)) => files,
                Err(MergeError::Git(error)) => return Err(error),
            };
            parent = writer.commit_again(*step, files, &[parent])?;
        }
        let resolved = self.commit(writer, tree, vec![parent], self.message("resolve", tier))?;
        writer.commit_again(*last, tree, &[resolved])
    }

    /// Why a merge result must not be tested: it lacks something of a side, or has markers of a conflict. What was resolved
    /// is not held to that.
    fn unfit(&self, merged: TreeId, resolved: &BTreeSet<RepoPath>) -> Result<Option<String>, git::Error> {
        let tree = |commit| self.repo.tree_of(commit);
        let [base, ours, theirs] = [tree(self.sides.base)?, tree(self.sides.onto)?, tree(self.sides.head)?];
        match git::check_merge_result(self.repo, base, ours, theirs, merged) {
            Ok(()) => {}
            Err(MergeCheckError::Loss(LossyMerge { mut findings })) => {
                findings.retain(|finding| !resolved.contains(&finding.path));
                if !findings.is_empty() {
                    return Ok(Some(LossyMerge { findings }.to_string()));
                }
            }
            Err(MergeCheckError::Git(error)) => return Err(error),
        }
        self.marked(merged)
    }

    /// Why a result must not be tested because of the markers of a conflict in it.
    fn marked(&self, merged: TreeId) -> Result<Option<String>, git::Error> {
        let marked = introduced_markers(self.repo, self.repo.tree_of(self.sides.onto)?, merged)?;
        Ok((!marked.is_empty()).then(|| format!("conflict markers are in {}", named(&marked))))
    }
}
