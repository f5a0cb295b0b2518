//! The start of a node: its record, and the assignment for its worker.

use std::sync::Arc;

use super::conflicts::sides as sides_of;
use super::end_node::{self, DEFER_AT_MOST};
use super::worktrees::node_base;
use super::{Context, NodeEnd, history, recording};
use crate::env::{BudgetVerdict, Error};
use crate::session::executor::{
    AssignedWork, Assignment, ConflictWork, Conversation, NodeStart, RecordedFacts, Wanted, work,
};
use crate::session::worker::NodeFinished;
use agents::agent::Agent;
use agents::llm::Message;
use pleach_core::budget::Allowance;
use pleach_core::event::{NodeStarted, Outcome, RewindVia, WarningCode};
use pleach_core::ids::{CommitId, RepoName};
use pleach_core::plan::pipeline::{HandlerKind, Node};
use pleach_core::redact::is_marked;
use pleach_core::state::{Position, Rewound, State, Visit};

/// The result of starting a node.
#[derive(Debug)]
pub(crate) enum NodeBegin {
    /// The node has nothing to run and has already ended.
    Passed(NodeEnd),
    /// The start is recorded; run this assignment, with the known facts of the record.
    Started(Box<Assignment>, Option<RecordedFacts>),
}

/// How a node takes part in the conversations of the run. The first agent after a resume gets a summary instead, and so
/// does a program, which reads a single prompt.
pub(crate) fn conversation(context: &mut Context, node: &Node, visit: &Visit, continues: bool) -> Conversation {
    let degrade = context.degrade && !continues;
    let mut conversation = Conversation::of(&context.plan.pipeline, &context.state, node, visit, degrade);
    if !can_go_on_with(context, node, &conversation) {
        conversation = Conversation::of(&context.plan.pipeline, &context.state, node, visit, true);
    }
    if node.handler == HandlerKind::Codergen {
        context.degrade = false;
    }
    conversation
}

/// Whether the agent of a node can continue its conversation: it accepts messages, or it keeps the conversation itself.
fn can_go_on_with(context: &Context, node: &Node, conversation: &Conversation) -> bool {
    let Some(thread) = &conversation.thread else { return true };
    let Ok(agent) = context.engine.agents.of(node) else { return true };
    let state = context.state.thread_states.get(thread);
    let is_new = !context.state.threads.contains_key(thread);
    agent.can_continue()
        || ((is_new || state.is_some())
            && agent.can_resume(state, &context.plan.agent_home(&context.engine, &context.id)))
}

/// Starts or resumes a node and records it. `limits` are its allowance and the budget's verdict.
pub(crate) fn begin(
    context: &mut Context,
    node: &Node,
    visit: &Visit,
    continues: bool,
    conversation: &Conversation,
    allowance: Allowance,
    verdict: BudgetVerdict,
) -> Result<NodeBegin, Error> {
    let start = if continues { continuing(context, node) } else { NodeStart::First };
    if let Some(outcome) = work::passes(&context.engine, &context.plan, &context.state, node) {
        return pass(context, node, visit, start, conversation, outcome).map(NodeBegin::Passed);
    }
    let known = know(context, node, conversation)?;
    let (summary, started) = started(context, node, visit, start, conversation);
    recording::write_with(context, &summary, started.into())?;
    let assignment = Assignment {
        session: context.plan.run.session.clone(),
        context: context.id.clone(),
        record: newest_record(context),
        visit: visit.clone(),
        start,
        conversation: conversation.clone(),
        next_turn: context.state.turns + 1,
        allowance,
        verdict,
        resolves: conflict_work(context, node),
        job: AssignedWork::Node,
    };
    Ok(NodeBegin::Started(Box::new(assignment), known))
}

/// The facts of the record for the executor, if the node needs them. Reading them here finds errors before the node
/// counts as started.
fn know(context: &mut Context, node: &Node, conversation: &Conversation) -> Result<Option<RecordedFacts>, Error> {
    if work::needs_no_record(&context.engine, node) {
        return Ok(None);
    }
    if context.engine.is_of_agent(node) {
        work::agent_of(&context.engine, node)?;
    }
    let thread = conversation.thread.as_deref();
    let wanted = Wanted::by(&context.engine, &context.plan, &context.state, node, thread);
    history::hear(context, &wanted)?;
    Ok(Some(RecordedFacts {
        state: Arc::clone(&context.state),
        heard: Arc::clone(&context.memory.heard),
        interrupted: std::mem::take(&mut context.memory.interrupted),
    }))
}

/// The conflicts a node resolves, if there are any and it can.
fn conflict_work(context: &Context, node: &Node) -> Option<ConflictWork> {
    let state = &context.state;
    let conflicts = state.next_conflict();
    let branch = conflicts.first().filter(|_| node.may_resolve())?.context.clone();
    let paths = conflicts.iter().flat_map(|conflict| &conflict.paths).map(|path| path.path.clone()).collect();
    let is_untouched = |repo: &RepoName| state.work.get(repo) == state.merged_work.get(repo);
    let lay = conflicts.iter().filter(|conflict| is_untouched(&conflict.repo));
    let lay = lay.map(|conflict| (conflict.repo.clone(), conflict.theirs)).collect();
    let sides = conflicts.iter().filter_map(|conflict| Some((conflict.repo.clone(), sides_of(state, conflict)?)));
    let sides = sides.collect();
    let fork = state.forks.get(&branch).filter(|_| state.returns > 0);
    let bases = fork.map(|fork| fork.base.clone()).unwrap_or_default();
    let (fan_out, join) = state.fan_out.as_ref().map(|fan_out| (fan_out.node.clone(), fan_out.join.clone())).unzip();
    let gate = join.filter(|_| !state.has_later_conflicts());
    Some(ConflictWork { branch, paths, lay, bases, sides, fan_out, gate })
}

pub(crate) fn newest_record(context: &Context) -> CommitId {
    context.recorder.tip().expect("a context that was written to has a newest record")
}

/// The start event of a node, and its one-line summary for the record.
pub(crate) fn started(
    context: &Context,
    node: &Node,
    visit: &Visit,
    start: NodeStart,
    conversation: &Conversation,
) -> (String, NodeStarted) {
    let is_agent = node.handler == HandlerKind::Codergen;
    let mut started = NodeStarted {
        node_id: visit.node.clone(),
        visit: visit.visit,
        attempt: visit.attempt,
        handler: node.handler.as_str().to_owned(),
        base: context.state.work.clone(),
        starts_over: false,
        fidelity: is_agent.then(|| conversation.fidelity.as_str().to_owned()),
        thread: conversation.thread.clone().filter(|_| is_agent),
        extra: Default::default(),
    };
    if start != NodeStart::First {
        started.base = node_base(context);
    }
    let what = match start {
        NodeStart::First => "start",
        NodeStart::Continued => "continue",
        NodeStart::Redriven => "repeat",
        NodeStart::Retold => "tell of",
    };
    (format!("{what} {} (visit {}, attempt {})", visit.node, visit.visit, visit.attempt), started)
}

/// Runs a node that only passes its input on. It touches no files, so writing its start and end can be deferred.
fn pass(
    context: &mut Context,
    node: &Node,
    visit: &Visit,
    start: NodeStart,
    conversation: &Conversation,
    outcome: Outcome,
) -> Result<NodeEnd, Error> {
    // The record of a session's end comes after everything else is in place, because no process moves a branch after
    // that.
    if node.handler == HandlerKind::Exit && context.state.task.is_none() {
        recording::flush_commits(context)?;
    }
    let (summary, started) = started(context, node, visit, start, conversation);
    recording::defer(context, &summary, vec![started.into()])?;
    let finished = NodeFinished::of(Ok(outcome));
    let end = end_node::node_ended(context, node, visit, finished, conversation)?;
    // A long chain of nodes that only pass on must not exist in memory alone.
    if context.pending.as_ref().is_some_and(|pending| pending.batch.events.len() > DEFER_AT_MOST) {
        recording::flush(context)?;
    }
    Ok(end)
}

/// Whether the interrupted node already has its answer, so that nothing more is done or spent on it.
pub(crate) fn is_answered(context: &Context, node: &Node) -> bool {
    let agent = context.engine.agents.of(node);
    agent.is_ok_and(|agent| work::is_answered(&context.state, &*agent, &context.memory.interrupted))
}

/// How an interrupted node goes on.
fn continuing(context: &mut Context, node: &Node) -> NodeStart {
    let has_turns = node.handler == HandlerKind::Codergen && context.state.has_turns();
    let (Ok(agent), true) = (context.engine.agents.of(node), has_turns) else { return NodeStart::Continued };
    let via = context.state.rewound.map(|rewound| rewound.via);
    let is_told = via == Some(Some(RewindVia::Summary)) || via.is_some() && is_of_another(&context.state, &*agent);
    let resumable = || {
        let state = context.state.agent_state(None);
        state.is_some() && agent.can_resume(state, &context.plan.agent_home(&context.engine, &context.id))
    };
    if is_answered(context, node) || !is_told && (agent.can_continue() || resumable()) {
        return NodeStart::Continued;
    }
    // Its earlier messages belong to no conversation it could go on with.
    context.memory.heard_mut().threads.clear();
    let refused = if is_told { Some(None) } else { why_not_repeated(context, node, &*agent) };
    match refused {
        None => NodeStart::Redriven,
        Some(why) => {
            let text = |why| format!("the agent of `{}` is told what it did before: {why}", node.id);
            context.warnings.extend(why.map(|why: &str| WarningCode::ReplayRetold.with(text(why))));
            NodeStart::Retold
        }
    }
}

/// Whether the node's turns were taken by an agent of another kind.
fn is_of_another(state: &State, agent: &dyn Agent) -> bool {
    let Position::Running { turns, .. } = &state.position else { return false };
    turns.iter().rev().find_map(|turn| turn.by.as_ref()).is_some_and(|(kind, _)| kind != agent.kind())
}

/// Why the calls of a node's agent are not answered from the record again; with a reason where a person may want that. Its
/// tools would run again: at a point that was gone back to only where they cannot reach the network.
fn why_not_repeated(context: &Context, node: &Node, agent: &dyn Agent) -> Option<Option<&'static str>> {
    if !agent.repeats_calls() || context.working().is_shared() {
        return Some(None);
    }
    if node.may_resolve() && !context.state.next_conflict().is_empty() {
        return Some(None);
    }
    let has_marks = |message: &Message| message.tool_calls().any(|(_, _, arguments)| is_marked(&arguments.to_string()));
    if context.memory.interrupted.iter().any(has_marks) {
        return Some(Some("the record leaves a secret out of what its tools were given"));
    }
    let is_closed = || context.engine.sandbox.as_ref().is_some_and(|sandbox| sandbox.closes_network());
    match context.state.rewound {
        Some(Rewound { via: None }) if !is_closed() => Some(Some(
            "its commands would run again, and the sandbox does not close the network to them (`--via redrive` insists)",
        )),
        _ => None,
    }
}
