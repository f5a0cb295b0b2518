//! The input for starting a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::task::{TaskJob, TaskSlot};
use crate::env::{Error, SessionRepos};
use git::workspace::session_branch;
use git::{BlobId, Head, Repo};
use pleach_core::event::{AttemptStarted, Event, PipelineStarted, Snapshot, TaskOf};
use pleach_core::ids::{BranchName, CommitId, EntryId, RepoName, SessionId};
use pleach_core::plan::pipeline::Pipeline;

/// A repository a session is to work in.
#[derive(Debug, Clone)]
pub struct SessionRepo {
    /// The repository.
    pub repo: Repo,
    /// Its name in the workspace.
    pub name: RepoName,
    /// The prefix of session branches.
    pub branch_prefix: String,
    /// Where the session starts, and the branch its work is for; what is checked out if `None`.
    pub at: Option<Head>,
    /// How it came to be there: the event of its clone or its fetch.
    pub arrival: Option<Event>,
}

/// The input for starting a session.
#[derive(Debug)]
pub struct StartRequest {
    /// The repository that holds the record.
    pub record: SessionRepo,
    /// The other repositories.
    pub others: Vec<SessionRepo>,
    /// The validated pipeline.
    pub pipeline: Pipeline,
    /// The source of the pipeline, byte for byte.
    pub dot: String,
    /// The path of the source, for messages.
    pub dot_path: String,
    /// The files it names.
    pub files: BTreeMap<String, String>,
    /// `k=v` inputs.
    pub inputs: BTreeMap<String, String>,
    /// The configuration, without keys and machine paths.
    pub config: Value,
    /// Agent nodes only pretend.
    pub simulated: bool,
    /// The entry of the merge queue whose conflict it resolves.
    pub resolves: Option<EntryId>,
}

impl StartRequest {
    /// The repositories, opened.
    pub(super) fn repos(&self) -> SessionRepos {
        let open = |repo: &SessionRepo| (repo.name.clone(), repo.repo.clone());
        SessionRepos::new(self.record.name.clone(), self.record.repo.clone(), self.others.iter().map(open))
    }

    /// How the repositories came to be there.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = Event> {
        std::iter::once(&self.record).chain(&self.others).filter_map(|repo| repo.arrival.clone())
    }

    pub(super) fn started(&self, id: &SessionId) -> Result<PipelineStarted, Error> {
        let invalid = |error: pleach_core::ids::InvalidId| Error::Name(error.to_string());
        let name = self.pipeline.name().map_err(invalid)?;
        let (mut base, mut branches, mut targets) = (Snapshot::new(), BTreeMap::new(), BTreeMap::new());
        for repo in std::iter::once(&self.record).chain(&self.others) {
            let at = repo.at.clone().map_or_else(|| repo.repo.head(), Ok)?;
            let branch = session_branch(&repo.branch_prefix, &name, id).map_err(invalid)?;
            refuse_clash(&repo.repo, branch.as_str())?;
            base.insert(repo.name.clone(), at.commit);
            branches.insert(repo.name.clone(), branch);
            targets.extend(at.branch.map(|target| (repo.name.clone(), target)));
        }
        let is_first = branches.keys().next() == Some(&self.record.name);
        Ok(PipelineStarted {
            name,
            goal: self.pipeline.goal.clone(),
            dot: self.dot.clone(),
            dot_path: self.dot_path.clone(),
            files: self.files.clone(),
            inputs: self.inputs.clone(),
            config: self.config.clone(),
            base,
            branches,
            targets,
            record_repo: (!is_first).then(|| self.record.name.clone()),
            simulated: self.simulated,
            task: None,
            resolves: self.resolves.clone(),
            extra: Default::default(),
        })
    }
}

/// The input for a session on a task, in addition to its pipeline.
#[derive(Debug)]
pub struct TaskStart {
    /// The task, as recorded.
    pub of: TaskOf,
    /// The task, as the session needs it.
    pub job: Arc<TaskJob>,
    /// The tree's file as it runs, without secrets.
    pub document: BlobId,
    /// The task's branch.
    pub branch: BranchName,
    /// The commit the session starts from.
    pub base: CommitId,
    /// The first attempt.
    pub attempt: AttemptStarted,
    /// The worktree it uses.
    pub worktree: TaskSlot,
}

impl TaskStart {
    pub(super) fn started(&self, request: &StartRequest) -> Result<PipelineStarted, Error> {
        let name = request.pipeline.name().map_err(|error| Error::Name(error.to_string()))?;
        Ok(PipelineStarted {
            name,
            goal: request.pipeline.goal.clone(),
            dot: request.dot.clone(),
            dot_path: request.dot_path.clone(),
            files: request.files.clone(),
            inputs: request.inputs.clone(),
            config: request.config.clone(),
            base: Snapshot::from([(request.record.name.clone(), self.base)]),
            branches: [(request.record.name.clone(), self.branch.clone())].into(),
            targets: [(request.record.name.clone(), self.of.target.clone())].into(),
            record_repo: None,
            simulated: request.simulated,
            task: Some(self.of.clone()),
            resolves: None,
            extra: Default::default(),
        })
    }
}

/// The file in a session's first record that holds the tree as it ran.
pub(crate) const TREE_FILE: &str = "task-tree.json";

/// Refuses a branch name whose parent directory is an existing branch, since git cannot hold both. Checked before
/// anything is written, because a session without a branch is useless.
pub(crate) fn refuse_clash(repo: &Repo, branch: &str) -> Result<(), Error> {
    for (end, _) in branch.match_indices('/') {
        let above = &branch[..end];
        if repo.refs().find(&format!("refs/heads/{above}"))?.is_some() {
            return Err(Error::Name(format!("git cannot have a branch `{branch}` beside your branch `{above}`")));
        }
    }
    Ok(())
}
