//! A tree, and how it is worked: what a run is given.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::progress::ProgressReader;
use super::stamp::Stamp;
use crate::engine::secret_check;
use crate::event::Commits;
use crate::ids::{BranchName, RepoName};
use crate::plan::pipeline::Pipeline;
use crate::plan::tree::{TaskTree, TestCommand};
use crate::plan::{self, Inputs};
use crate::progress::Progress;
use crate::redact::Redactor;
use crate::schedule::ScheduleOptions;

/// A pipeline a task is worked by.
#[derive(Debug, Clone)]
pub struct TaskPipeline {
    /// The DOT text.
    pub dot: String,
    /// Where it was read from, for messages.
    pub path: String,
    /// The files it names.
    pub files: BTreeMap<String, String>,
}

/// A tree, and how it is worked.
#[derive(Debug, Clone)]
pub struct TreePlan {
    /// The tree.
    pub tree: Arc<TaskTree>,
    /// Its file, from the root of the repository.
    pub path: String,
    /// What the file holds.
    pub document: String,
    /// Where the file is, and when it was read.
    pub file: PathBuf,
    /// What the file looked like from outside when it was read.
    pub stamp: Option<Stamp>,
    /// The branch everything lands on.
    pub target: BranchName,
    /// The branch the target was begun on.
    pub base_branch: Option<BranchName>,
    /// What pleach's branches begin with.
    pub branch_prefix: String,
    /// The repository's name in the workspace.
    pub repo_name: RepoName,
    /// Attempts, gates, which task.
    pub limits: ScheduleOptions,
    /// What the branches of tasks carry.
    pub commits: Commits,
    /// What tests a task that does not say.
    pub test: Option<TestCommand>,
    /// How long a test may take that does not say.
    pub test_timeout: Duration,
    /// Where logs go, from the root of the repository.
    pub logs: String,
    /// Where reports go, likewise.
    pub reports: String,
    /// Whether logs and reports are committed.
    pub commit_logs: bool,
    /// The pipeline of tasks that do not say.
    pub pipeline: TaskPipeline,
    /// The pipelines tasks name, by the name they use.
    pub pipelines: BTreeMap<String, TaskPipeline>,
    /// The configuration, without keys and machine paths.
    pub config: Value,
    /// Begin again, whatever was done before.
    pub fresh: bool,
    /// Delete the branches of tasks and phases once their commits are on the target.
    pub delete_branches: bool,
    /// Stop after one task.
    pub one: bool,
}

impl TaskPipeline {
    /// What it is loaded with: the files it names, and these values.
    pub fn inputs(&self, values: BTreeMap<String, String>) -> Inputs {
        Inputs { files: self.files.clone(), values }
    }
}

impl TreePlan {
    /// The pipelines its tasks are worked by.
    pub fn used(&self) -> impl Iterator<Item = &TaskPipeline> {
        std::iter::once(&self.pipeline).chain(self.pipelines.values())
    }

    /// The same, read without the values of a task. One that cannot be read is left out.
    pub fn used_pipelines(&self) -> impl Iterator<Item = Pipeline> {
        self.used().filter_map(|used| plan::load_for_tasks(&used.dot, &used.inputs(BTreeMap::new())).0)
    }

    /// Refuses pipelines that hold a secret, before anything is done: none of their tasks could be begun.
    pub fn refuse_secrets(&self, redactor: &Redactor) -> Result<(), Error> {
        let mut used = self.used();
        Ok(used.try_for_each(|used| secret_check::pipeline(redactor, &used.path, &used.dot, &used.files))?)
    }

    /// What has become of its tree. What was done before does not count in a run that begins again, so it need not be seen
    /// to its beginning.
    pub fn progress(&self, reader: &mut ProgressReader) -> Result<Progress, super::progress::Error> {
        let progress = if self.fresh { reader.read(&self.path) } else { reader.read_whole(&self.path) };
        Ok(progress?.of(&self.tree))
    }
}
