//! The end of a node and its record.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::pending::{MadeStep, PendingRecord, Writers};
use super::turn::{self, first_message};
use super::{Context, conflicts, recording};
use crate::env::{Error, Question};
use crate::session::executor::Conversation;
use crate::session::task::{StepReport, step};
use crate::session::worker::{Effect, NodeFinished, Stopped, output_message};
use agents::llm::Message;
use git::record::Batch;
use git::workspace::Changes;
use pleach_core::clock;
use pleach_core::event::{
    Event, NodeExecution, Outcome, PauseReason, PipelineCompleted, PipelineFailed, RetryAt, Route, Snapshot,
    SnapshotRecorded, Warning,
};
use pleach_core::ids::CommitId;
use pleach_core::plan::pipeline::{HandlerKind, Node};
use pleach_core::route::{self, AttemptOutput, Decision};
use pleach_core::state::{Position, Visit, digest};

/// Number of events that may be pending before they are written.
pub(super) const DEFER_AT_MOST: usize = 100;

/// What happens to the session when a node's worker has ended.
#[derive(Debug)]
pub(crate) enum NodeEnd {
    /// The run continues.
    GoesOn,
    /// The node has no outcome: the session pauses in it, and ends with the error if there is one.
    Pauses { reason: PauseReason, why: Option<String>, error: Option<Error> },
}

impl NodeEnd {
    fn pauses(reason: PauseReason) -> Self {
        Self::Pauses { reason, why: None, error: None }
    }
}

/// What a node's end adds to the record.
#[derive(Default)]
struct Ending {
    /// The commits the branches can be moved from.
    branches: Snapshot,
    events: Vec<Event>,
    messages: Vec<Value>,
    changes: Option<Changes>,
    step: Option<StepReport>,
}

impl Ending {
    /// Adds the stderr of an agent's program. Returns the number of the message that holds it; `next` is the next free
    /// number.
    fn push_stderr(&mut self, stderr: &str, next: u64) -> Option<u64> {
        if stderr.is_empty() {
            return None;
        }
        let number = next + self.messages.len() as u64;
        self.messages.push(output_message(stderr));
        Some(number)
    }

    /// The output of a command, if the node ran one.
    fn output(&self) -> Option<String> {
        let is_command = matches!(self.events.first(), Some(Event::ToolExecution(_)));
        let message = self.messages.first().filter(|_| is_command)?;
        serde_json::from_value::<Message>(message.clone()).ok().map(|message| message.text())
    }
}

/// Stores a node's answer or output for later nodes, as recorded.
fn remember_answer(context: &mut Context, node: &Node, number: Option<u64>, text: Option<String>) {
    match text {
        Some(text) => {
            let text = context.engine.redactor.text(&text).into_owned();
            context.memory.heard_mut().answers.insert(node.id.clone(), (number, text));
        }
        None => drop(context.memory.heard_mut().answers.remove(&node.id)),
    }
}

pub(crate) fn node_ended(
    context: &mut Context,
    node: &Node,
    visit: &Visit,
    finished: NodeFinished,
    conversation: &Conversation,
) -> Result<NodeEnd, Error> {
    let NodeFinished { result, effect, joined, duration, mut warnings, response, stderr, step, cut_short } = finished;
    let mut broken = recording::repair_record(context)?;
    let is_stuck = matches!(result, Err(Stopped::Environment(_)));
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(Stopped::Environment(outcome)) => *outcome,
        Err(Stopped::Paused(reason)) => return Ok(NodeEnd::pauses(reason)),
        Err(Stopped::NotStarted(error)) => {
            let (reason, why) = (PauseReason::Interrupted, Some(error.to_string()));
            return Ok(NodeEnd::Pauses { reason, why, error: Some(error.into()) });
        }
        Err(Stopped::NoAnswer(answer, why)) => {
            let error = Question::of(&context.plan.pipeline, node, visit.visit).error(answer, why);
            let reason = PauseReason::WaitsForPerson;
            return Ok(NodeEnd::Pauses { reason, why: None, error: Some(error) });
        }
        Err(Stopped::Unresolved(paths)) => {
            let (reason, node) = (PauseReason::WaitsForPerson, node.id.clone());
            return Ok(NodeEnd::Pauses { reason, why: None, error: Some(Error::ConflictsLeft { node, paths }) });
        }
        Err(Stopped::Broken(error)) if error.is_of_own_branch() => Outcome::final_failure(error.to_string()),
        Err(Stopped::Broken(error)) => return Err(error.into()),
        Err(Stopped::Unable(error)) => return Err(*error),
    };
    let mut ending = Ending { step, ..worked(context, effect, conversation) };
    if let Some(joined) = joined {
        ending.events.extend(joined.events);
        ending.changes = Some(joined.changes);
    }
    let (outcome, merged) = conflicts::resolve(context, node, outcome, &mut ending.changes)?;
    ending.events.extend(merged);
    if let Some(step) = &mut ending.step {
        step.by = worked_by(context, &ending.events);
    }
    let trees = trees(context, ending.changes.as_ref())?;
    let output_digest = output_digest(context, &ending, response.as_deref());
    let mut decision = match outcome.failure_reason.clone().filter(|_| cut_short) {
        // The budget is exhausted, or the node may not run here, whatever route the run would take.
        Some(reason) => Decision { outcome, route: Route::Fail { reason }, delay: None },
        None => {
            let left = AttemptOutput { trees: &trees, output: output_digest.as_deref() };
            route::decide(&context.plan.pipeline, &context.state, visit, outcome, left)
        }
    };
    if is_stuck && !leads_on(context, &decision.route) {
        let why = decision.outcome.failure_reason.unwrap_or_default();
        let error = Error::Environment { node: node.id.clone(), why };
        let (reason, why) = (PauseReason::Interrupted, Some(error.to_string()));
        return Ok(NodeEnd::Pauses { reason, why, error: Some(error) });
    }
    // Nothing can be built on a branch that another process moved, so the run cannot continue.
    let (branches, moved) = turn::movable(context, ending.changes.as_ref())?;
    ending.branches = branches;
    // A task resumes from its branch as it is now, so this makes no step and costs no attempt.
    if moved.is_some() && context.state.task.is_some() {
        return Ok(NodeEnd::pauses(PauseReason::Interrupted));
    }
    broken = moved.or(broken);
    if let Some(reason) = broken {
        decision = Decision { outcome: Outcome::fail(&*reason), route: Route::Fail { reason }, delay: None };
    }
    let number = last_message(context, node, ending.events.first());
    remember_answer(context, node, number, response.or_else(|| ending.output()));
    warnings.extend(last_warnings(context, node, &decision.route, &mut ending)?);
    let stderr = ending.push_stderr(&stderr, context.recorder.next_message());
    let executed = NodeExecution {
        node_id: visit.node.clone(),
        visit: visit.visit,
        attempt: visit.attempt,
        outcome: decision.outcome.clone(),
        route: decision.route.clone(),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        prompt: first_message(context),
        response: number,
        stderr,
        trees,
        output_digest,
        warnings,
        extra: Default::default(),
    };
    ending.events.push(executed.into());
    if let Some(delay) = decision.delay {
        ending.events.push(retry_at(context, visit, delay).into());
    }
    fold_end(context, node, &decision.outcome, &decision.route, ending)?;
    Ok(NodeEnd::GoesOn)
}

/// Whether the run continues on this route after an agent that could not work: with a retry, or at a node not visited
/// yet. A visited node would only be paid for again, and for a task an attempt that could not run does not count.
fn leads_on(context: &Context, route: &Route) -> bool {
    match route {
        Route::Retry => true,
        Route::Edge { to } | Route::FailureTarget { to } | Route::Restart { to } => {
            context.state.task.is_none() && context.state.visits(to) == 0
        }
        Route::Join { .. } | Route::GateRetry { .. } | Route::Complete | Route::Fail { .. } => false,
    }
}

/// Warnings in addition to the worker's own.
fn last_warnings(
    context: &mut Context,
    node: &Node,
    route: &Route,
    ending: &mut Ending,
) -> Result<Vec<Warning>, Error> {
    let mut warnings = context.take_warnings();
    // A node that will be retried makes no step.
    if *route != Route::Retry {
        warnings.extend(step::warn_of_log(context, node, ending.step.as_ref(), ending.changes.as_mut())?);
    }
    Ok(warnings)
}

/// Folds the end of a node. It is written together with the start of the next node, or once there is none.
fn fold_end(context: &mut Context, node: &Node, outcome: &Outcome, route: &Route, ending: Ending) -> Result<(), Error> {
    let Ending { events, messages, changes, step, branches } = ending;
    let at = clock::now();
    let (mut writers, mut commits) = (Writers::new(), BTreeMap::new());
    if let Some(mut changes) = changes {
        writers = turn::take_writers(context, &mut changes);
        let committed = changes.iter().filter_map(|(repo, change)| Some((repo.clone(), (change.commit?, change.tree))));
        commits = committed.collect();
    }
    // The checkpoint describes the state after the events before it.
    let mut events = recording::fold(context, events, at)?;
    let mut stepped = None;
    if *route != Route::Retry {
        let passed = outcome.status.is_success();
        stepped = step::step_of_node(context, node, passed, step, &mut writers, &commits)?;
        let step = stepped.iter().map(|(step, _)| Event::from(step.clone())).collect();
        events.extend(recording::fold(context, step, at)?);
        let last = last_events(context, node, route);
        events.extend(recording::fold(context, last, at)?);
    }
    let summary = format!("{} {}: {}", node.id, outcome.status, route_words(route));
    let step = stepped.map(|(step, tree)| MadeStep { repo: step.repo, commit: step.git_sha, tree });
    let mut work: Vec<CommitId> =
        commits.get(context.plan.repos.record_name()).map(|(commit, _)| *commit).into_iter().collect();
    work.extend(step.iter().filter(|step| step.repo == *context.plan.repos.record_name()).map(|step| step.commit));
    let batch = Batch { summary, messages, work, events, ..Batch::default() };
    recording::defer_end(context, PendingRecord { writers, batch, branches, commits, step });
    Ok(())
}

/// The events that close a node: the workspace snapshot, the checkpoint, and the end of the run.
fn last_events(context: &Context, node: &Node, route: &Route) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let checkpoint = context.state.to_checkpoint(node.id.clone());
    if let Some(workspace_snapshot) = checkpoint.workspace_snapshot.clone() {
        events.push(SnapshotRecorded { workspace_snapshot, extra: Default::default() }.into());
    }
    events.push(checkpoint.into());
    match route {
        // The session continues with its other branches.
        _ if context.state.is_branch => {}
        Route::Complete => {
            let workspace_snapshot = context.state.work.clone();
            events.push(PipelineCompleted { workspace_snapshot, extra: Default::default() }.into());
        }
        Route::Fail { reason } => {
            let node_id = Some(route::failed_node(&context.plan.pipeline, &context.state, node).id.clone());
            events.push(PipelineFailed { reason: reason.clone(), node_id, extra: Default::default() }.into());
        }
        _ => {}
    }
    events
}

/// The kinds and models of the agents that took the running node's turns, including the last one.
fn worked_by(context: &Context, last: &[Event]) -> Vec<(String, String)> {
    let turns = match &context.state.position {
        Position::Running { turns, .. } => &turns[..],
        _ => &[],
    };
    let of_events = last.iter().filter_map(|event| match event {
        Event::AgentTurn(turn) => Some((turn.agent.clone(), turn.model.clone())),
        _ => None,
    });
    let mut by: Vec<(String, String)> = Vec::new();
    for one in turns.iter().filter_map(|turn| turn.by.clone()).chain(of_events) {
        if !by.contains(&one) {
            by.push(one);
        }
    }
    by
}

/// The events, messages and changes of a node's end.
fn worked(context: &mut Context, effect: Effect, conversation: &Conversation) -> Ending {
    match effect {
        Effect::None => Ending::default(),
        Effect::Human(human) => {
            Ending { events: vec![human.answer.into()], changes: human.changes, ..Ending::default() }
        }
        Effect::Tool(tool) => {
            let mut execution = tool.tool;
            execution.output = Some(context.recorder.next_message());
            let mut events = vec![execution.into()];
            events.extend(turn::committed(context, &tool.changes));
            Ending { events, messages: vec![tool.output], changes: Some(tool.changes), ..Ending::default() }
        }
        Effect::Leftover(report) => {
            turn::remember(context, conversation, &report.messages);
            let mut events = vec![turn::numbered(context, report.turn, report.messages.len()).into()];
            events.extend(turn::committed(context, &report.changes));
            Ending { events, messages: report.messages, changes: Some(report.changes), ..Ending::default() }
        }
    }
}

/// A digest of a command's output or an agent's answer, without secrets.
fn output_digest(context: &Context, ending: &Ending, response: Option<&str>) -> Option<String> {
    let of_command = matches!(ending.events.first(), Some(Event::ToolExecution(_)));
    let printed = ending.messages.first().filter(|_| of_command).map(Value::to_string);
    let output = printed.or_else(|| response.map(str::to_owned))?;
    Some(format!("{:016x}", digest(&context.engine.redactor.text(&output))))
}

fn trees(context: &Context, changes: Option<&Changes>) -> Result<Snapshot, Error> {
    let mut trees = Snapshot::new();
    for copy in context.working().copies() {
        let changed = changes.and_then(|changes| changes.of(&copy.name)).map(|change| change.tree);
        let pending = || context.pending.as_ref().and_then(|pending| pending.tree(&copy.name));
        let tree = match changed.or_else(pending) {
            Some(tree) => tree,
            None => copy.tree()?,
        };
        trees.insert(copy.name.clone(), CommitId::from_bytes(*tree.as_bytes()));
    }
    Ok(trees)
}

/// The number of the running node's last message: its answer, or a tool's output.
fn last_message(context: &Context, node: &Node, pending: Option<&Event>) -> Option<u64> {
    if let Some(Event::ToolExecution(tool)) = pending {
        return tool.output;
    }
    match &context.state.position {
        Position::Running { turns, .. } if node.handler == HandlerKind::Codergen => {
            turns.iter().rev().find_map(|turn| turn.messages).map(|range| range.last)
        }
        _ => None,
    }
}

fn retry_at(_context: &Context, visit: &Visit, delay: Duration) -> RetryAt {
    let jittered = delay.mul_f64(0.5 + fastrand::f64());
    let wait = SignedDuration::try_from(jittered).unwrap_or(SignedDuration::MAX);
    let now = clock::now();
    RetryAt {
        node_id: visit.node.clone(),
        visit: visit.visit,
        attempt: visit.attempt + 1,
        at: now.checked_add(wait).unwrap_or(now),
        extra: Default::default(),
    }
}

fn route_words(route: &Route) -> String {
    match route {
        Route::Edge { to } => format!("to {to}"),
        Route::FailureTarget { to } => format!("back to {to}"),
        Route::GateRetry { gate, to } => format!("gate {gate} is not satisfied, back to {to}"),
        Route::Restart { to } => format!("begin again at {to}"),
        Route::Join { to } => format!("joins at {to}"),
        Route::Retry => "once more".to_owned(),
        Route::Complete => "the end".to_owned(),
        Route::Fail { reason } => format!("the run fails: {reason}"),
    }
}
