//! Enforces the budget: what counts against the limits of a node, and what happens when one is reached.
//!
//! Checked after every recorded turn and before an agent node starts, so that a session overshoots by at most the call
//! in flight. All sums come from records, so they are the same after a crash and in another process.

use std::collections::BTreeSet;

use super::context::recording;
use super::{Session, pausing};
use crate::env::{BudgetVerdict, Error, unknown_price};
use git::record::Batch;
use pleach_core::budget::{Account, Allowance, Amount, BudgetLimits, Exceeded, day_of};
use pleach_core::clock;
use pleach_core::config::OnExceeded;
use pleach_core::event::{BudgetExceeded, Event, PauseReason, PipelineFailed};
use pleach_core::ids::NodeId;
use pleach_core::plan::pipeline::Node;
use pleach_core::state::limit_mark;
use pleach_core::step::TreeName;

/// What an agent node may spend, and what counts against it.
pub(crate) fn allowance(session: &Session, node: &Node) -> Result<Allowance, Error> {
    let limits = BudgetLimits {
        budget: session.engine.budget.limits.clone(),
        pipeline: session.plan.pipeline.budget,
        node: node.budget,
    };
    if !limits.is_set() {
        return Ok(Allowance::default());
    }
    let (own, now) = (session.spent(), clock::now());
    let mut day = session.spent_by(|spent| spent.during(day_of(now)));
    if limits.is_for_days() {
        let budget = &session.engine.budget;
        day += tokio::task::block_in_place(|| budget.spent_on(&session.repo, day_of(now), Some(session.run())))?;
    }
    let task = session.plan.started.task.as_ref().map(|task| &task.id);
    let others = match &session.run_ledger {
        Some(ledger) => {
            ledger.set(session.run(), task, own);
            ledger.others(session.run(), task)
        }
        None => Default::default(),
    };
    let account = Account {
        node: session.spent_by(|spent| spent.on(&node.id)),
        session: own,
        run: others.run + own,
        task: if task.is_some() { others.task + own } else { Amount::default() },
        day,
    };
    Ok(Allowance { limits, account })
}

/// Checks whether a limit is reached, or cannot be checked because a model has no price, and records each warning once.
/// Returns the widest limit reached, unless limits only warn.
pub(crate) fn over_budget(
    session: &mut Session,
    node: &Node,
    allowance: &Allowance,
    unpriced: Option<&str>,
) -> Result<Option<Exceeded>, Error> {
    let warnings = session.engine.budget.take_warnings();
    session.root_mut().warnings.extend(warnings);
    let mut reached = allowance.limits.exceeded(&node.id, &allowance.account);
    let action = session.engine.budget.action();
    let mut news: Vec<Event> = Vec::new();
    for over in &reached {
        let said = BudgetExceeded {
            limit: over.limit.key().to_owned(),
            scope: over.limit.scope().to_owned(),
            node_id: over.limit.node().cloned(),
            spent: over.spent,
            of: over.of,
            action: action.as_str().to_owned(),
            text: over.to_string(),
            extra: Default::default(),
        };
        if !session.state().exceeded.contains(&limit_mark(&said)) {
            news.push(said.into());
        }
    }
    if allowance.limits.is_in_dollars() {
        let asked: BTreeSet<&String> = session.spendings().flat_map(|spent| &spent.unpriced).collect();
        let unsaid = asked.into_iter().filter(|model| !session.state().price_unknown.contains(*model));
        news.extend(unsaid.map(|model| Event::from(unknown_price(model))));
    }
    if !news.is_empty() {
        let batch = Batch { summary: "look at the budget".into(), ..Batch::default() };
        tokio::task::block_in_place(|| recording::record(session.root_mut(), batch, news, clock::now()))?;
    }
    reached.extend(unpriced.and_then(|model| allowance.limits.unpriced(&node.id, model)));
    Ok(reached.into_iter().next().filter(|_| action != OnExceeded::Warn))
}

/// The verdict for an agent whose node reached a limit.
pub(crate) fn verdict(session: &mut Session, over: Option<Exceeded>) -> BudgetVerdict {
    let Some(over) = over else { return BudgetVerdict::Go };
    let verdict =
        if fails(session, &over) { BudgetVerdict::Stop(stop_reason(session, &over)) } else { BudgetVerdict::Pause };
    session.over = Some(over);
    verdict
}

/// Fails or pauses the run before a node with an exhausted budget spends anything.
pub(crate) fn end_over_budget(session: &mut Session, node: &NodeId, over: Exceeded) -> Result<(), Error> {
    let BudgetVerdict::Stop(reason) = verdict(session, Some(over)) else {
        return pausing::pause(session, PauseReason::OverBudget);
    };
    let batch = Batch { summary: format!("fail at {node}"), ..Batch::default() };
    let event = PipelineFailed { reason, node_id: Some(node.clone()), extra: Default::default() };
    recording::record(session.root_mut(), batch, vec![event.into()], clock::now())
}

/// Whether the session fails when this limit is reached. A task fails by a limit of its own, so that the others go on,
/// and not because of other tasks' spending: then its session pauses, and only the tree run ends.
fn fails(session: &Session, over: &Exceeded) -> bool {
    match session.plan.started.task {
        Some(_) => over.limit.is_of_session(),
        None => session.engine.budget.action() == OnExceeded::Stop,
    }
}

/// Why the run fails, and how to continue.
fn stop_reason(session: &Session, over: &Exceeded) -> String {
    let again = match &session.plan.started.task {
        Some(task) if TreeName::of(&task.tree) == TreeName::Tasks => {
            format!(", then `pleach task start {} --retry-failed` tries again", task.id)
        }
        Some(_) => ", then `pleach gardener --retry-failed` tries again".to_owned(),
        None => " and resume".to_owned(),
    };
    format!("{over}; {}{again}", over.advice())
}

/// The widest limit that was exceeded, not just reached, unless limits only warn. The last call of a finished agent can
/// exceed a limit.
pub fn overspent(session: &Session) -> Result<Option<Exceeded>, Error> {
    if session.engine.budget.action() == OnExceeded::Warn {
        return Ok(None);
    }
    let mut passed = Vec::new();
    for node in session.engine.agent_nodes(&session.plan.pipeline) {
        let allowance = allowance(session, node)?;
        passed.extend(allowance.limits.exceeded(&node.id, &allowance.account).into_iter().filter(Exceeded::is_passed));
    }
    Ok(passed.into_iter().min_by(|one, other| one.limit.cmp(&other.limit)))
}

/// Why a task gets no further attempt, if its budget is exhausted.
pub(crate) fn task_is_out_of_budget(session: &Session) -> Result<Option<String>, Error> {
    if session.engine.budget.action() == OnExceeded::Warn {
        return Ok(None);
    }
    for node in session.engine.agent_nodes(&session.plan.pipeline) {
        let allowance = allowance(session, node)?;
        let reached = allowance.limits.exceeded(&node.id, &allowance.account);
        if let Some(over) = reached.iter().find(|over| over.limit.is_of_session()) {
            return Ok(Some(stop_reason(session, over)));
        }
    }
    Ok(None)
}

/// A model without a known price that the node would call, or that was called before and still has no price. The
/// remainder of a limit in dollars is then unknown.
pub(crate) fn unpriced_node(session: &Session, node: &Node) -> Option<String> {
    let agents = &session.engine.agents;
    let asked =
        || session.spendings().flat_map(|spent| &spent.unpriced).find(|model| !agents.knows_price(model)).cloned();
    let model = session.engine.unpriced_model(node).or_else(|| asked().filter(|_| !agents.is_scripted()));
    model.filter(|_| session.engine.is_of_agent(node))
}
