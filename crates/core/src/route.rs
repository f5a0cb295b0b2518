//! Where a pipeline goes next. Pure: the same pipeline, state and outcome always give the same answer.

mod fan_out;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::event::{FailureClass, Outcome, Route, Snapshot, Status, WorktreeMergeConflict};
use crate::ids::{ContextId, NodeId, RepoPath};
use crate::plan::OF_TASKS;
use crate::plan::condition::Condition;
use crate::plan::pipeline::{Backoff, Edge, HandlerKind, Node, Pipeline};
use crate::state::{Branch, FanOut, NodeState, Phase, Position, State, Visit, result_digest};
use crate::text::{counted, named};

pub use fan_out::{BEST_ID, BEST_OUTCOME, FanOutVerdict, MERGE_CONFLICTS, ranked, verdict};

pub use crate::plan::label::{accelerator, normalise_label};
pub use crate::plan::pipeline::DEFAULT_MAX_VISITS;

/// So many equal results of a node on equal trees mean that the run goes in circles.
pub const MAX_REPEATS: u32 = 3;

/// What conditions may read of a node that has just ended, and of the task a pass is about.
const KNOWN_LATER: [&str; 6] = ["outcome", "preferred_label", "current_node", OF_TASKS[0], OF_TASKS[1], OF_TASKS[2]];

/// What the engine is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start a node's handler.
    Start(Visit),
    /// Take a node up again whose process is gone.
    Continue(Visit),
    /// Ask again at this time.
    WakeAt(Timestamp),
}

/// What the engine is to do now in each of a session's contexts. Nothing while its node runs, after its end, and while
/// the root says that the session does not continue.
pub fn next(contexts: &[&State], now: Timestamp) -> Vec<(ContextId, Action)> {
    let goes_on = |state: &&&State| state.phase == Phase::Running;
    let root = contexts.iter().find(|state| !state.is_branch);
    if root.is_some_and(|root| !goes_on(&root)) {
        return Vec::new();
    }
    let action = |state: &&State| Some((state.id.clone(), next_in(state, now)?));
    contexts.iter().filter(goes_on).filter_map(action).collect()
}

fn next_in(state: &State, now: Timestamp) -> Option<Action> {
    match &state.position {
        Position::Ready { not_before: Some(time), .. } if now < *time => Some(Action::WakeAt(*time)),
        Position::Ready { visit, .. } => Some(Action::Start(visit.clone())),
        Position::Running { visit, interrupted: true, .. } => Some(Action::Continue(visit.clone())),
        Position::Running { .. } | Position::Ended => None,
    }
}

/// What follows from a handler's outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The outcome that counts: exhausted retries and unsatisfied gates change what the handler said.
    pub outcome: Outcome,
    /// Where the run goes.
    pub route: Route,
    /// With [`Route::Retry`], how long to wait, before jitter.
    pub delay: Option<Duration>,
}

/// What an attempt left beside its outcome.
#[derive(Debug, Clone, Copy)]
pub struct AttemptOutput<'a> {
    /// The trees its worktrees ended with.
    pub trees: &'a Snapshot,
    /// A digest of what it printed or answered.
    pub output: Option<&'a str>,
}

/// Decides what follows from `outcome` of the running `visit`.
pub fn decide(
    pipeline: &Pipeline,
    state: &State,
    visit: &Visit,
    outcome: Outcome,
    left: AttemptOutput<'_>,
) -> Decision {
    let Some(node) = pipeline.node(&visit.node) else {
        let reason = format!("the pipeline has no node `{}`", visit.node);
        return Decision { outcome, route: Route::Fail { reason }, delay: None };
    };
    let outcome = known(pipeline, node, outcome);
    if let Some(delay) = retry_delay(pipeline, node, visit, &outcome) {
        return Decision { outcome, route: Route::Retry, delay: Some(delay) };
    }
    let outcome = of_step(pipeline, state, node, settle(node, outcome));
    let route = route(pipeline, state, node, visit.attempt, &outcome, left);
    Decision { outcome, route, delay: None }
}

fn route(
    pipeline: &Pipeline,
    state: &State,
    node: &Node,
    attempts: u32,
    outcome: &Outcome,
    left: AttemptOutput<'_>,
) -> Route {
    let route = chosen_route(pipeline, state, node, attempts, outcome, left);
    match unresolved(pipeline, state, node, outcome, &route) {
        Some(reason) => Route::Fail { reason },
        None => route,
    }
}

/// The conflicts that are open once a node has ended, in words. Those it has found itself are not recorded yet.
fn open_conflicts(state: &State, node: &Node, outcome: &Outcome) -> Vec<String> {
    if matches!(node.handler, HandlerKind::Parallel | HandlerKind::FanIn)
        && let Some(Value::Array(found)) = outcome.context_updates.get(MERGE_CONFLICTS)
    {
        let path = |path: &Value| format!("`{}`", path["path"].as_str().unwrap_or_default());
        let describe = |conflict: &Value| {
            let paths: Vec<String> = conflict["paths"].as_array().into_iter().flatten().map(path).collect();
            format!("branch `{}` in {}", conflict["branch"].as_str().unwrap_or_default(), paths.join(", "))
        };
        return found.iter().map(describe).collect();
    }
    if node.may_resolve() && outcome.status.is_success() {
        return Vec::new();
    }
    let describe = |conflict: &WorktreeMergeConflict| {
        let paths: Vec<RepoPath> = conflict.paths.iter().map(|path| path.path.clone()).collect();
        format!("branch `{}` in {}", conflict.context, named(&paths))
    };
    state.conflicts.iter().map(describe).collect()
}

/// Whether a node asks for the newest fan-out to be repeated, and with it what could not be merged.
pub fn repeats_fan_out(state: &State, outcome: &Outcome) -> bool {
    let is_suggested = |fan_out: &FanOut| outcome.suggested_next_ids.iter().any(|id| *id == fan_out.node.as_str());
    state.fan_out.as_ref().is_some_and(is_suggested)
}

/// Why a run with open conflicts cannot go on: neither the branches that would start there nor those it would join have
/// what is in conflict. The fan-out they come from may be repeated.
fn unresolved(pipeline: &Pipeline, state: &State, node: &Node, outcome: &Outcome, route: &Route) -> Option<String> {
    let again = state.fan_out.as_ref().map(|fan_out| &fan_out.node);
    let forks =
        |to: &NodeId| again != Some(to) && pipeline.node(to).is_some_and(|node| node.handler == HandlerKind::Parallel);
    let leaves = match route {
        Route::Join { .. } | Route::Complete => true,
        Route::Edge { to } | Route::FailureTarget { to } | Route::GateRetry { to, .. } | Route::Restart { to } => {
            forks(to)
        }
        Route::Retry | Route::Fail { .. } => false,
    };
    let conflicts = if leaves { open_conflicts(state, node, outcome) } else { Vec::new() };
    (!conflicts.is_empty()).then(|| format!("unresolved merge conflict: {}", conflicts.join("; ")))
}

fn chosen_route(
    pipeline: &Pipeline,
    state: &State,
    node: &Node,
    attempts: u32,
    outcome: &Outcome,
    left: AttemptOutput<'_>,
) -> Route {
    if node.handler == HandlerKind::Exit {
        return at_exit(pipeline, state, node, outcome);
    }
    // More of what was merged is in conflict: the same node is to resolve that, too.
    let is_resolved = node.may_resolve() && outcome.status.is_success();
    if is_resolved && state.has_later_conflicts() && !repeats_fan_out(state, outcome) {
        return Route::Edge { to: node.id.clone() };
    }
    if is_looping(pipeline, state, node, outcome, left) {
        let reason = format!(
            "`{}` ended {MAX_REPEATS} times with the same result and output on the same files; the run is looping: \
             {}; set `max_visits` on a node of this cycle to allow more rounds",
            node.id,
            cycle_words(&state.completed, &node.id)
        );
        return Route::Fail { reason };
    }
    if let Some(to) = join_after(state, node).filter(|_| outcome.status != Status::Fail) {
        return within_limits(pipeline, state, node, Route::Edge { to: to.clone() });
    }
    let edge = select_edge(pipeline, state, node, outcome);
    if let Some(edge) = edge {
        let to = edge.to.clone();
        if is_idle(pipeline, state, node, outcome, left, &to) {
            let reason = format!("`{to}` changed nothing, and again {}", failure(node, attempts, outcome));
            return Route::Fail { reason };
        }
        let route = if edge.loop_restart { Route::Restart { to } } else { Route::Edge { to } };
        return within_limits(pipeline, state, node, route);
    }
    if outcome.status == Status::Fail {
        let target = node.retry_target.as_ref().or(node.fallback_retry_target.as_ref());
        return match target {
            Some(to) => within_limits(pipeline, state, node, Route::FailureTarget { to: to.clone() }),
            None => Route::Fail { reason: failure(node, attempts, outcome) },
        };
    }
    let reason = format!("`{}` has no edge for outcome `{}`", node.id, outcome.status);
    Route::Fail { reason }
}

fn failure(node: &Node, attempts: u32, outcome: &Outcome) -> String {
    let after = if attempts > 1 { format!(" after {}", counted(attempts, "attempt")) } else { String::new() };
    let why = outcome.failure_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("`{}` failed{after}{why}", node.id)
}

/// An outcome that is neither built in nor named by a condition is a failure: a `rejected` without an edge must not
/// continue like a success.
fn known(pipeline: &Pipeline, node: &Node, outcome: Outcome) -> Outcome {
    let Status::Custom(word) = &outcome.status else { return outcome };
    if node.handler == HandlerKind::Conditional || is_asked_for(pipeline, node, word) {
        return outcome;
    }
    let notes = outcome.failure_reason.as_ref().or(outcome.notes.as_ref());
    let notes = notes.map(|notes| format!(": {notes}")).unwrap_or_default();
    let reason = format!(
        "unknown outcome `{word}`{notes}; use success, partial_success, retry, fail or skipped, or an edge with \
         `outcome={word}`"
    );
    Outcome { status: Status::Fail, failure_reason: Some(reason), ..outcome }
}

/// Whether a condition after a node names an outcome: on an edge of its own, or behind branch points, which pass it on.
fn is_asked_for(pipeline: &Pipeline, node: &Node, word: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![&node.id]);
    while let Some(at) = next.pop() {
        for edge in pipeline.outgoing(at) {
            if edge.condition.as_ref().is_some_and(|condition| condition.names_outcome(word)) {
                return true;
            }
            let branches = pipeline.node(&edge.to).is_some_and(|node| node.handler == HandlerKind::Conditional);
            next.extend(Some(&edge.to).filter(|to| branches && seen.insert(*to)));
        }
    }
    false
}

/// Whether a node does work of its own, which can be repeated.
fn works(node: &Node) -> bool {
    let is_parallel = matches!(node.handler, HandlerKind::Parallel | HandlerKind::FanIn);
    is_parallel || matches!(node.handler, HandlerKind::Codergen | HandlerKind::Tool | HandlerKind::Custom(_))
}

/// The edges a fan-out follows, each with a branch: those without a condition, and those whose condition holds.
pub fn branches<'a>(pipeline: &'a Pipeline, state: &State, node: &Node) -> Vec<&'a Edge> {
    let text = |key: &str| state.context.get(key).map(text_of).unwrap_or_default();
    let status = Status::try_from(text("outcome")).unwrap_or(Status::Success);
    let label = Some(text("preferred_label")).filter(|label| !label.is_empty());
    let before = Outcome { preferred_label: label, ..Outcome::of(status) };
    let lookup = |key: &str| lookup(pipeline, state, node, &before, key);
    let usable = |edge: &&Edge| edge.max_visits.is_none_or(|max| taken(state, edge) < max);
    let holds = |edge: &&Edge| edge.condition.as_ref().is_none_or(|condition| condition.eval(&lookup));
    pipeline.outgoing(&node.id).filter(usable).filter(holds).collect()
}

/// Where a fan-out goes on when its branches have ended.
fn join_after<'a>(state: &'a State, node: &Node) -> Option<&'a NodeId> {
    let fan_out = state.fan_out.as_ref().filter(|fan_out| fan_out.node == node.id)?;
    (node.handler == HandlerKind::Parallel).then_some(&fan_out.join)
}

/// The wait before the next attempt, if there is to be one.
fn retry_delay(pipeline: &Pipeline, node: &Node, visit: &Visit, outcome: &Outcome) -> Option<Duration> {
    let policy = node.retry_policy.or(pipeline.retry_policy);
    let retries = max_retries(pipeline, node);
    let wants = match (&outcome.status, outcome.failure_class) {
        (Status::Retry, _) | (Status::Fail, FailureClass::Transient) => true,
        // Who writes `max_retries` on a node wants what it does repeated; one of the whole graph is for bad luck.
        (Status::Fail, FailureClass::Terminal) => node.max_retries.is_some() && works(node),
        _ => false,
    };
    let standard = Backoff { attempts: 1, initial: Duration::from_millis(200), factor: 2.0 };
    (wants && visit.attempt <= retries).then(|| policy.unwrap_or(standard).delay(visit.attempt))
}

/// Attempts of a node after its first.
pub fn max_retries(pipeline: &Pipeline, node: &Node) -> u32 {
    let of_policy = |policy: Option<Backoff>| policy?.attempts.checked_sub(1);
    node.max_retries
        .or_else(|| of_policy(node.retry_policy))
        .or_else(|| (pipeline.default_max_retries > 0).then_some(pipeline.default_max_retries))
        .or_else(|| of_policy(pipeline.retry_policy))
        .unwrap_or(0)
}

/// The outcome that counts once no attempt is left.
fn settle(node: &Node, outcome: Outcome) -> Outcome {
    if outcome.status != Status::Retry {
        return outcome;
    }
    if node.allow_partial {
        let notes = Some("retries exhausted, partial accepted".into());
        return Outcome { status: Status::PartialSuccess, notes, ..outcome };
    }
    let why = outcome.failure_reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let failure_reason = Some(format!("max retries exceeded{why}"));
    Outcome { status: Status::Fail, failure_reason, ..outcome }
}

/// A step of a task goes well or it fails. With a word of its own it has not gone well, so nothing continues after it
/// but where an edge asks for that, or a branch point may.
fn of_step(pipeline: &Pipeline, state: &State, node: &Node, outcome: Outcome) -> Outcome {
    let is_step = state.task.is_some() && node.step.is_some();
    let Some(said) = outcome.own_word().filter(|_| is_step) else { return outcome };
    let asks = |edge: &Edge| {
        let branches = pipeline.node(&edge.to).is_some_and(|node| node.handler == HandlerKind::Conditional);
        edge.condition.is_some() || branches
    };
    if select_edge(pipeline, state, node, &outcome).is_some_and(asks) {
        return outcome;
    }
    let (failure_class, failure_reason) = (FailureClass::Terminal, Some(said));
    Outcome { status: Status::Fail, failure_class, failure_reason, ..outcome }
}

/// The edge the run follows, by the five steps: a condition that holds, the preferred label, the suggested nodes,
/// then the heaviest and the lexically first unconditional edge. A failure follows only edges with a condition, save
/// to a branch point and from it: passing failures on is what those are for.
pub fn select_edge<'a>(pipeline: &'a Pipeline, state: &State, node: &Node, outcome: &Outcome) -> Option<&'a Edge> {
    // The other edges of a fan-out lead into its branches.
    let is_way = |edge: &&Edge| node.handler != HandlerKind::Parallel || edge.condition.is_some();
    let usable = |edge: &&Edge| is_way(edge) && edge.max_visits.is_none_or(|max| taken(state, edge) < max);
    let edges: Vec<&Edge> = pipeline.outgoing(&node.id).filter(usable).collect();
    let lookup = |key: &str| lookup(pipeline, state, node, outcome, key);
    let holds = |edge: &&Edge| edge.condition.as_ref().is_some_and(|condition| condition.eval(&lookup));
    if let Some(edge) = best(edges.iter().copied().filter(holds)) {
        return Some(edge);
    }
    let branches = |id: &NodeId| pipeline.node(id).is_some_and(|node| node.handler == HandlerKind::Conditional);
    let takes = |edge: &Edge| outcome.status != Status::Fail || branches(&edge.from) || branches(&edge.to);
    let open: Vec<&Edge> = edges.into_iter().filter(|edge| edge.condition.is_none() && takes(edge)).collect();
    let by_label = outcome.preferred_label.as_deref().filter(|label| !label.trim().is_empty()).and_then(|label| {
        let wanted = normalise_label(label);
        open.iter().find(|edge| !edge.label.is_empty() && normalise_label(&edge.label) == wanted)
    });
    let by_id = || outcome.suggested_next_ids.iter().find_map(|id| open.iter().find(|edge| edge.to == id.as_str()));
    by_label.or_else(by_id).copied().or_else(|| best(open.iter().copied()))
}

/// The node a run that knows nothing of what was said before can start at, after one that went well. None where what
/// came of that node, or of one before it, decides which way is taken, there or later on.
pub fn entry_after<'a>(pipeline: &'a Pipeline, node: &Node) -> Option<&'a NodeId> {
    let reads = |edge: &'a Edge, known: &[&str]| {
        let keys = edge.condition.iter().flat_map(Condition::keys);
        let mut short = keys.map(|key| key.strip_prefix("context.").unwrap_or(key));
        short.all(|key| known.contains(&key) || key.starts_with("graph."))
    };
    let own: Vec<&Edge> = pipeline.outgoing(&node.id).collect();
    let state = State::new(node.id.clone());
    let chosen = |status| select_edge(pipeline, &state, node, &Outcome { status, ..Outcome::success() });
    let (edge, other) = (chosen(Status::Success)?, chosen(Status::PartialSuccess)?);
    let open = own.iter().filter(|edge| edge.condition.is_none()).count();
    let is_certain = edge.to == other.to && (edge.condition.is_some() || open == 1);
    // A branch point passes on what the node before it has said.
    let branches = pipeline.node(&edge.to)?.handler == HandlerKind::Conditional;
    if !is_certain || branches || !own.iter().all(|edge| reads(edge, &["outcome"])) {
        return None;
    }
    let (mut seen, mut next) = (BTreeSet::from([&edge.to]), vec![&edge.to]);
    while let Some(at) = next.pop() {
        for edge in pipeline.outgoing(at) {
            if !reads(edge, &KNOWN_LATER) {
                return None;
            }
            next.extend(Some(&edge.to).filter(|to| seen.insert(to)));
        }
    }
    Some(&edge.to)
}

fn taken(state: &State, edge: &Edge) -> u32 {
    state.edges_taken.get(&edge.from).and_then(|to| to.get(&edge.to)).copied().unwrap_or(0)
}

/// The heaviest edge, then the lexically first target, then the first written.
fn best<'a>(edges: impl Iterator<Item = &'a Edge>) -> Option<&'a Edge> {
    edges.reduce(|best, edge| {
        let better = edge.weight > best.weight || (edge.weight == best.weight && edge.to < best.to);
        if better { edge } else { best }
    })
}

/// The value of a key in a condition, as it is once the outcome is part of the context; a missing one is empty.
fn lookup(pipeline: &Pipeline, state: &State, node: &Node, outcome: &Outcome, key: &str) -> String {
    let counts = outcome.status != Status::Skipped;
    let find = |key: &str| match key {
        "outcome" if counts => Some(outcome.status.as_str().to_owned()),
        "preferred_label" if counts => Some(outcome.preferred_label.clone().unwrap_or_default()),
        "current_node" => Some(node.id.to_string()),
        _ => {
            let value = outcome.context_updates.get(key).or_else(|| state.context.get(key)).map(text_of);
            let of_graph = || Some(pipeline.attrs.get(key.strip_prefix("graph.")?)?.value.to_string());
            value.or_else(of_graph)
        }
    };
    find(key).or_else(|| find(key.strip_prefix("context.")?)).unwrap_or_default()
}

/// A context value as conditions and prompts see it.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// At the exit every gate the run has reached must be satisfied, and one that sent it back must have run again.
fn at_exit(pipeline: &Pipeline, state: &State, exit: &Node, outcome: &Outcome) -> Route {
    // What a branch says of its gates counts once it is joined. No gate is asked while conflicts are open.
    if state.is_branch || !state.conflicts.is_empty() {
        return Route::Complete;
    }
    if outcome.status == Status::Fail {
        return Route::Fail { reason: outcome.failure_reason.clone().unwrap_or_else(|| "the exit failed".into()) };
    }
    if let Some(step) = unsatisfied_step(pipeline, state) {
        return Route::Fail { reason: format!("`{}` did not succeed, and no task is complete without it", step.id) };
    }
    let Some(gate) = unsatisfied_gate(pipeline, state) else {
        return Route::Complete;
    };
    let targets =
        [&gate.retry_target, &gate.fallback_retry_target, &pipeline.retry_target, &pipeline.fallback_retry_target];
    let Some(to) = targets.into_iter().flatten().next() else {
        let reason = format!("goal gate `{}` is unsatisfied and has no retry target", gate.id);
        return Route::Fail { reason };
    };
    let retries = state.gate_retries.get(&gate.id).copied().unwrap_or(0);
    let bound = max_visits(pipeline, gate);
    if retries + 1 >= bound {
        let reason = format!("goal gate `{}` is still unsatisfied after {retries} retries", gate.id);
        return Route::Fail { reason };
    }
    within_limits(pipeline, state, exit, Route::GateRetry { gate: gate.id.clone(), to: to.clone() })
}

/// The node a run failed at that has reached its end at `node`: continuing from the exit would lead nowhere where a
/// gate is what did not let it end.
pub fn failed_node<'a>(pipeline: &'a Pipeline, state: &State, node: &'a Node) -> &'a Node {
    match node.handler {
        HandlerKind::Exit => unsatisfied_gate(pipeline, state).unwrap_or(node),
        // Without branches that succeeded it has nothing to bring together.
        HandlerKind::FanIn => {
            let failed = |fan_out: &&FanOut| !fan_out.branches.iter().any(Branch::has_succeeded);
            let fan_out = state.fan_out.as_ref().filter(failed);
            fan_out.and_then(|fan_out| pipeline.node(&fan_out.node)).unwrap_or(node)
        }
        _ => node,
    }
}

/// The first step a pass at a task has reached that keeps the task from being complete, whatever edges lead on after
/// it: nothing lands that was not done, is red or was rejected. A step of the user's own is for the pipeline to judge.
fn unsatisfied_step<'a>(pipeline: &'a Pipeline, state: &State) -> Option<&'a Node> {
    let decides = |node: &&Node| matches!(node.step.as_deref(), Some("implement" | "test" | "review"));
    let failed = |node: &&Node| state.outcome(&node.id).is_some_and(|outcome| !outcome.status.is_success());
    pipeline.nodes().iter().filter(|_| state.task.is_some()).filter(decides).find(failed)
}

/// The first gate the run has reached that does not let it end.
pub fn unsatisfied_gate<'a>(pipeline: &'a Pipeline, state: &State) -> Option<&'a Node> {
    pipeline.nodes().iter().filter(|node| node.goal_gate).find(|node| {
        state.recheck.contains(&node.id) || state.outcome(&node.id).is_some_and(|outcome| !outcome.status.is_success())
    })
}

/// How often the run may come to a node.
pub fn max_visits(pipeline: &Pipeline, node: &Node) -> u32 {
    node.max_visits.or(pipeline.default_max_visits).unwrap_or(DEFAULT_MAX_VISITS)
}

/// Whether only its own limits end the cycle here: it waits for something, or has a limit.
fn is_counted(pipeline: &Pipeline, round: &[NodeId]) -> bool {
    let mut nodes = round.iter().filter_map(|id| pipeline.node(id));
    let bounded =
        |from: &NodeId, to: &NodeId| pipeline.outgoing(from).any(|edge| edge.to == *to && edge.max_visits.is_some());
    pipeline.default_max_visits.is_some()
        || nodes.any(|node| node.max_visits.is_some() || node.handler == HandlerKind::Wait)
        || round.windows(2).any(|pair| bounded(&pair[0], &pair[1]))
}

/// The largest explicit limit of another node in the cycle, for a node without one: a limit at one node bounds the
/// whole cycle.
fn largest_limit(pipeline: &Pipeline, target: &Node, round: &[NodeId]) -> u32 {
    if target.max_visits.or(pipeline.default_max_visits).is_some() {
        return 0;
    }
    round.iter().filter_map(|id| pipeline.node(id)?.max_visits).max().unwrap_or(0)
}

/// `route`, unless it leads to a node the run has reached too often. A branch ends where it joins the others.
fn within_limits(pipeline: &Pipeline, state: &State, from: &Node, route: Route) -> Route {
    let (Route::Edge { to } | Route::FailureTarget { to } | Route::GateRetry { to, .. } | Route::Restart { to }) =
        &route
    else {
        return route;
    };
    if state.join.as_ref() == Some(to) {
        return Route::Join { to: to.clone() };
    }
    let Some(target) = pipeline.node(to) else {
        return Route::Fail { reason: format!("`{}` leads to `{to}`, which is not a node", from.id) };
    };
    let mut walked = state.completed.clone();
    walked.push(from.id.clone());
    let max = max_visits(pipeline, target).max(largest_limit(pipeline, target, &newest_cycle(&walked, to)));
    if state.rounds(to) < max {
        return route;
    }
    let reason = format!("`{to}` reached its visit limit of {max}: {}", cycle_words(&walked, to));
    Route::Fail { reason }
}

/// A node that ends the same way again and again on the same files, with the same words, will do so forever. A cycle
/// that waits for something, or has a limit of its own, is left to that.
fn is_looping(pipeline: &Pipeline, state: &State, node: &Node, outcome: &Outcome, left: AttemptOutput<'_>) -> bool {
    let repeats = state.nodes.get(&node.id).is_some_and(|known| {
        known.repeats + 1 >= MAX_REPEATS && known.result == result_digest(outcome, left.trees, left.output)
    });
    works(node) && repeats && !is_counted(pipeline, &newest_cycle(&state.completed, &node.id))
}

/// Whether a run that goes back to an agent whose work is checked has failed as it did before it was there last, on the
/// same files.
fn is_idle(
    pipeline: &Pipeline,
    state: &State,
    node: &Node,
    outcome: &Outcome,
    left: AttemptOutput<'_>,
    to: &NodeId,
) -> bool {
    let is_checked = pipeline.node(to).is_some_and(|to| to.check.is_some()) && state.visits(to) > 0;
    let repeats =
        |known: &NodeState| known.repeats > 0 && known.result == result_digest(outcome, left.trees, left.output);
    is_checked && !outcome.status.is_success() && state.nodes.get(&node.id).is_some_and(repeats)
}

/// The newest way round from `node` to itself.
fn newest_cycle(walked: &[NodeId], node: &NodeId) -> Vec<NodeId> {
    let from = walked.iter().rposition(|walked| walked == node).unwrap_or(0);
    walked[from..].iter().chain([node]).cloned().collect()
}

fn cycle_words(walked: &[NodeId], node: &NodeId) -> String {
    newest_cycle(walked, node).iter().map(NodeId::as_str).collect::<Vec<_>>().join(" → ")
}
