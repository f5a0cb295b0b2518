//! The work of a node, as an agent is given it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::bounds;
use super::reply::{AgentError, AgentReply, End};
use super::repo_context::{RepoContext, describe_repos};
use crate::llm::Message;
use os::process::{Cancel, Sandbox};
use pleach_core::ids::NodeId;

/// One node's task for an agent.
#[derive(Debug, Clone)]
pub struct Job {
    /// The node.
    pub node: NodeId,
    /// How often the run has come to the node, from 1.
    pub visit: u32,
    /// The attempt within the visit, from 1.
    pub attempt: u32,
    /// The task in words.
    pub prompt: String,
    /// The root of the worktree, which file tools cannot leave.
    pub root: PathBuf,
    /// Where the agent works: the root, or a directory in it.
    pub cwd: PathBuf,
    /// The repositories whose worktrees are there; none outside of them.
    pub repos: Vec<RepoContext>,
    /// The model, if the pipeline names one.
    pub model: Option<String>,
    /// The provider, if the pipeline names one.
    pub provider: Option<String>,
    /// How hard the model should think.
    pub effort: Option<String>,
    /// Whether the agent may use tools.
    pub tools: bool,
    /// The conversation so far.
    pub history: Vec<Message>,
    /// The history already holds this task: the job was interrupted and is resumed.
    pub continues: bool,
    /// The history ends with the answer to this task: nothing is left to do.
    pub answered: bool,
    /// Variables to set or remove for whatever the agent starts.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// How long the whole job may take.
    pub timeout: Option<Duration>,
    /// Where the agent may leave its outcome.
    pub status_file: PathBuf,
    /// A directory outside the root whose files it may read: what earlier nodes answered and printed.
    pub reads: Option<PathBuf>,
    /// The locks of its worktrees, held as long as anything the agent started lives.
    pub locks: Vec<Arc<File>>,
    /// What the agent, and whatever it starts, may touch; everything if not given. An agent that reaches its model
    /// through pleach takes [`Sandbox::through`], one that calls it by itself [`Sandbox::with_network`].
    pub sandbox: Option<Arc<Sandbox>>,
    /// Remarks for the agent while it works.
    pub steering: Steering,
    /// A directory of this session's agents, outside every repository. It need not exist; an agent that needs it makes
    /// it. It stays until the session is removed.
    pub home: PathBuf,
    /// A directory no agent can write to, for the commands that are an agent's tools; none where it has none. It is made
    /// when it is needed.
    pub launchers: Option<PathBuf>,
    /// What the agent needs to resume this conversation: its newest [`Turn::state_ref`](super::Turn::state_ref).
    pub resume: Option<Value>,
    /// What was said before the job was interrupted, where its agent cannot continue the conversation.
    pub past: JobPast,
}

/// What was said before a job was interrupted, for an agent that cannot continue the conversation.
#[derive(Debug, Clone, Default)]
pub enum JobPast {
    /// Nothing, or the agent continues with it.
    #[default]
    None,
    /// The agent is run again, and its calls are answered from this as far as it goes.
    Taped(Vec<Message>),
    /// The prompt tells it.
    Told(Vec<Message>),
}

impl Job {
    /// A first visit's task in the worktree `root`, with tools and without a past.
    pub fn new(
        node: NodeId,
        prompt: impl Into<String>,
        root: impl Into<PathBuf>,
        status_file: impl Into<PathBuf>,
    ) -> Self {
        let (root, status_file) = (root.into(), status_file.into());
        Self {
            node,
            visit: 1,
            attempt: 1,
            prompt: prompt.into(),
            cwd: root.clone(),
            root,
            repos: Vec::new(),
            model: None,
            provider: None,
            effort: None,
            tools: true,
            history: Vec::new(),
            continues: false,
            answered: false,
            env: Vec::new(),
            timeout: None,
            home: status_file.with_file_name("home"),
            status_file,
            reads: None,
            locks: Vec::new(),
            sandbox: None,
            steering: Steering::default(),
            launchers: None,
            resume: None,
            past: JobPast::None,
        }
    }

    /// The task for an agent that takes everything in one text: with the repositories it concerns, and the description
    /// of its sandbox.
    pub fn prompt_in_bounds(&self) -> String {
        let sandbox = self.sandbox.as_deref().map(bounds::describe);
        let notes: String =
            describe_repos(&self.repos).into_iter().chain(sandbox).map(|note| format!("\n\n{note}")).collect();
        if notes.is_empty() { self.prompt.clone() } else { format!("{}{notes}", self.prompt.trim_end()) }
    }

    /// The result of a job that needs no work: it was answered already, or it was cancelled.
    pub(super) fn early_reply(&self, cancel: &Cancel) -> Option<Result<AgentReply, AgentError>> {
        if let Some(reply) = self.answer() {
            return Some(Ok(reply));
        }
        if cancel.is_killed() {
            return Some(Err(AgentError::Cancelled));
        }
        cancel.is_stopped().then(|| Ok(AgentReply::new(String::new(), End::Stopped)))
    }

    /// The answer the history already holds, if the job was interrupted after it.
    pub(super) fn answer(&self) -> Option<AgentReply> {
        let last = self.history.last().filter(|_| self.answered)?;
        Some(AgentReply::new(last.text(), End::Done))
    }
}

/// Remarks for a working agent; clones share them. Agents that take no input while they work ignore them.
#[derive(Debug, Clone, Default)]
pub struct Steering(Arc<Mutex<VecDeque<String>>>);

impl Steering {
    /// Adds a remark. The agent gets it after its current turn.
    pub fn say(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(text.into());
    }

    pub(super) fn take(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
