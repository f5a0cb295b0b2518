//! What a worker is to do for a node: the pure half of starting one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Context;
use crate::agent::Agent;
use crate::beneath::Beneath;
use crate::engine::human::Question;
use crate::engine::preamble::{self, NodeResult, Telling};
use crate::engine::{Error, Handler, HandlerContext, RUN_DIR};
use crate::event::{Outcome, Status, WarningCode};
use crate::git::TreeId;
use crate::ids::{NodeId, RepoName};
use crate::llm::Message;
use crate::plan::pipeline::{Edge, Fidelity, HandlerKind, Node, Pipeline};
use crate::plan::tree::TestCommand;
use crate::route;
use crate::state::{State, Visit};
use crate::step::prompt::LAST_LINE;
use crate::workspace::Workspace;

/// The work of one node.
#[derive(Debug)]
pub enum Work {
    /// Nothing: this is the outcome.
    Pass(Outcome),
    /// Let time pass.
    Wait(Duration),
    /// Run a shell command.
    Tool(String),
    /// Run the tests of the session's task.
    Tests(Vec<TestCommand>),
    /// Ask a person.
    Human(Question),
    /// Let an agent work.
    Agent(AgentWork),
    /// Run a handler of the embedding program.
    Custom(Arc<dyn Handler>, Box<HandlerContext>),
}

/// What an agent is to do.
pub struct AgentWork {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// What it is asked, with what it is told about the run so far.
    pub prompt: String,
    /// The conversation so far.
    pub history: Vec<Message>,
    /// The history holds the prompt already: the node was interrupted.
    pub continues: bool,
    /// It was interrupted after its answer: nothing is left to do.
    pub answered: bool,
    /// What the agent said it needs to go on with the conversation.
    pub resume: Option<Value>,
    /// What is on record, when the node starts over with an agent that is answered from it.
    pub recorded: Option<Recording>,
}

/// What an agent said and did before its node starts over.
#[derive(Debug)]
pub struct Recording {
    /// What was said.
    pub messages: Vec<Message>,
    /// The files it left, by repository.
    pub trees: BTreeMap<RepoName, TreeId>,
}

impl std::fmt::Debug for AgentWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentWork").field("prompt", &self.prompt).field("continues", &self.continues).finish()
    }
}

/// How a node of an agent takes part in the conversations of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// How much it is told.
    pub fidelity: Fidelity,
    /// Which conversation it goes on with, with full fidelity.
    pub thread: Option<String>,
}

/// How an agent node takes part in the conversations of the run. With `degrade` it cannot be given a conversation.
pub fn conversation(pipeline: &Pipeline, state: &State, node: &Node, visit: &Visit, degrade: bool) -> Conversation {
    let edge = entry_edge(pipeline, state, visit);
    match preamble::fidelity(pipeline, edge, node) {
        // A long summary stands in for the conversation itself.
        Fidelity::Full if degrade => Conversation { fidelity: Fidelity::SummaryHigh, thread: None },
        Fidelity::Full => {
            let thread = preamble::thread(pipeline, edge, node, visit.from.as_ref());
            Conversation { fidelity: Fidelity::Full, thread: Some(thread) }
        }
        fidelity => Conversation { fidelity, thread: None },
    }
}

/// The edge the run came along; none when it jumped to a retry target. The choice is made again from the same facts,
/// so of several edges between the same nodes it is the one that was taken.
fn entry_edge<'a>(pipeline: &'a Pipeline, state: &State, visit: &Visit) -> Option<&'a Edge> {
    let from = pipeline.node(visit.from.as_ref()?)?;
    route::select_edge(pipeline, state, from, state.outcome(&from.id)?).filter(|edge| edge.to == visit.node)
}

/// The outcome of a node that only passes on what came before it.
pub fn passed_on(state: &State) -> Outcome {
    let text = |key: &str| state.context.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = Status::try_from(text("outcome")).unwrap_or(Status::Success);
    let previous = state.completed.last().and_then(|node| state.outcome(node));
    Outcome {
        preferred_label: Some(text("preferred_label")).filter(|label| !label.is_empty()),
        suggested_next_ids: previous.map(|outcome| outcome.suggested_next_ids.clone()).unwrap_or_default(),
        failure_reason: previous.and_then(|outcome| outcome.failure_reason.clone()),
        ..Outcome::of(status)
    }
}

impl Context {
    /// What the worker of this visit is to do.
    pub(in crate::engine) fn work(
        &mut self,
        node: &Node,
        visit: &Visit,
        conversation: &Conversation,
    ) -> Result<Work, Error> {
        if let Some(handler) = self.engine.handlers.get(node.handler.as_str()) {
            let context = self.handler_context(node, visit);
            return Ok(Work::Custom(Arc::clone(handler), Box::new(context)));
        }
        Ok(match &node.handler {
            HandlerKind::Start | HandlerKind::Exit => Work::Pass(Outcome::success()),
            HandlerKind::Conditional => Work::Pass(passed_on(&self.state)),
            HandlerKind::Wait => Work::Wait(node.duration.or(node.timeout).unwrap_or_default()),
            HandlerKind::WaitHuman => {
                let work = Some(self.judged()?);
                Work::Human(Question { work, ..Question::of(&self.plan.pipeline, node, visit.visit) })
            }
            HandlerKind::Tool => match self.step_tests(node) {
                None => Work::Tool(node.tool_command.clone().unwrap_or_default()),
                // What is not tested has no test step, and says so at the end.
                Some(tests) if tests.is_empty() => Work::Pass(Outcome::success()),
                Some(tests) => Work::Tests(tests),
            },
            HandlerKind::Codergen => Work::Agent(self.agent_work(node, conversation)?),
            HandlerKind::Parallel | HandlerKind::FanIn | HandlerKind::ManagerLoop | HandlerKind::Custom(_) => {
                let why = format!("no handler is registered for type `{}`", node.handler.as_str());
                Work::Pass(Outcome::final_failure(why))
            }
        })
    }

    fn handler_context(&self, node: &Node, visit: &Visit) -> HandlerContext {
        HandlerContext {
            node: node.clone(),
            pipeline: Arc::clone(&self.plan.pipeline),
            visit: visit.visit,
            attempt: visit.attempt,
            context: self.state.context.clone(),
            cwd: self.workspace.as_ref().map(|workspace| workspace.root().to_owned()).unwrap_or_default(),
            cancel: self.engine.cancel.clone(),
        }
    }

    /// The agent of a node.
    pub(in crate::engine) fn agent_of(&self, node: &Node) -> Result<Arc<dyn Agent>, Error> {
        self.engine.agents.of(node).map_err(|source| Error::Agent { node: node.id.clone(), source })
    }

    fn agent_work(&mut self, node: &Node, conversation: &Conversation) -> Result<AgentWork, Error> {
        let agent = self.agent_of(node)?;
        let answered = self.is_answered(node);
        let interrupted = std::mem::take(&mut self.memory.interrupted);
        let continues = !interrupted.is_empty();
        let mut history = match &conversation.thread {
            Some(thread) => self.thread_messages(thread)?,
            None => Vec::new(),
        };
        // A thread's messages hold the interrupted turns already.
        if conversation.thread.is_none() {
            history.extend(interrupted);
        }
        // What an agent's helpers said among themselves is no part of its conversation.
        history.retain(|message| message.talk() == 0);
        // Who starts over goes on with nothing.
        let starts_over = !continues && self.state.has_turns();
        let resume = self.state.agent_state(conversation.thread.as_deref()).filter(|_| !starts_over).cloned();
        let prompt = self.prompt(node, conversation)?;
        Ok(AgentWork { agent, prompt, history, continues, answered, resume, recorded: self.memory.recorded.take() })
    }

    /// Gives up the conversation of a node that starts over. Its agent may be answered from it once more.
    pub(in crate::engine) fn recording(&mut self, node: &Node) -> Result<Option<Recording>, Error> {
        let messages = std::mem::take(&mut self.memory.interrupted);
        let repeats = self.engine.agents.of(node).is_ok_and(|agent| agent.repeats_calls());
        match &self.workspace {
            Some(workspace) if repeats => Ok(Some(Recording { messages, trees: workspace.trees()? })),
            _ => Ok(None),
        }
    }

    fn prompt(&mut self, node: &Node, conversation: &Conversation) -> Result<String, Error> {
        if let Some(asked) = self.step_prompt(node)? {
            return Ok(asked);
        }
        let told = self.told(conversation)?;
        let lessons = self.lessons_for(node).map(|lessons| format!("\n{lessons}")).unwrap_or_default();
        let verdict = if node.verdict { format!("\n\n{LAST_LINE}") } else { String::new() };
        let asked = format!("{}{lessons}{verdict}", node.prompt);
        Ok(if told.is_empty() { asked } else { format!("{told}\n{asked}") })
    }

    /// What an agent is told about the run so far. What is cut there it finds in files.
    fn told(&mut self, conversation: &Conversation) -> Result<String, Error> {
        let mut results = preamble::results(&self.plan.pipeline, &self.state, conversation.thread.as_deref());
        let nodes: Vec<NodeId> = results.iter().map(|result| result.id.clone()).collect();
        for (result, text) in results.iter_mut().zip(self.answers(&nodes)?) {
            result.file = self.run_dir().map(|dir| dir.join(file_name(result)));
            result.text = text;
        }
        let (told, named) = self.preamble(&results, conversation.fidelity);
        let unwritten = write_files(&results, &named);
        if unwritten.is_empty() {
            return Ok(told);
        }
        // What is not there is not offered.
        for result in &mut results {
            let failed = unwritten.iter().find(|(id, _)| *id == result.id);
            if let Some((file, (_, error))) = result.file.take_if(|_| failed.is_some()).zip(failed) {
                let text = format!("cannot write `{}` for the next agent: {error}", file.display());
                self.warnings.push(WarningCode::FileNotOffered.with(text));
            }
        }
        Ok(self.preamble(&results, conversation.fidelity).0)
    }

    fn preamble(&self, results: &[NodeResult], fidelity: Fidelity) -> (String, Vec<NodeId>) {
        let how = Telling { session: &self.plan.id, fidelity, output_chars: self.engine.output_chars };
        preamble::text(&self.plan.pipeline, &self.state, results, how)
    }

    /// The directory beside the working copy in which nodes find what earlier ones left.
    pub(in crate::engine) fn run_dir(&self) -> Option<PathBuf> {
        let root = self.workspace.as_ref().map(Workspace::root);
        root.map(|root| root.with_file_name(RUN_DIR).join(self.id.as_str()))
    }
}

/// The name of the file with all a node has answered or printed. No node has a directory of this name.
fn file_name(result: &NodeResult) -> String {
    let suffix = if result.command.is_some() { "log" } else { "md" };
    format!("{}.{suffix}", result.id)
}

/// Writes the files of the nodes that are `named`. Gives those that could not be written.
fn write_files(results: &[NodeResult], named: &[NodeId]) -> Vec<(NodeId, std::io::Error)> {
    let write = |result: &NodeResult| {
        let (dir, name) = result.file.as_deref().and_then(|file| Some((file.parent()?, file.file_name()?)))?;
        let written = std::fs::create_dir_all(dir).and_then(|()| Beneath::at(dir)?.write(name, result.text.as_bytes()));
        written.err().map(|error| (result.id.clone(), error))
    };
    results.iter().filter(|result| named.contains(&result.id)).filter_map(write).collect()
}
