//! The input of a tree run: the tree and its settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::progress::ProgressReader;
use super::queue_plan::QueueLanding;
use super::repos::TreeRepos;
use super::stamp::Stamp;
use crate::env::secret_check;
use pleach_core::event::{Commits, TaskOf};
use pleach_core::ids::{BranchName, RepoName};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::plan::tree::{TaskTree, TestCommand};
use pleach_core::plan::{self, Inputs};
use pleach_core::progress::Progress;
use pleach_core::redact::Redactor;
use pleach_core::schedule::ScheduleOptions;
use pleach_core::step::TreeName;

/// The pipeline of a task.
#[derive(Debug, Clone)]
pub struct TaskPipeline {
    /// The DOT text.
    pub dot: String,
    /// Where it was read from, for messages.
    pub path: String,
    /// The files it names.
    pub files: BTreeMap<String, String>,
}

/// A tree and the settings of its run.
#[derive(Debug, Clone)]
pub struct TreePlan {
    /// The tree.
    pub tree: Arc<TaskTree>,
    /// What its steps name as their tree.
    pub name: TreeName,
    /// The content of its file, or what one with the tasks would hold.
    pub document: String,
    /// The path of its file on disk; none for ad-hoc tasks.
    pub file: Option<PathBuf>,
    /// The file's stamp when it was read.
    pub stamp: Option<Stamp>,
    /// The branch everything lands on.
    pub target: BranchName,
    /// The branch the target was started on.
    pub base_branch: Option<BranchName>,
    /// The prefix of pleach's branches.
    pub branch_prefix: String,
    /// The repository's name in the workspace.
    pub repo_name: RepoName,
    /// The repositories of the tree, if its tasks are not all in this one.
    pub repos: Option<Arc<TreeRepos>>,
    /// Attempts, gates, and the selected task.
    pub limits: ScheduleOptions,
    /// What the branches of tasks carry.
    pub commits: Commits,
    /// The default test of a task.
    pub test: Option<TestCommand>,
    /// The default timeout of a test.
    pub test_timeout: Duration,
    /// The directory of logs, relative to the root of the repository.
    pub logs: String,
    /// The directory of reports, likewise.
    pub reports: String,
    /// Whether logs are committed; otherwise they are only in the record.
    pub commit_logs: bool,
    /// Whether reports are committed, likewise.
    pub commit_reports: bool,
    /// The default pipeline of tasks.
    pub pipeline: TaskPipeline,
    /// The pipelines that tasks name, by that name.
    pub pipelines: BTreeMap<String, TaskPipeline>,
    /// The configuration, without keys and machine paths.
    pub config: Value,
    /// Restart, ignoring all earlier work.
    pub fresh: bool,
    /// Delete the branches of tasks and phases once their commits are on the target.
    pub delete_branches: bool,
    /// Stop after one task.
    pub one: bool,
    /// How many tasks are worked at once.
    pub jobs: usize,
    /// How tasks land through the merge queue; otherwise the run lands them itself.
    pub queue: Option<QueueLanding>,
}

impl TaskPipeline {
    /// The inputs it is loaded with: the files it names, and these values.
    pub fn inputs(&self, values: BTreeMap<String, String>) -> Inputs {
        Inputs { files: self.files.clone(), values }
    }
}

impl TreePlan {
    /// The pipelines of its tasks.
    pub fn used(&self) -> impl Iterator<Item = &TaskPipeline> {
        std::iter::once(&self.pipeline).chain(self.pipelines.values())
    }

    /// Like [`Self::used`], parsed without the values of a task. Invalid ones are left out.
    pub fn used_pipelines(&self) -> impl Iterator<Item = Pipeline> {
        self.used().filter_map(|used| plan::load_for_tasks(&used.dot, &used.inputs(BTreeMap::new())).0)
    }

    /// Refuses pipelines that hold a secret up front: none of their tasks could start.
    pub fn refuse_secrets(&self, redactor: &Redactor) -> Result<(), Error> {
        let mut used = self.used();
        Ok(used.try_for_each(|used| secret_check::pipeline(redactor, &used.path, &used.dot, &used.files))?)
    }

    /// The progress of its tree. A restart ignores earlier work, so the history need not be complete.
    pub fn progress(&self, reader: &mut ProgressReader) -> Result<Progress, super::progress::Error> {
        let progress = if self.fresh { reader.read(&self.name) } else { reader.read_whole(&self.name) };
        Ok(self.of_own(progress?))
    }

    /// As much of the progress as is about its tasks.
    pub(super) fn of_own(&self, progress: Progress) -> Progress {
        let progress = progress.of(&self.tree);
        if self.name == TreeName::Tasks { progress.only(&self.tree) } else { progress }
    }

    /// The progress with what the tree's other repositories have.
    pub fn beside_others(&self, progress: Progress, others: &BTreeMap<RepoName, Progress>) -> Progress {
        match &self.repos {
            Some(repos) => progress.with_outside(&self.tree, &self.repo_name, &repos.nodes, others),
            None => progress,
        }
    }

    /// What happened to the tree in its other repositories.
    pub fn others(&self) -> Result<BTreeMap<RepoName, Progress>, super::progress::Error> {
        let Some(repos) = &self.repos else { return Ok(BTreeMap::new()) };
        let mut all = repos.read(&self.tree, &self.name)?;
        all.remove(&self.repo_name);
        Ok(all)
    }

    /// Whether a session works on one of its tasks. A tree's file may have lost the task since; of ad-hoc tasks others
    /// may be worked by other runs.
    pub(super) fn has_session_on(&self, task: &TaskOf) -> bool {
        let is_named = task.target == self.target && self.name.is_named(&task.tree, &task.id);
        is_named && (self.name != TreeName::Tasks || self.tree.is_leaf(&task.id))
    }
}
