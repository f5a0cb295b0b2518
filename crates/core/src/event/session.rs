//! How a session starts, where it is, and how it ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, PreEncoded, ReplayChanges, Replayed, Return, Snapshot, Status, TaskOf};
use crate::ids::{BranchName, CommitId, ContextId, EntryId, NodeId, PipelineName, RepoName};

/// See [`Event::PipelineStarted`](super::Event::PipelineStarted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineStarted {
    /// The pipeline's name as branches and trailers have it.
    pub name: PipelineName,
    /// The graph's goal after expansion.
    pub goal: String,
    /// The DOT file, byte for byte.
    pub dot: String,
    /// Where the DOT file was read from, for messages only.
    pub dot_path: String,
    /// Files the DOT file names (`@file` prompts), by the name it uses.
    pub files: BTreeMap<String, String>,
    /// `k=v` inputs.
    pub inputs: BTreeMap<String, String>,
    /// The resolved configuration, without keys and machine paths.
    pub config: Value,
    /// Where each repository was.
    pub base: Snapshot,
    /// The session branch of each repository.
    pub branches: BTreeMap<RepoName, BranchName>,
    /// The branch the user had checked out in each repository, where there was one: what a finished run is merged into.
    #[serde(default)]
    pub targets: BTreeMap<RepoName, BranchName>,
    /// The repository that holds the record, if it is not the first by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_repo: Option<RepoName>,
    /// Agent nodes only pretend. In older records also where no agent was configured.
    #[serde(default)]
    pub simulated: bool,
    /// The task of a tree it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskOf>,
    /// The entry of the merge queue whose conflict it resolves: then pleach started it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolves: Option<EntryId>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl PipelineStarted {
    /// The commit its task is built on, or where the repository of its record was.
    pub fn built_on(&self) -> Option<CommitId> {
        let repo = self.task.as_ref().map_or_else(|| self.record_repo(), |task| &task.repo);
        self.base.get(repo).copied()
    }

    /// The repository that holds the record.
    pub fn record_repo(&self) -> &RepoName {
        let first = || self.branches.keys().next();
        let record = self.record_repo.as_ref().or_else(first);
        record.expect("no session is started, and none is read, without a branch")
    }

    /// What a replay was started with: all that this was, but for its changes, on branches of its own.
    pub fn replayed_as(&mut self, fork: &ContextForked) {
        self.branches.clone_from(&fork.branches);
        (self.task, self.resolves) = (None, None);
        if let Some(replayed) = &fork.replayed {
            self.changed_by(&replayed.changes);
        }
    }

    /// The same with the changes of a replay.
    pub fn changed_by(&mut self, changes: &ReplayChanges) {
        self.inputs.extend(changes.inputs.clone());
        for (key, value) in [("agent", &changes.agent), ("model", &changes.model)] {
            if let (Some(value), Some(config)) = (value, self.config.as_object_mut()) {
                config.insert(key.to_owned(), value.clone().into());
            }
        }
        if let Some(pipeline) = &changes.pipeline {
            (self.dot, self.dot_path) = (pipeline.dot.clone(), pipeline.dot_path.clone());
            self.files.clone_from(&pipeline.files);
        }
    }

    /// The branch a finished run is merged into in the repository of the record.
    pub fn target(&self) -> Option<&BranchName> {
        self.targets.get(self.record_repo())
    }

    /// Whether it works in more than one repository: then what is told names them.
    pub fn has_several_repos(&self) -> bool {
        self.branches.len() > 1
    }
}

/// See [`Event::Resumed`](super::Event::Resumed).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The node it starts at again, instead of where it was; always given for a run that had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeId>,
    /// The turn it goes back to.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub back: Option<Return>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::ContextForked`](super::Event::ContextForked). The first event of the new context. A parallel branch is
/// recorded by the context it forks from as well; of a replay nothing is written to the original.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextForked {
    /// The context it forks from.
    pub from: ContextId,
    /// The new one.
    pub context: ContextId,
    /// What it is for.
    pub kind: ForkKind,
    /// The node it starts at.
    pub node_id: NodeId,
    /// Where its worktrees start.
    pub base: Snapshot,
    /// Its branch in each repository.
    pub branches: BTreeMap<RepoName, BranchName>,
    /// The node a parallel branch ends at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<NodeId>,
    /// Where a replay goes on.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Box<Replayed>>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ContextForked {
    /// Whether it is the root of a run of its own.
    pub fn is_run(&self) -> bool {
        self.kind == ForkKind::Replay && self.context.replay_number().is_some()
    }
}

/// What a context was forked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkKind {
    /// A parallel branch of the pipeline. The session's root decides whether it continues.
    Parallel,
    /// The run again from a turn: its own root.
    Replay,
}

/// See [`Event::SessionBranchCreated`](super::Event::SessionBranchCreated).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionBranchCreated {
    /// The repository.
    pub repo: RepoName,
    /// Its session branch.
    pub branch: BranchName,
    /// The commit it starts at.
    pub base: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::WorktreeCreated`](super::Event::WorktreeCreated).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorktreeCreated {
    /// The repository.
    pub repo: RepoName,
    /// The worktree's name inside the session: `main`, or the parallel agent's.
    pub name: String,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::Checkpoint`](super::Event::Checkpoint).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The node just completed.
    pub current_node: NodeId,
    /// The nodes completed, each once, in the order in which they completed last.
    pub completed_nodes: PreEncoded<Vec<NodeId>>,
    /// The newest outcome of each node.
    pub node_outcomes: PreEncoded<BTreeMap<NodeId, Status>>,
    /// The context updates of the nodes.
    pub context: BTreeMap<String, Value>,
    /// Retries used by each node in its newest visit.
    pub node_retries: BTreeMap<NodeId, u32>,
    /// How often the run has reached each node.
    pub visits: PreEncoded<BTreeMap<NodeId, u32>>,
    /// The node that comes next, none at the end.
    pub next_node: Option<NodeId>,
    /// Where the session branches are, when that has changed since the last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_snapshot: Option<Snapshot>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::SnapshotRecorded`](super::Event::SnapshotRecorded).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRecorded {
    /// Where the session branches are.
    pub workspace_snapshot: Snapshot,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PipelinePaused`](super::Event::PipelinePaused).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelinePaused {
    /// Why.
    pub reason: PauseReason,
    /// The node it stopped in, if it stopped inside one.
    pub node_id: Option<NodeId>,
    /// The reason in words, where there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The user interrupted it.
    Interrupted,
    /// A gate waits for a person, and there was no terminal.
    WaitsForPerson,
    /// A limit of the budget was reached.
    OverBudget,
}

/// See [`Event::PipelineCompleted`](super::Event::PipelineCompleted).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineCompleted {
    /// Where the session branches ended.
    pub workspace_snapshot: Snapshot,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PipelineFailed`](super::Event::PipelineFailed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineFailed {
    /// Why.
    pub reason: String,
    /// The node it failed in.
    pub node_id: Option<NodeId>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PipelineCancelled`](super::Event::PipelineCancelled).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineCancelled {
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
