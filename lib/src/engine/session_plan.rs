//! What a session is about: the same for all its contexts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::task::{TaskJob, shared_copy};
use crate::engine::{Engine, Error};
use crate::event::PipelineStarted;
use crate::git::{Repo, TreeId};
use crate::ids::{CommitId, ContextId, NodeId, RepoName, SessionId};
use crate::plan::pipeline::{Node, Pipeline};
use crate::plan::tree::TestCommand;
use crate::process::Cancel;
use crate::record;
use crate::state::State;
use crate::workspace::agent_home;

/// What a session is about: the same for all its contexts.
#[derive(Debug)]
pub(crate) struct SessionPlan {
    /// The session.
    pub id: SessionId,
    /// What it was started with.
    pub started: PipelineStarted,
    /// What it runs.
    pub pipeline: Arc<Pipeline>,
    /// The node it begins at.
    pub start_node: NodeId,
    /// The task it works on, in a tree.
    pub job: Option<Arc<TaskJob>>,
    /// The repository that holds the record.
    pub record_repo: RepoName,
    /// The repositories it works in.
    pub repos: BTreeMap<RepoName, Repo>,
    /// Ends it, with all it is a part of or alone.
    pub cancel: Cancel,
}

impl SessionPlan {
    /// That of a session in one repository.
    pub(super) fn new(
        id: SessionId,
        started: PipelineStarted,
        pipeline: Pipeline,
        repo: Repo,
        job: Option<Arc<TaskJob>>,
        cancel: Cancel,
    ) -> Result<Self, Error> {
        let (start_node, record_repo) = (start_node(&pipeline)?, started.first_repo().clone());
        let repos = BTreeMap::from([(record_repo.clone(), repo)]);
        Ok(Self { id, started, pipeline: Arc::new(pipeline), start_node, job, record_repo, repos, cancel })
    }

    /// The repository that holds the record.
    pub(in crate::engine) fn repo(&self) -> &Repo {
        self.repos.get(&self.record_repo).expect("the repositories of a session are open")
    }

    /// The place of a context's worktrees, below that of all.
    pub(in crate::engine) fn place(&self, context: &ContextId) -> PathBuf {
        match &self.started.task {
            // The tasks of a target are worked on one after another, and share what git ignores: caches, builds. What forks
            // from one is worked beside it.
            Some(task) if *context == record::root() => shared_copy(&task.target),
            _ => Path::new(self.id.as_str()).join(context.as_str()),
        }
    }

    /// The directory agents of a context work in.
    pub(in crate::engine) fn root(&self, engine: &Engine, context: &ContextId) -> PathBuf {
        engine.worktree_base(self.repo(), &self.record_repo).join(self.place(context))
    }

    /// The directory of a context's agents.
    pub(in crate::engine) fn agent_home(&self, engine: &Engine, context: &ContextId) -> PathBuf {
        agent_home(&engine.supervisor.state_dir, self.repo().common_dir(), &self.id).join(context.as_str())
    }

    /// The files of the newest recorded commits.
    pub(in crate::engine) fn trees(&self, state: &State) -> Result<BTreeMap<RepoName, TreeId>, Error> {
        let tree = |(name, commit): (&RepoName, &CommitId)| {
            let repo = self.repos.get(name).unwrap_or(self.repo());
            Ok((name.clone(), repo.tree_of(*commit)?))
        };
        state.work.iter().map(tree).collect()
    }

    /// The variables of the pipeline, for commands: their shell expands `$goal`, so that no text becomes a command.
    pub(in crate::engine) fn variables(&self) -> Vec<(String, String)> {
        let goal = std::iter::once(("goal".to_owned(), self.started.goal.clone()));
        let inputs = goal.chain(self.started.inputs.clone());
        inputs.map(|(name, value)| (name, for_environment(&value))).collect()
    }

    /// What a test step runs: its own command, or what tests the task. None for every other node.
    pub(in crate::engine) fn tests_of(&self, node: &Node) -> Option<Vec<TestCommand>> {
        self.job.as_ref()?.tests_of(node)
    }

    /// The same where the task is tested outside of an attempt: without such a step, what tests the task.
    pub(in crate::engine) fn tests_at_all(&self, node: &Node) -> Vec<TestCommand> {
        let job = self.job.as_ref().expect("only sessions on tasks do this");
        job.tests_of(node).unwrap_or_else(|| job.tests.clone())
    }
}

/// The node a run begins at.
pub(super) fn start_node(pipeline: &Pipeline) -> Result<crate::ids::NodeId, Error> {
    match (pipeline.start(), pipeline.exit()) {
        (Some(start), Some(_)) => Ok(start.id.clone()),
        _ => Err(Error::Invalid { diagnostics: Vec::new() }),
    }
}

/// How long a variable of the environment may be: systems refuse to start a program that has one of 128 KiB.
const LONGEST_VARIABLE: usize = 100_000;

/// A text as a variable of the environment can hold it: its beginning, and U+FFFD for NUL.
fn for_environment(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(LONGEST_VARIABLE));
    text
}

/// The directory beside a session's worktree in which its nodes leave their status files, which are of no use when a
/// node has ended, and where agents find what earlier nodes answered and printed.
pub(super) const RUN_DIR: &str = "run";
