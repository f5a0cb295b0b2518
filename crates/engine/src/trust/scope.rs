//! Where something would be run, and what needs approval there.

use std::path::Path;

use super::linked_repos::linked_repos;
use super::{Error, TrustItem};
use git::Repo;
use pleach_core::config::{Environment, Resolved, supplied};
use pleach_core::ids::CommitId;
use pleach_core::plan::pipeline::Pipeline;

/// A clone, and the settings it is worked with.
#[derive(Debug, Clone, Copy)]
pub struct TrustScope<'a> {
    /// The clone.
    pub repo: &'a Repo,
    /// The settings, with where each came from.
    pub resolved: &'a Resolved,
    /// The variables agents and commands get, with those of the `.env` file.
    pub environment: &'a Environment,
    /// Where pleach keeps what belongs to the user and no repository.
    pub state_dir: &'a Path,
}

impl TrustScope<'_> {
    /// What needs approval before a pipeline is run, which is in `file`. `from` is where its agents start, `inputs`
    /// what a record brings along.
    pub fn for_pipeline(
        &self,
        from: CommitId,
        pipeline: &Pipeline,
        file: &str,
        inputs: Vec<TrustItem>,
    ) -> Result<Vec<TrustItem>, Error> {
        let mut items = self.settings();
        items.extend(inputs);
        items.extend(commands(pipeline, file));
        items.extend(self.worktree_base());
        items.extend(self.agent_files(self.repo.tree_of(from)?, pipeline.agent_nodes())?);
        Ok(items)
    }

    /// What needs approval beyond that where a session also works in this repository, from a commit on.
    pub fn for_further_repo(&self, from: CommitId, pipeline: &Pipeline) -> Result<Vec<TrustItem>, Error> {
        self.agent_files(self.repo.tree_of(from)?, pipeline.agent_nodes())
    }

    /// What the settings and the `.env` file bring along.
    pub(crate) fn settings(&self) -> Vec<TrustItem> {
        let settings = supplied(self.resolved, self.environment).into_iter();
        settings.chain(linked_repos(self.resolved)).map(TrustItem::from).collect()
    }
}

/// The commands of a pipeline, each with its node and where the pipeline is.
pub(crate) fn commands(pipeline: &Pipeline, place: &str) -> impl Iterator<Item = TrustItem> {
    pipeline.commands().into_iter().map(move |command| {
        let of_node = command.node.map(|node| format!(" of `{node}`")).unwrap_or_default();
        TrustItem::command(format!("{}{of_node}, {place}", command.attribute), command.text.to_owned())
    })
}
