//! Derives the work of a node from its assignment, the plan and the facts of the record. Changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::assignment::{AssignedWork, Assignment, NodeStart};
use super::judge;
use super::place::run_dir;
use super::recorded_facts::{RecordedFacts, judged};
use super::relocated::{WorkPlace, relocated};
use super::retelling;
use crate::env::{Engine, Error, Handler, HandlerContext, Question};
use crate::session::preamble::{self, NodeResult, Telling};
use crate::session::session_plan::SessionPlan;
use crate::session::task::prompts;
use agents::agent::{Agent, JobPast, TASK_WAS_INTERRUPTED};
use agents::llm::Message;
use pleach_core::event::{Outcome, Snapshot, Status};
use pleach_core::ids::{ContextId, NodeId};
use pleach_core::plan::parallel::{FanInPolicy, FanInRules};
use pleach_core::plan::pipeline::{HandlerKind, Node};
use pleach_core::plan::tree::TestCommand;
use pleach_core::route::{self, FanOutVerdict};
use pleach_core::state::{FanOut, Position, State};
use pleach_core::step::prompt::LAST_LINE;

/// The work of one node.
#[derive(Debug)]
pub enum Work {
    /// Wait for some time.
    Wait(Duration),
    /// Run a shell command.
    Tool(String),
    /// Run the tests of the session's task.
    Tests(Vec<TestCommand>),
    /// Ask a person.
    Human(Question),
    /// Run an agent.
    Agent(AgentWork),
    /// Bring the branches of a fan-out together.
    Join(Box<JoinWork>),
    /// Run a handler of the embedding program.
    Custom(Arc<dyn Handler>, Box<HandlerContext>),
}

/// The work of an agent.
pub struct AgentWork {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// The prompt, including the story of the run so far.
    pub prompt: String,
    /// The files named in the prompt.
    pub offered: Vec<Offered>,
    /// The conversation so far.
    pub history: Vec<Message>,
    /// The history already contains the prompt, because the node was interrupted.
    pub continues: bool,
    /// The node was interrupted after its answer: nothing is left to do.
    pub answered: bool,
    /// The state the agent needs to resume the conversation.
    pub resume: Option<Value>,
    /// What was said before, for an agent that cannot continue with it.
    pub past: JobPast,
    /// The prompt of a new conversation that is told of it.
    pub retold: Option<String>,
    /// What it is told beside its prompt, where it continues.
    pub append: Option<String>,
}

/// A file with a node's complete answer or output, for an agent whose prompt holds only part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The node.
    pub node: NodeId,
    /// Where it is written.
    pub file: PathBuf,
    /// Its content.
    pub text: String,
}

/// Branches to bring together.
#[derive(Debug)]
pub struct JoinWork {
    /// How.
    pub rules: FanInRules,
    /// The fan-out and its branches; none where no fan-out led here.
    pub fan_out: Option<FanOut>,
    /// What its branches started from, where the histories do not tell: the run has gone back.
    pub bases: BTreeMap<ContextId, Snapshot>,
    /// The agent that chooses a branch.
    pub judge: Option<AgentWork>,
    /// The outcome if they can be brought together.
    pub outcome: Outcome,
}

impl fmt::Debug for AgentWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWork").field("prompt", &self.prompt).field("continues", &self.continues).finish()
    }
}

/// Whether an interrupted node already has its answer, so that nothing more is done or spent on it. An agent whose
/// state is its messages ends with an answer. A program may answer in the middle of its work: only the last message
/// before it exited counts.
pub(crate) fn is_answered(state: &State, agent: &dyn Agent, said: &[Message]) -> bool {
    let Position::Running { turns, .. } = &state.position else { return false };
    let ended = turns.last().is_some_and(|turn| turn.is_last && turn.messages.is_some());
    (ended || agent.can_continue()) && said.last().is_some_and(Message::is_answer)
}

pub(crate) fn agent_of(engine: &Engine, node: &Node) -> Result<Arc<dyn Agent>, Error> {
    engine.agents.of(node).map_err(|source| Error::Agent { node: node.id.clone(), source })
}

/// The outcome of a node with nothing to run: it only passes on the outcome before it.
pub(crate) fn passes(engine: &Engine, plan: &SessionPlan, state: &State, node: &Node) -> Option<Outcome> {
    if engine.handlers.contains_key(node.handler.as_str()) {
        return None;
    }
    match &node.handler {
        HandlerKind::Start | HandlerKind::Exit => Some(Outcome::success()),
        HandlerKind::Conditional => Some(passed_on(state)),
        // A task without tests has no test step, and says so at the end.
        HandlerKind::Tool => plan.tests_of(node).filter(Vec::is_empty).map(|_| Outcome::success()),
        HandlerKind::Wait | HandlerKind::WaitHuman | HandlerKind::Codergen => None,
        HandlerKind::Parallel | HandlerKind::FanIn => None,
        HandlerKind::ManagerLoop | HandlerKind::Custom(_) => {
            let why = format!("no handler is registered for type `{}`", node.handler.as_str());
            Some(Outcome::final_failure(why))
        }
    }
}

/// Whether a node needs nothing but its plan to run.
pub(crate) fn needs_no_record(engine: &Engine, node: &Node) -> bool {
    let is_own = !engine.handlers.contains_key(node.handler.as_str());
    is_own && matches!(node.handler, HandlerKind::Tool | HandlerKind::Wait)
}

/// Whether a node only waits for time or for a person, and does nothing in its worktrees.
pub(crate) fn only_waits(engine: &Engine, node: &Node) -> bool {
    let is_own = !engine.handlers.contains_key(node.handler.as_str());
    is_own && matches!(node.handler, HandlerKind::Wait | HandlerKind::WaitHuman)
}

/// The outcome of a node that only passes on the outcome before it.
fn passed_on(state: &State) -> Outcome {
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

/// The inputs the work is derived from.
pub(super) struct WorkBuilder<'a> {
    pub engine: &'a Engine,
    pub plan: &'a SessionPlan,
    pub assignment: &'a Assignment,
    pub node: &'a Node,
    /// The directory of the work.
    pub root: &'a Path,
    /// Nodes whose files cannot be offered.
    pub withheld: &'a [NodeId],
}

impl WorkBuilder<'_> {
    /// The work to do. `known` loads the facts of the record, which only some work needs.
    pub(super) fn work(&self, known: impl FnOnce() -> Result<Arc<RecordedFacts>, Error>) -> Result<Work, Error> {
        let (engine, node, visit) = (self.engine, self.node, &self.assignment.visit);
        if let AssignedWork::Retest { .. } = self.assignment.job {
            return Ok(Work::Tests(self.plan.tests_at_all(node)));
        }
        if let Some(handler) = engine.handlers.get(node.handler.as_str()) {
            let context = HandlerContext {
                node: node.clone(),
                pipeline: Arc::clone(&self.plan.pipeline),
                visit: visit.visit,
                attempt: visit.attempt,
                context: known()?.state.context.clone(),
                cwd: self.root.to_owned(),
                cancel: self.plan.cancel.clone(),
            };
            return Ok(Work::Custom(Arc::clone(handler), Box::new(context)));
        }
        match &node.handler {
            HandlerKind::Wait => Ok(Work::Wait(node.duration.or(node.timeout).unwrap_or_default())),
            HandlerKind::Tool => Ok(match self.plan.tests_of(node) {
                None => Work::Tool(node.tool_command.clone().unwrap_or_default()),
                Some(tests) => Work::Tests(tests),
            }),
            HandlerKind::WaitHuman => {
                let known = known()?;
                let work = Some(judged(self.plan, &known.state, &known.heard, self.root)?);
                let (task, context) = (self.plan.task_id(), self.assignment.context.clone());
                let question = Question::of(&self.plan.pipeline, node, visit.visit);
                Ok(Work::Human(Question { task, context, work, ..question }))
            }
            HandlerKind::Codergen => Ok(Work::Agent(self.agent_work(&*known()?)?)),
            HandlerKind::Parallel | HandlerKind::FanIn => Ok(Work::Join(Box::new(self.join_work(&*known()?)?))),
            HandlerKind::Start
            | HandlerKind::Exit
            | HandlerKind::Conditional
            | HandlerKind::ManagerLoop
            | HandlerKind::Custom(_) => {
                let why = format!("a node of type `{}` is not carried out", node.handler.as_str());
                Err(Error::Worker { node: node.id.clone(), why })
            }
        }
    }

    fn join_work(&self, known: &RecordedFacts) -> Result<JoinWork, Error> {
        let (node, state) = (self.node, &known.state);
        let rules = node.fan_in.clone().unwrap_or_default();
        let fan_out = state.fan_out.clone().filter(|fan_out| fan_out.is_over);
        let candidates = fan_out.as_ref().map(judge::candidates).unwrap_or_default();
        let asks = rules.policy == FanInPolicy::Judge && candidates.len() > 1;
        let judge = if asks {
            let (work, asked) = (self.agent_work(known)?, judge::prompt(&self.plan.repos, state, &candidates)?);
            Some(AgentWork { prompt: format!("{}\n\n{asked}", work.prompt), ..work })
        } else {
            None
        };
        let outcome = match (&node.fan_out, &fan_out) {
            (Some(rules), Some(fan_out)) => match route::verdict(rules, fan_out) {
                FanOutVerdict::Over(outcome) => outcome,
                FanOutVerdict::Open | FanOutVerdict::StopOthers => Outcome::success(),
            },
            _ => Outcome::success(),
        };
        let has_gone_back = state.returns > 0;
        let bases =
            state.forks.iter().filter(|_| has_gone_back).map(|(context, fork)| (context.clone(), fork.base.clone()));
        Ok(JoinWork { rules, fan_out, bases: bases.collect(), judge, outcome })
    }

    fn agent_work(&self, known: &RecordedFacts) -> Result<AgentWork, Error> {
        let RecordedFacts { state, heard, interrupted } = known;
        let place = WorkPlace { session: &self.plan.run.session, context: &self.assignment.context, root: self.root };
        let interrupted = &relocated(interrupted, place);
        let agent = agent_of(self.engine, self.node)?;
        let answered = is_answered(state, &*agent, interrupted);
        let thread = self.assignment.conversation.thread.as_deref();
        let start = self.assignment.start;
        let is_new = matches!(start, NodeStart::Redriven | NodeStart::Retold);
        let continues = !is_new && !interrupted.is_empty();
        let mut history = match thread {
            // A thread's messages already include the interrupted turns.
            Some(thread) => relocated(heard.threads.get(thread).map_or(&[], Vec::as_slice), place),
            None if is_new => Vec::new(),
            None => interrupted.clone(),
        };
        // Messages among an agent's subagents are not part of its conversation.
        history.retain(|message| message.conversation() == 0);
        // What an agent keeps of its conversation knows what is told here.
        let resume = state.agent_state(thread).filter(|_| !is_new).cloned();
        let (mut prompt, mut offered) = self.prompt(known)?;
        let appended = state.prompt_append.as_ref().map(|text| format!("\n\n{text}")).unwrap_or_default();
        let append = state.prompt_append.clone().filter(|_| continues);
        let retold = is_new.then(|| {
            let file = run_dir(self.root, &self.assignment.context).join(format!("{}-so-far.md", self.node.id));
            let told = retelling::tell(
                interrupted,
                state,
                Some(file.as_path()).filter(|_| !self.withheld.contains(&self.node.id)),
            );
            offered.extend(told.whole.map(|text| Offered { node: self.node.id.clone(), file, text }));
            format!("{TASK_WAS_INTERRUPTED}\n\n{prompt}\n\n{}{appended}", told.text)
        });
        prompt.push_str(&appended);
        let past = match start {
            NodeStart::Redriven => JobPast::Taped(interrupted.clone()),
            NodeStart::Retold => JobPast::Told(interrupted.clone()),
            NodeStart::First | NodeStart::Continued => JobPast::None,
        };
        Ok(AgentWork { agent, prompt, offered, history, continues, answered, resume, past, retold, append })
    }

    fn prompt(&self, known: &RecordedFacts) -> Result<(String, Vec<Offered>), Error> {
        let (plan, state, node) = (self.plan, &known.state, self.node);
        if let Some(asked) = prompts::step_prompt(plan, state, node)? {
            return Ok((asked, Vec::new()));
        }
        let (preamble, offered) = self.preamble(known);
        let lessons = prompts::lessons_for(plan, state, node).map(|lessons| format!("\n{lessons}")).unwrap_or_default();
        let conflicts = conflict_prompt(state, node);
        let verdict = if node.verdict { format!("\n\n{LAST_LINE}") } else { String::new() };
        let asked = format!("{}{lessons}{}{conflicts}{verdict}", node.prompt, check_prompt(plan, node));
        Ok((preamble::told_before(&preamble, asked), offered))
    }

    /// The story of the run so far. Text cut from it is offered as files.
    fn preamble(&self, known: &RecordedFacts) -> (String, Vec<Offered>) {
        let (plan, conversation) = (self.plan, &self.assignment.conversation);
        let mut results = preamble::results(&plan.pipeline, &known.state, conversation.thread.as_deref());
        let dir = run_dir(self.root, &self.assignment.context);
        for result in &mut results {
            result.file = (!self.withheld.contains(&result.id)).then(|| dir.join(file_name(result)));
            result.text = known.heard.answer(&result.id);
        }
        let how = Telling {
            session: &plan.run.session,
            fidelity: conversation.fidelity,
            output_chars: self.engine.output_chars,
            asked: &self.node.prompt,
        };
        let (preamble, named) = preamble::text(&plan.pipeline, &known.state, &results, how);
        let offered = |NodeResult { id, file, text, .. }| Some(Offered { node: id, file: file?, text });
        (preamble, results.into_iter().filter(|result| named.contains(&result.id)).filter_map(offered).collect())
    }
}

/// The name of the file with a node's complete answer or output. No node has a directory of this name.
fn file_name(result: &NodeResult) -> String {
    let suffix = if result.command.is_some() { "log" } else { "md" };
    format!("{}.{suffix}", result.id)
}

/// The command an agent's work is checked with.
fn check_prompt(plan: &SessionPlan, node: &Node) -> String {
    let check = node.check.as_ref().and_then(|check| plan.pipeline.node(check));
    let command = check.and_then(|check| check.tool_command.as_deref());
    command.map(|command| format!("\n\nThe work is checked with:\n- {}\n", command.trim())).unwrap_or_default()
}

/// What an agent is told about the conflicts it has to resolve.
fn conflict_prompt(state: &State, node: &Node) -> String {
    let conflicts = if node.may_resolve() { state.next_conflict() } else { Vec::new() };
    let Some(first) = conflicts.first() else { return String::new() };
    let mut text = format!(
        "\n\nMerging the work of branch `{}` left conflicts. These files hold conflict markers; edit them so that the intent \
         of both sides is kept and no marker is left. Where a conflict cannot be marked, a note with the ending `.conflict` \
         beside the file says what each side has: settle it and delete the note:",
        first.context
    );
    for conflict in &conflicts {
        let at = if state.work.len() > 1 { format!("{}: ", conflict.repo) } else { String::new() };
        for path in &conflict.paths {
            text.push_str(&format!("\n- {at}{} ({})", path.path, path.kind));
        }
    }
    text
}
