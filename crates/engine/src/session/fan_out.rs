//! Fan-outs. The context that reaches one forks a context per branch, and records how each of them ended. Which branch
//! runs and when the fan-out is over is decided by [`pleach_core::route`]; the pump acts on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, NodeBegin, NodeEnd, begin_node, end_node, recording, worktrees};
use super::executor::{AssignedWork, Assignment, Conversation, NodeStart};
use super::fork::{ForkOrigin, begin_fork};
use super::worker::{NodeFinished, undo_writes};
use crate::env::{BudgetVerdict, Error, worktree_lock};
use crate::keep;
use crate::view::recorded_state;
use git::record::{self, Batch, History};
use git::workspace::parallel_branches;
use pleach_core::budget::Allowance;
use pleach_core::event::{
    ContextForked, Event, ForkKind, Outcome, ParallelBranch, ParallelBranchCompleted, ParallelCompleted,
    ParallelStarted, PipelineCancelled, Recorded, Snapshot, Status, WarningCode,
};
use pleach_core::ids::{BranchName, ContextId, RepoName};
use pleach_core::plan::join_point::{is_read_only, join_of};
use pleach_core::plan::pipeline::{HandlerKind, Node};
use pleach_core::state::{Branch, FanOut, State, Visit};
use pleach_core::text::listed;
use pleach_core::{clock, route};

/// What became of a fan-out that was to be started.
pub(super) enum FanOutBegin {
    /// Its branches are on record. Those that were before are open already.
    Forked(Vec<Context>),
    /// There is no branch to run.
    Ended(NodeEnd),
}

/// Starts a fan-out, or resumes one whose branches are on record.
pub(super) fn begin(context: &mut Context, node: &Node, visit: &Visit, continues: bool) -> Result<FanOutBegin, Error> {
    let start = if continues { NodeStart::Continued } else { NodeStart::First };
    let (summary, started) = begin_node::started(context, node, visit, start, &Conversation::none());
    if continues && context.state.fan_out.as_ref().is_some_and(|fan_out| fan_out.is_of(visit)) {
        recording::write_with(context, &summary, started.into())?;
        return Ok(FanOutBegin::Forked(Vec::new()));
    }
    let is_open = context.state.within.contains(&node.id);
    let parallel = match branches(context, node, visit) {
        Some(parallel) if !is_open => parallel,
        _ => {
            recording::defer(context, &summary, vec![started.into()])?;
            let why = if is_open {
                format!("branch `{}` came back to `{}`, which it is a branch of", context.id, node.id)
            } else {
                "no edge leads to a branch".to_owned()
            };
            // Another way on could only lead here again, so a branch that came back ends.
            let finished = NodeFinished { cut_short: is_open, ..NodeFinished::of(Ok(Outcome::final_failure(why))) };
            return end_node::node_ended(context, node, visit, finished, &Conversation::none()).map(FanOutBegin::Ended);
        }
    };
    let forks = forks(context, &parallel)?;
    let locks = forks.iter().map(|fork| worktree_lock(&context.repo, &context.plan.run.session, &fork.context));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    let at = clock::now();
    let batch = Batch {
        summary: format!("{summary}: branches {}", listed(forks.iter().map(|fork| &fork.context), 10)),
        work: context.state.work.get(context.plan.repos.record_name()).copied().into_iter().collect(),
        ..Batch::default()
    };
    let mut events: Vec<Event> = vec![started.into(), parallel.into()];
    events.extend(forks.iter().cloned().map(Event::from));
    recording::record(context, batch, events, at)?;
    let record = begin_node::newest_record(context);
    let children = forks.into_iter().zip(locks).map(|(fork, lock)| {
        let fork_event = Recorded { at, event: fork.into() };
        begin_fork(context, ForkOrigin { record, fork_event, state: State::clone(&context.state) }, lock)
    });
    Ok(FanOutBegin::Forked(children.collect::<Result<_, _>>()?))
}

/// The branches a fan-out has now, with the names of their contexts; none where there are none.
fn branches(context: &Context, node: &Node, visit: &Visit) -> Option<ParallelStarted> {
    let pipeline = &context.plan.pipeline;
    let edges = route::branches(pipeline, &context.state, node);
    let (join, rules) = (join_of(pipeline, &node.id)?, node.fan_out?);
    let mut taken: Vec<ContextId> = Vec::new();
    let branch = |edge: &pleach_core::plan::pipeline::Edge| {
        let name = context.state.fork_name(&edge.to, &taken);
        taken.push(name.clone());
        let read_only = is_read_only(pipeline, &edge.to, Some(join));
        ParallelBranch { context: name, node_id: edge.to.clone(), read_only }
    };
    let branches: Vec<ParallelBranch> = edges.into_iter().map(branch).collect();
    (!branches.is_empty()).then(|| ParallelStarted {
        node_id: node.id.clone(),
        visit: visit.visit,
        attempt: visit.attempt,
        join: join.clone(),
        join_policy: rules.join.as_str().to_owned(),
        error_policy: rules.errors.as_str().to_owned(),
        max_parallel: u32::try_from(rules.max_parallel).unwrap_or(u32::MAX),
        branches,
        extra: Default::default(),
    })
}

fn forks(context: &Context, parallel: &ParallelStarted) -> Result<Vec<ContextForked>, Error> {
    let fork = |branch: &ParallelBranch| {
        // A branch that writes nothing has nothing to commit.
        let branches = if branch.read_only { BTreeMap::new() } else { branches_beside(context, &branch.context)? };
        Ok(ContextForked {
            from: context.id.clone(),
            context: branch.context.clone(),
            kind: ForkKind::Parallel,
            node_id: branch.node_id.clone(),
            base: context.state.work.clone(),
            branches,
            join: Some(parallel.join.clone()),
            replayed: None,
            extra: Default::default(),
        })
    };
    parallel.branches.iter().map(fork).collect()
}

/// The branches of a context beside those of its session.
fn branches_beside(parent: &Context, context: &ContextId) -> Result<BTreeMap<RepoName, BranchName>, Error> {
    let beside = |(repo, branch): (&RepoName, &BranchName)| {
        let beginning = parallel_branches(&parent.plan.started, &parent.plan.run.session, branch);
        let branch = BranchName::new(format!("{beginning}{context}"));
        Ok((repo.clone(), branch.map_err(|error| Error::Name(error.to_string()))?))
    };
    parent.plan.started.branches.iter().map(beside).collect()
}

/// How a branch ended, as the context with the fan-out records it.
pub(super) fn branch_end(branch: &Context, fan_out: &FanOut) -> ParallelBranchCompleted {
    let state = &branch.state;
    let gates = branch.plan.pipeline.nodes().iter().filter(|node| node.goal_gate).map(|node| node.id.clone());
    let outcome = match state.branch_outcome() {
        // The nodes after the join are told this much of what its agents have said.
        Some(outcome) => {
            let said = state.context.get("last_response").map(route::text_of).filter(|said| !said.is_empty());
            let notes = outcome.notes.clone().or(said.filter(|_| state.turns > 0));
            Outcome { context_updates: BTreeMap::new(), notes, ..outcome.clone() }
        }
        None => Outcome { notes: Some("stopped".to_owned()), ..Outcome::of(Status::Skipped) },
    };
    let score = state.context.get("score").map(route::text_of).and_then(|score| score.trim().parse::<f64>().ok());
    ParallelBranchCompleted {
        node_id: fan_out.node.clone(),
        context: branch.id.clone(),
        outcome,
        stopped: state.branch_outcome().is_none(),
        // What is not finite has no place in a ranking, and none in a record.
        score: score.filter(|score| score.is_finite()),
        work: state.work.clone(),
        goal_gates: state.own_outcomes(gates),
        extra: Default::default(),
    }
}

/// Records how branches ended.
pub(super) fn record_ends(context: &mut Context, ended: Vec<ParallelBranchCompleted>) -> Result<(), Error> {
    let how = |ended: &ParallelBranchCompleted| {
        let how = if ended.stopped { "stopped" } else { ended.outcome.status.as_str() };
        format!("branch {} {how}", ended.context)
    };
    let summary = ended.iter().map(how).collect::<Vec<_>>().join(", ");
    let work = ended.iter().filter_map(|ended| ended.work.get(context.plan.repos.record_name())).copied().collect();
    let batch = Batch { summary, work, ..Batch::default() };
    recording::record(context, batch, ended.into_iter().map(Event::from).collect(), clock::now())
}

/// Records in a branch that it was stopped.
pub(super) fn record_stop(branch: &mut Context) -> Result<(), Error> {
    let batch = Batch { summary: "stop the branch".to_owned(), ..Batch::default() };
    recording::record(branch, batch, vec![PipelineCancelled::default().into()], clock::now())
}

/// Whether the branches of a fan-out are brought together by its own node: where they join at a node that is no fan-in, or
/// at one that belongs to a fan-out around it.
pub(super) fn joins_itself(context: &Context, fan_out: &FanOut) -> bool {
    let join = context.plan.pipeline.node(&fan_out.join);
    context.state.join.as_ref() == Some(&fan_out.join) || join.is_none_or(|join| join.handler != HandlerKind::FanIn)
}

/// Ends a fan-out whose branches have ended. If it brings them together itself, that is assigned first.
pub(super) fn end(
    context: &mut Context,
    node: &Node,
    visit: &Visit,
    outcome: Outcome,
    duration: Duration,
) -> Result<NodeBegin, Error> {
    let Some(fan_out) = context.state.fan_out.clone() else {
        return Err(Error::Worker { node: node.id.clone(), why: "a fan-out without branches".into() });
    };
    if !fan_out.is_over {
        let count = |is: &dyn Fn(&Branch) -> bool| {
            u32::try_from(fan_out.branches.iter().filter(|branch| is(branch)).count()).unwrap_or(u32::MAX)
        };
        let stopped = |branch: &Branch| branch.ended.as_ref().is_some_and(|ended| ended.stopped);
        let completed = ParallelCompleted {
            node_id: node.id.clone(),
            visit: visit.visit,
            attempt: visit.attempt,
            succeeded: count(&|branch| branch.has_succeeded()),
            failed: count(&|branch| branch.has_failed()),
            stopped: count(&stopped),
            extra: Default::default(),
        };
        recording::defer(context, &format!("end the branches of {}", node.id), vec![completed.into()])?;
    }
    if outcome.status == Status::Fail || !joins_itself(context, &fan_out) {
        // Nobody will join them: what branches wrote that must not write is undone here.
        if outcome.status == Status::Fail && fan_out.branches.iter().any(|branch| branch.of.read_only) {
            let undone = undo_writes(context.working_mut(), &node.id, false)?;
            context.warnings.extend(undone);
        }
        let finished = NodeFinished { duration, ..NodeFinished::of(Ok(outcome)) };
        let end = end_node::node_ended(context, node, visit, finished, &Conversation::none())?;
        return Ok(NodeBegin::Passed(end));
    }
    recording::flush(context)?;
    let assignment = Assignment {
        session: context.plan.run.session.clone(),
        context: context.id.clone(),
        record: begin_node::newest_record(context),
        visit: visit.clone(),
        start: NodeStart::First,
        conversation: Conversation::none(),
        next_turn: context.state.turns + 1,
        allowance: Allowance::default(),
        verdict: BudgetVerdict::Go,
        resolves: None,
        job: AssignedWork::Node,
    };
    Ok(NodeBegin::Started(Box::new(assignment), None))
}

/// Removes the worktrees of branches that were brought together without a conflict, or with all conflicts resolved;
/// uncommitted files are kept first. One that cannot be removed stays, and is a matter for `doctor`.
pub(super) fn clean_up(context: &mut Context) -> Result<(), Error> {
    let state = Arc::clone(&context.state);
    let Some(fan_out) = state.fan_out.as_ref().filter(|fan_out| fan_out.is_joined && state.conflicts.is_empty()) else {
        return Ok(());
    };
    for (branch, work) in closed_branches(context, fan_out)? {
        for repo in state.branches.keys() {
            let path = worktrees::copy_path_of(context, &branch, repo);
            if !path.is_dir() {
                continue;
            }
            // The record of the join comes first: until then a crash may need the worktree.
            recording::flush(context)?;
            let (handle, copied_in) = (context.plan.repos.get(repo), context.engine.worktrees.never_commit());
            let (Some(handle), work) = (handle, work.get(repo).copied()) else { continue };
            if let Err(error) = keep::remove_branch_worktree(handle, &context.plan.run.session, work, &copied_in, &path)
            {
                let text = format!("cannot remove worktree `{}`: {error}", path.display());
                context.warnings.push(WarningCode::WorktreeStays.with(text));
            }
        }
    }
    Ok(())
}

/// The branches of a fan-out that have worktrees, with their newest commits. Of a branch that was stopped, those it was
/// running itself are among them: nobody else would bring them together.
fn closed_branches(context: &Context, fan_out: &FanOut) -> Result<Vec<(ContextId, Snapshot)>, Error> {
    let writing = |fan_out: &FanOut| -> Vec<Branch> {
        fan_out.branches.iter().filter(|branch| !branch.of.read_only).cloned().collect()
    };
    let (mut next, mut found) = (writing(fan_out), Vec::new());
    while let Some(Branch { of: branch, ended }) = next.pop() {
        if let Some(ended) = ended.filter(|ended| !ended.stopped) {
            found.push((branch.context, ended.work));
            continue;
        }
        let history = match History::newest_in(&context.repo, &context.plan.run.session, &branch.context) {
            Ok(history) => history,
            // It was forked and never started.
            Err(record::Error::Missing { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let state = recorded_state(&history, &context.plan.pipeline)?;
        next.extend(state.fan_out.iter().filter(|inner| !inner.is_over).flat_map(writing));
        found.push((branch.context, state.work));
    }
    Ok(found)
}
