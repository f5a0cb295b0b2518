//! The repositories of a tree whose tasks are in several.

use std::sync::Arc;

use engine::tree::progress::named_base;
use engine::tree::{self, TreeRepo, TreeRepos};
use pleach_core::ids::{RepoName, TaskId};
use pleach_core::plan::tree::TaskTree;
use pleach_core::schedule::NextAction;

use crate::code::Code;
use crate::failure::Failure;
use crate::place::target;
use crate::place::{Place, Places};
use crate::settings::Settings;

/// The repositories of a tree whose tasks are in several.
#[derive(Debug, Clone)]
pub struct TreePlaces {
    /// As the runs in them need them.
    pub repos: Arc<TreeRepos>,
    /// Those in which there is something to do, by name.
    pub used: Vec<Place>,
}

impl TreePlaces {
    /// The repositories of a tree that belongs to `own`; none if all there is to do is there.
    pub fn find(tree: &TaskTree, own: &Place, settings: &Settings) -> Result<Option<Self>, Failure> {
        if !tree.names_repos() {
            return Ok(None);
        }
        let known = &settings.resolved.config.workspace.repos;
        let is_unknown = |repo: &RepoName| *repo != own.name && !known.contains_key(repo);
        let named = tree.nodes().find_map(|node| Some((&node.id, node.repo.as_ref().filter(|repo| is_unknown(repo))?)));
        if let Some((task, repo)) = named {
            return Err(no_repo_of_task(task, repo));
        }
        let nodes = tree.repos(&own.name);
        if nodes.used(tree).into_iter().all(|repo| *repo == own.name) {
            return Ok(None);
        }
        let others = known.keys().filter(|name| **name != own.name).map(|name| Place::named(name, settings));
        let places = Places { record: own.clone(), others: others.collect::<Result<_, _>>()? };
        places.refuse_doubles()?;
        let mut all = places.all().map(|place| tree_repo(place, settings)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let mut used: Vec<Place> =
            places.all().filter(|place| nodes.used(tree).contains(&place.name)).cloned().collect();
        used.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Some(Self { repos: Arc::new(TreeRepos { nodes, all }), used }))
    }

    /// The repository of a node.
    pub fn of(&self, node: &TaskId) -> Option<&TreeRepo> {
        let name = self.repos.nodes.of(node);
        self.repos.all.iter().find(|repo| repo.name == *name)
    }
}

/// What is done first in any of several repositories, by what is next in each: what comes first in the tree, and only
/// then why nothing can be done.
pub fn first_next(tree: &TaskTree, nexts: impl IntoIterator<Item = NextAction>) -> NextAction {
    let place = |next: &NextAction| tree::place_in_order(tree, next).unwrap_or(usize::MAX);
    let first = nexts.into_iter().min_by_key(|next| (place(next), *next == NextAction::Done));
    first.unwrap_or(NextAction::Done)
}

fn tree_repo(place: &Place, settings: &Settings) -> Result<TreeRepo, Failure> {
    let target = target(place)
        .map_err(|failure| Failure { message: format!("in `{}`: {}", place.name, failure.message), ..failure })?;
    // Each repository has branches of its own.
    let base = settings.resolved.config.tree.base_branch.clone();
    Ok(TreeRepo {
        name: place.name.clone(),
        repo: place.repo.clone(),
        target,
        branch_prefix: place.branch_prefix.clone(),
        base_branch: base.filter(|base| named_base(&place.repo, base).is_ok()),
    })
}

fn no_repo_of_task(task: &TaskId, repo: &RepoName) -> Failure {
    let message = format!("{task} is of the repository `{repo}`, which the workspace does not have");
    Failure::new(Code::NoSuchRepo, message).hint("`workspace.repos` in pleach.yaml lists its repositories")
}
