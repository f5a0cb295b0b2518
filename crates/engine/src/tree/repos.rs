//! The repositories of a tree whose tasks are in several. A run over such a tree is made of runs in each of them, which
//! see the same tree: each works the tasks of its own repository, and reads what became of the others where they are.

use std::collections::{BTreeMap, BTreeSet};

use super::progress::{self, ProgressReader};
use crate::session::JointRepo;
use git::Repo;
use pleach_core::ids::{BranchName, RepoName, TaskId};
use pleach_core::plan::tree::{NodeRepos, TaskTree};
use pleach_core::progress::Progress;
use pleach_core::step::TreeName;

/// A repository of a tree.
#[derive(Debug, Clone)]
pub struct TreeRepo {
    /// Its name in the workspace.
    pub name: RepoName,
    /// The repository.
    pub repo: Repo,
    /// The branch its tasks land on.
    pub target: BranchName,
    /// The prefix of pleach's branches.
    pub branch_prefix: String,
    /// The branch the target was started on.
    pub base_branch: Option<BranchName>,
}

/// The repositories of a tree whose tasks are in several.
#[derive(Debug, Clone)]
pub struct TreeRepos {
    /// Where the nodes are worked.
    pub nodes: NodeRepos,
    /// All repositories of the workspace, by name: tests that are about several see them all.
    pub all: Vec<TreeRepo>,
}

impl TreeRepos {
    /// What happened to the tree, in each repository that has something of it to do.
    pub fn read(&self, tree: &TaskTree, name: &TreeName) -> Result<BTreeMap<RepoName, Progress>, progress::Error> {
        self.used(tree).map(|repo| Ok((repo.name.clone(), repo.reader().read(name)?.of(tree)))).collect()
    }

    /// The repositories in which there is something to do, by name.
    pub fn used(&self, tree: &TaskTree) -> impl Iterator<Item = &TreeRepo> {
        let used: BTreeSet<RepoName> = self.nodes.used(tree).into_iter().cloned().collect();
        self.all.iter().filter(move |repo| used.contains(&repo.name))
    }

    /// The other repositories that the tests of a node see.
    pub(super) fn beside(&self, own: &RepoName, node: &TaskId) -> Vec<JointRepo> {
        let joint = |repo: &TreeRepo| JointRepo {
            name: repo.name.clone(),
            repo: repo.repo.clone(),
            branch: repo.target.clone(),
        };
        let is_joint = self.nodes.is_joint(node);
        self.all.iter().filter(|repo| is_joint && repo.name != *own).map(joint).collect()
    }
}

impl TreeRepo {
    /// A reader of what happened there.
    pub fn reader(&self) -> ProgressReader {
        ProgressReader::new(&self.repo, &self.target, &self.branch_prefix, self.base_branch.as_ref())
    }
}
