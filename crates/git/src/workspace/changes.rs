//! What a turn changed in all repositories of a context.

use std::collections::BTreeMap;

use super::change::TurnChange;
use super::error::Error;
use crate::git::{CommitSpec, TreeId, Writer};
use pleach_core::event::{Snapshot, Warning};
use pleach_core::ids::{CommitId, RepoName, RepoPath};

/// What a turn changed, by repository.
#[derive(Debug)]
pub struct Changes {
    pub(super) by_repo: BTreeMap<RepoName, TurnChange>,
}

impl Changes {
    /// One repository after another.
    pub fn iter(&self) -> impl Iterator<Item = (&RepoName, &TurnChange)> {
        self.by_repo.iter()
    }

    /// The change in a repository.
    pub fn of(&self, repo: &RepoName) -> Option<&TurnChange> {
        self.by_repo.get(repo)
    }

    /// Whether there is anything to commit.
    pub fn is_committed(&self) -> bool {
        self.by_repo.values().any(|change| change.commit.is_some())
    }

    /// The commits.
    pub fn commits(&self) -> Snapshot {
        self.by_repo.iter().filter_map(|(repo, change)| Some((repo.clone(), change.commit?))).collect()
    }

    /// The agents' own commits that were joined.
    pub fn agent_heads(&self) -> Snapshot {
        self.by_repo.iter().filter_map(|(repo, change)| Some((repo.clone(), change.agent_head?))).collect()
    }

    /// The trees the worktrees have now.
    pub fn trees(&self) -> BTreeMap<RepoName, TreeId> {
        self.by_repo.iter().map(|(repo, change)| (repo.clone(), change.tree)).collect()
    }

    /// The files in its commits.
    pub fn files(&self) -> BTreeMap<RepoName, Vec<RepoPath>> {
        let committed = self.by_repo.iter().filter(|(_, change)| change.commit.is_some() && !change.paths.is_empty());
        committed.map(|(repo, change)| (repo.clone(), change.paths.clone())).collect()
    }

    /// All paths that differ from the turn before, whatever their repository.
    pub fn paths(&self) -> impl Iterator<Item = &RepoPath> {
        self.by_repo.values().flat_map(|change| &change.paths)
    }

    /// The message of its commits, without trailers.
    pub fn message(&self) -> Option<&String> {
        self.by_repo.values().find_map(|change| change.message.as_ref())
    }

    /// What a person should know.
    pub fn warnings(&self) -> impl Iterator<Item = &Warning> {
        self.by_repo.values().flat_map(|change| &change.warnings)
    }

    /// Adds what a person should know.
    pub fn warn(&mut self, warnings: impl IntoIterator<Item = Warning>) {
        if let Some(change) = self.by_repo.values_mut().last() {
            change.warnings.extend(warnings);
        }
    }

    /// Takes the writers that hold its objects, leaving empty ones.
    pub fn take_writers(&mut self, workspace: impl Fn(&RepoName) -> Writer) -> BTreeMap<RepoName, Writer> {
        let take = |(repo, change): (&RepoName, &mut TurnChange)| {
            (repo.clone(), std::mem::replace(&mut change.writer, workspace(repo)))
        };
        self.by_repo.iter_mut().map(take).collect()
    }

    /// Adds a commit on top of the one a repository has, or of its newest recorded one.
    pub fn add_commit(
        &mut self,
        repo: &RepoName,
        tip: CommitId,
        spec: impl FnOnce(TreeId, CommitId) -> CommitSpec,
    ) -> Result<Option<CommitId>, Error> {
        let Some(change) = self.by_repo.get_mut(repo) else { return Ok(None) };
        let commit = change.writer.commit(&spec(change.tree, change.commit.unwrap_or(tip)))?;
        change.commit = Some(commit);
        Ok(Some(commit))
    }

    /// Writes its objects, so that they can be looked into.
    pub fn flush(&mut self) -> Result<(), Error> {
        for change in self.by_repo.values_mut() {
            change.writer.flush()?;
        }
        Ok(())
    }
}
