//! Facts from the record a node follows from: the state, and the messages. They are read from the record, or kept by
//! the context that wrote it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::assignment::Assignment;
use crate::env::{Engine, Error, ReviewedWork};
use crate::session::preamble;
use crate::session::session_plan::SessionPlan;
use crate::view::folded;
use agents::llm::Message;
use git::Repo;
use git::record::History;
use pleach_core::event::{Event, MessageRange};
use pleach_core::ids::NodeId;
use pleach_core::plan::pipeline::{HandlerKind, Node};
use pleach_core::state::{Position, State};

/// The known facts when a node starts.
#[derive(Debug, Clone)]
pub(crate) struct RecordedFacts {
    /// The state before the start.
    pub state: Arc<State>,
    /// The messages, as far as the node gets them.
    pub heard: Arc<Transcripts>,
    /// The messages of the node, if it resumes after an interruption.
    pub interrupted: Vec<Message>,
}

/// Answers and conversations, read from the record or written to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transcripts {
    /// Each node's answer or output in its newest visit, with the number of the message.
    pub answers: BTreeMap<NodeId, (Option<u64>, String)>,
    /// The conversations that nodes with full fidelity resume.
    pub threads: BTreeMap<String, Vec<Message>>,
}

/// The messages a node needs.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The answers of these nodes.
    pub answers: Vec<NodeId>,
    /// This conversation.
    pub thread: Option<String>,
}

impl Wanted {
    /// What must be loaded before a node starts.
    pub(crate) fn by(engine: &Engine, plan: &SessionPlan, state: &State, node: &Node, thread: Option<&str>) -> Self {
        if engine.is_of_agent(node) {
            let results = if is_told_of_the_run(plan, node) {
                preamble::results(&plan.pipeline, state, thread)
            } else {
                Vec::new()
            };
            let answers = results.into_iter().map(|result| result.id).collect();
            return Self { answers, thread: thread.map(str::to_owned) };
        }
        match node.handler {
            HandlerKind::WaitHuman => Self { answers: newest_answer(state).into_iter().collect(), thread: None },
            _ => Self::default(),
        }
    }
}

/// The node whose agent answered last.
pub(crate) fn newest_answer(state: &State) -> Option<NodeId> {
    let has_answered = |node: &&NodeId| state.nodes.get(*node).is_some_and(|node| node.response.is_some());
    state.completed.iter().rev().find(has_answered).cloned()
}

impl Transcripts {
    /// The oldest of the wanted messages that are on record and not loaded yet.
    pub(crate) fn oldest_missing(&self, state: &State, wanted: &Wanted) -> Option<u64> {
        let answers = self.missing(state, &wanted.answers).into_iter().map(|(_, number)| number);
        let said = self.new_thread(state, wanted).into_iter().flat_map(|(_, said)| said).map(|range| range.first);
        answers.chain(said).min()
    }

    /// Loads what is missing. `history` is needed if the record holds any of it.
    pub(crate) fn load(
        &mut self,
        repo: &Repo,
        state: &State,
        wanted: &Wanted,
        history: Option<&History>,
    ) -> Result<(), Error> {
        if let Some(history) = history {
            for (id, number) in self.missing(state, &wanted.answers) {
                let message = history.message(repo, number)?;
                let text = serde_json::from_value::<Message>(message).map(|message| message.text());
                self.answers.insert(id, (Some(number), text.unwrap_or_default()));
            }
        }
        if let Some((thread, ranges)) = self.new_thread(state, wanted) {
            let said = history.map(|history| messages(repo, history, &ranges)).transpose()?;
            self.threads.insert(thread.to_owned(), said.unwrap_or_default());
        }
        Ok(())
    }

    /// A node's answer or output in its newest visit.
    pub(crate) fn answer(&self, id: &NodeId) -> String {
        self.answers.get(id).map(|(_, text)| text.clone()).unwrap_or_default()
    }

    /// The wanted conversation if it is not loaded yet, with the ranges of its messages.
    fn new_thread<'w>(&self, state: &State, wanted: &'w Wanted) -> Option<(&'w str, Vec<MessageRange>)> {
        let thread = wanted.thread.as_deref().filter(|thread| !self.threads.contains_key(*thread))?;
        Some((thread, state.threads.get(thread).cloned().unwrap_or_default()))
    }

    /// Those of the answers that must be read, with their message numbers.
    fn missing(&self, state: &State, nodes: &[NodeId]) -> Vec<(NodeId, u64)> {
        let number = |id: &NodeId| state.nodes.get(id).and_then(|node| node.response);
        let is_known = |id: &NodeId| self.answers.get(id).is_some_and(|(known, _)| *known == number(id));
        nodes.iter().filter(|id| !is_known(id)).filter_map(|id| Some((id.clone(), number(id)?))).collect()
    }
}

impl RecordedFacts {
    /// The facts for an assignment, from nothing but the record it names.
    pub(crate) fn at(engine: &Engine, plan: &SessionPlan, node: &Node, assignment: &Assignment) -> Result<Self, Error> {
        let repo = plan.repo();
        let history = History::all_at(repo, &plan.run.session, &assignment.context, assignment.record)?;
        let visit = &assignment.visit;
        let events: Vec<_> = history.events().collect();
        let is_start = |event: &Event| match event {
            Event::NodeStarted(started) => {
                (&started.node_id, started.visit, started.attempt) == (&visit.node, visit.visit, visit.attempt)
            }
            _ => false,
        };
        let Some(start) = events.iter().rposition(|recorded| is_start(&recorded.event)) else {
            let why = format!("record {} does not tell of its start", assignment.record);
            return Err(Error::Worker { node: visit.node.clone(), why });
        };
        // A fan-out that brings its branches together does so after all it has recorded of them.
        let until = if node.handler == HandlerKind::Parallel { events.len() } else { start };
        let state = folded(&history, &plan.start_node, until)?;
        let interrupted = messages(repo, &history, &interrupted(&state))?;
        let mut heard = Transcripts::default();
        let wanted = Wanted::by(engine, plan, &state, node, assignment.conversation.thread.as_deref());
        heard.load(repo, &state, &wanted, Some(&history))?;
        Ok(Self { state: Arc::new(state), heard: Arc::new(heard), interrupted })
    }
}

/// The messages of the interrupted node.
pub(crate) fn interrupted(state: &State) -> Vec<MessageRange> {
    match &state.position {
        Position::Running { turns, .. } => turns.iter().filter_map(|turn| turn.messages).collect(),
        _ => Vec::new(),
    }
}

/// The messages of these ranges, in order.
pub(crate) fn messages(repo: &Repo, history: &History, ranges: &[MessageRange]) -> Result<Vec<Message>, Error> {
    let mut messages = Vec::new();
    for number in ranges.iter().flat_map(|range| range.first..=range.last) {
        let value = history.message(repo, number)?;
        let message = serde_json::from_value(value).map_err(|error| Error::Message { number, source: error })?;
        messages.push(message);
    }
    Ok(messages)
}

/// The work to review at a gate.
pub(crate) fn judged(
    plan: &SessionPlan,
    state: &State,
    heard: &Transcripts,
    worktree: &Path,
) -> Result<ReviewedWork, Error> {
    let mut changes = Vec::new();
    for (name, repo) in plan.repos.iter() {
        if let (Some(base), Some(work)) = (state.base.get(name), state.work.get(name))
            && base != work
        {
            changes.extend(git::diff::stat(repo, repo.tree_of(*base)?, repo.tree_of(*work)?)?);
        }
    }
    let answer = newest_answer(state).map(|node| (node.clone(), heard.answer(&node)));
    let conflicts = state.next_conflict().into_iter().flat_map(|conflict| &conflict.paths);
    let conflicts = conflicts.map(|path| path.path.clone()).collect();
    Ok(ReviewedWork { session: plan.run.session.clone(), answer, changes, conflicts, worktree: worktree.to_owned() })
}

/// Whether the agent of a node gets the story of the run so far. An agent asked about the session's task gets the task,
/// or its changes, and nothing else.
pub(crate) fn is_told_of_the_run(plan: &SessionPlan, node: &Node) -> bool {
    plan.job.is_none() || !matches!(node.step.as_deref(), Some("implement" | "review"))
}
