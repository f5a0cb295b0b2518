//! The plan of a session, shared by all its contexts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::task::TaskJob;
use crate::env::{Engine, Error, SessionRepos};
use crate::mirror::MirrorQueue;
use crate::push::{PushQueue, RefNote};
use crate::view::start_node;
use git::Repo;
use git::workspace::{FIRST_SLOT, agent_home, branch_ref, task_slot_path};
use os::process::Cancel;
use pleach_core::event::PipelineStarted;
use pleach_core::ids::{BranchName, ContextId, NodeId, RepoName, RunId, TaskId};
use pleach_core::plan::pipeline::{Node, Pipeline};
use pleach_core::plan::tree::TestCommand;
use pleach_core::state::State;

/// The plan of a session, shared by all its contexts.
#[derive(Debug)]
pub(crate) struct SessionPlan {
    pub run: RunId,
    /// The start event, with its pipeline and inputs.
    pub started: PipelineStarted,
    /// The pipeline it runs.
    pub pipeline: Arc<Pipeline>,
    /// The node it starts at.
    pub start_node: NodeId,
    /// Its task, if it is part of a tree run.
    pub job: Option<Arc<TaskJob>>,
    /// The slot in which its task is worked.
    pub slot: u32,
    /// The repositories it works in.
    pub repos: SessionRepos,
    /// Stops it, alone or with the run it belongs to.
    pub cancel: Cancel,
    /// What is pushed of it.
    pub push: PushQueue,
    /// What is copied of it to a mirror.
    pub mirror: MirrorQueue,
}

impl SessionPlan {
    /// The plan of a session. All its repositories must be open.
    pub(super) fn new(
        run: RunId,
        started: PipelineStarted,
        pipeline: Pipeline,
        repos: SessionRepos,
        job: Option<Arc<TaskJob>>,
        cancel: Cancel,
    ) -> Result<Self, Error> {
        if let Some(repo) = repos.lacks(started.branches.keys()) {
            return Err(Error::RepoMissing { session: run.session, repo: repo.clone() });
        }
        let start_node = start_node(&pipeline)?;
        let (pipeline, slot) = (Arc::new(pipeline), FIRST_SLOT);
        let (push, mirror) = (PushQueue::default(), MirrorQueue::default());
        Ok(Self { run, started, pipeline, start_node, job, slot, repos, cancel, push, mirror })
    }

    /// The id of its task, if it is part of a tree run.
    pub(crate) fn task_id(&self) -> Option<TaskId> {
        self.job.as_ref().map(|job| job.task.id.clone())
    }

    /// The repository that holds the record.
    pub(crate) fn repo(&self) -> &Repo {
        self.repos.record()
    }

    /// One of its repositories.
    pub(crate) fn repo_of(&self, name: &RepoName) -> &Repo {
        self.repos.get(name).expect("the repositories of a session are open")
    }

    /// The path of a context's worktrees below the base of all worktrees.
    pub(crate) fn place(&self, context: &ContextId) -> PathBuf {
        match &self.started.task {
            // The tasks of a target share its slots, with ignored files: caches, builds. A fork of one gets its own
            // worktree.
            Some(task) if *context == ContextId::main() => task_slot_path(&task.target, self.slot),
            _ => Path::new(self.run.session.as_str()).join(context.as_str()),
        }
    }

    /// The directory in which agents of a context work.
    pub(crate) fn root(&self, engine: &Engine, context: &ContextId) -> PathBuf {
        engine.worktree_base(self.repo(), self.repos.record_name()).join(self.place(context))
    }

    /// The home directory of a context's agents.
    pub(crate) fn agent_home(&self, engine: &Engine, context: &ContextId) -> PathBuf {
        agent_home(&engine.supervisor.state_dir, self.repo().common_dir(), &self.run.session).join(context.as_str())
    }

    /// The branches of a context where its record has them, in repositories without records: there nothing else brings
    /// these commits to a remote, and the branches themselves may be missing or behind.
    pub(crate) fn work_in_others(&self, state: &State) -> Vec<RefNote> {
        let recorded = state.on_branches();
        let note = |(repo, branch): (&RepoName, &BranchName)| {
            let commit = *recorded.get(repo).filter(|_| repo != self.repos.record_name())?;
            Some(RefNote { repo: repo.clone(), name: branch_ref(branch), commit })
        };
        state.branches.iter().filter_map(note).collect()
    }

    /// The pipeline's variables for commands: their shell expands `$goal`, so that no text becomes a command.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let goal = std::iter::once(("goal".to_owned(), self.started.goal.clone()));
        let inputs = goal.chain(self.started.inputs.clone());
        inputs.map(|(name, value)| (name, for_environment(&value))).collect()
    }

    /// The tests of a test step: its own command, or the task's tests. `None` for every other node.
    pub(crate) fn tests_of(&self, node: &Node) -> Option<Vec<TestCommand>> {
        self.job.as_ref()?.tests_of(node)
    }

    /// Like [`Self::tests_of`] outside of an attempt: a node that is not a test step runs the task's tests.
    pub(crate) fn tests_at_all(&self, node: &Node) -> Vec<TestCommand> {
        let job = self.job.as_ref().expect("only sessions on tasks do this");
        job.tests_of(node).unwrap_or_else(|| job.tests.clone())
    }
}

/// The maximum length of an environment variable: systems refuse to start a program with one of 128 KiB.
const LONGEST_VARIABLE: usize = 100_000;

/// A text that fits into an environment variable: truncated, with U+FFFD for NUL.
fn for_environment(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(LONGEST_VARIABLE));
    text
}
