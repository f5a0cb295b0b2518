//! What a session has done in one of its repositories.

use super::Summary;
use crate::env::{Error, SessionRepos};
use git::Repo;
use git::workspace::branch_ref;
use pleach_core::ids::{BranchName, CommitId, RepoName};

/// What a session has done in one of its repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepoWork<'a> {
    /// The repository.
    pub repo: &'a RepoName,
    /// The session branch there.
    pub branch: &'a BranchName,
    /// The branch that was checked out there, which the work is for.
    pub target: Option<&'a BranchName>,
    /// The commit it started from.
    pub base: Option<CommitId>,
    /// Its newest recorded commit.
    pub work: Option<CommitId>,
    /// The newest commit the branch should have.
    pub on_branch: Option<CommitId>,
    /// The next session on the same task has the branch by now.
    is_handed_on: bool,
}

impl Summary {
    /// What it has done in each repository, by name.
    pub fn repos(&self) -> impl Iterator<Item = RepoWork<'_>> {
        self.started.branches.keys().filter_map(|repo| self.in_repo(repo))
    }

    /// What it has done in a repository.
    pub fn in_repo(&self, repo: &RepoName) -> Option<RepoWork<'_>> {
        let (repo, branch) = self.started.branches.get_key_value(repo)?;
        Some(RepoWork {
            repo,
            branch,
            target: self.started.targets.get(repo),
            base: self.state.base.get(repo).copied(),
            work: self.state.work.get(repo).copied(),
            on_branch: self.state.on_branches().get(repo).copied(),
            is_handed_on: self.state.task.as_ref().is_some_and(|task| task.landed.is_some()),
        })
    }

    /// Whether it made commits, and the branches they are for have all of them. A repository that is not among `repos` may
    /// lack them.
    pub fn is_merged(&self, repos: &SessionRepos) -> Result<bool, Error> {
        let mut has_changed = false;
        for repo_work in self.repos().filter(RepoWork::has_changed) {
            match repos.get(repo_work.repo) {
                Some(repo) if repo_work.is_merged(repo)? => has_changed = true,
                _ => return Ok(false),
            }
        }
        Ok(has_changed)
    }
}

impl RepoWork<'_> {
    /// Whether there is a commit of the session.
    pub fn has_changed(&self) -> bool {
        self.work.is_some() && self.work != self.base
    }

    /// The tip of the branch; `None` if it was removed.
    pub fn branch_at(&self, repo: &Repo) -> Result<Option<CommitId>, Error> {
        Ok(repo.refs().find(&branch_ref(self.branch))?)
    }

    /// The newest commit the branch should have and lacks, if the branch exists.
    pub fn missing_on_branch(&self, repo: &Repo) -> Result<Option<CommitId>, Error> {
        Ok(match self.branch_at(repo)?.zip(self.on_branch) {
            Some(_) if self.is_handed_on => None,
            Some((at, tip)) if !repo.history().is_ancestor(tip, at)? => Some(tip),
            _ => None,
        })
    }

    /// Whether the branch the work is for has its newest commit.
    pub fn is_merged(&self, repo: &Repo) -> Result<bool, Error> {
        let Some((work, target)) = self.work.zip(self.target) else { return Ok(false) };
        let at = repo.refs().find(&branch_ref(target))?;
        // An unreadable branch contains nothing.
        Ok(at.is_some_and(|at| repo.history().is_ancestor(work, at).unwrap_or(false)))
    }
}
