//! Keeping to the budget: what counts against the limits of a node, and what follows when one is reached.
//!
//! Looked at after every recorded turn and before an agent's node starts, so that a session overshoots by the call in
//! flight and no more. Everything comes from records: after a crash, and in another process, the sums are the same.

mod ledger;
mod planning;
mod uncounted;
mod unheld;
mod unpriced;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::{Engine, Error, Session, Supervisor};
use crate::budget::{Account, Allowance, Amount, BudgetLimits, Exceeded, Spent, day_of};
use crate::clock;
use crate::config::{self, OnExceeded};
use crate::event::{BudgetExceeded, Event, PauseReason, PipelineFailed, PriceUnknown, Warning};
use crate::git::Repo;
use crate::ids::NodeId;
use crate::plan::pipeline::{Node, Pipeline};
use crate::record::Batch;
use crate::state::limit_mark;

pub use planning::PlannerBudget;
pub use uncounted::Uncounted;
pub use unheld::UnmeteredAgent;
pub use unpriced::Unpriced;

pub(super) use ledger::{Ledgers, spent_in};
pub(super) use unpriced::unpriced_in;

/// The budget of the settings, and what is known of the spending of others.
#[derive(Debug, Default)]
pub struct Budget {
    limits: config::BudgetSettings,
    /// What was spent today, by repository.
    ledgers: Arc<Ledgers>,
    /// Chains of records that could not be read, with what is still to be told of each.
    passed_over: Mutex<BTreeMap<String, Option<Warning>>>,
}

impl Budget {
    /// The budget of a configuration, for a run of this supervisor's.
    pub fn new(limits: config::BudgetSettings, supervisor: &Supervisor) -> Self {
        Self { limits, ledgers: Arc::clone(&supervisor.ledgers), ..Self::default() }
    }

    /// Whether what the sessions before in the same run over a tree have spent makes a difference.
    pub(super) fn counts_runs(&self) -> bool {
        let config::BudgetSettings { tokens, usd, per_task_tokens, per_task_usd, .. } = self.limits;
        tokens > 0 || usd > 0.0 || per_task_tokens > 0 || per_task_usd > 0.0
    }

    /// What follows when a limit is reached.
    pub(super) fn action(&self) -> OnExceeded {
        self.limits.on_exceeded
    }
}

impl Engine {
    /// The nodes agents work on: all that costs something.
    pub(super) fn agent_nodes<'p>(&self, pipeline: &'p Pipeline) -> impl Iterator<Item = &'p Node> {
        pipeline.nodes().iter().filter(|node| self.is_of_agent(node))
    }

    /// Refuses to begin with a pipeline whose agents could not be held to the limits of a day.
    pub(super) fn refuse_uncounted(&self, repo: &Repo, pipeline: &Pipeline) -> Result<(), Error> {
        let limits = BudgetLimits { budget: self.budget.limits.clone(), ..BudgetLimits::default() };
        if limits.is_for_days() && self.agent_nodes(pipeline).next().is_some() {
            self.budget.spent_on(repo, day_of(clock::now()), None)?;
        }
        Ok(())
    }
}

/// What the sessions of a tree's run have spent before this one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Earlier {
    /// All of them.
    pub run: Amount,
    /// Those on the same task.
    pub task: Amount,
}

/// What the loop tells a worker after a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetVerdict {
    /// Go on.
    Go,
    /// End here: the run was interrupted, or its branch is somebody else's now.
    Halt,
    /// End here: nothing is left to spend. The node fails for this reason, and the run with it.
    Stop(String),
    /// End here: nothing is left to spend. The run pauses in the node.
    Pause,
}

impl Session {
    /// What its contexts have spent together.
    pub fn spent(&self) -> Amount {
        self.spent_by(|spent| spent.total)
    }

    fn spent_by(&self, of: impl Fn(&Spent) -> Amount) -> Amount {
        self.spendings().fold(Amount::default(), |sum, spent| sum + of(spent))
    }

    /// What an agent's node may spend, and what counts against it.
    pub(super) fn allowance(&self, node: &Node) -> Result<Allowance, Error> {
        let limits = BudgetLimits {
            budget: self.engine.budget.limits.clone(),
            pipeline: self.plan.pipeline.budget,
            node: node.budget,
        };
        if !limits.is_set() {
            return Ok(Allowance::default());
        }
        let (session, now) = (self.spent(), clock::now());
        let mut day = self.spent_by(|spent| spent.during(day_of(now)));
        if limits.is_for_days() {
            let budget = &self.engine.budget;
            day += tokio::task::block_in_place(|| budget.spent_on(&self.repo, day_of(now), Some(self.id())))?;
        }
        let account = Account {
            node: self.spent_by(|spent| spent.on(&node.id)),
            session,
            run: self.earlier.run + session,
            task: if self.plan.started.task.is_some() { self.earlier.task + session } else { Amount::default() },
            day,
        };
        Ok(Allowance { limits, account })
    }

    /// Looks whether a limit is reached, or nobody could know because a model has no price, and records once what a person
    /// should know. Answers with the widest limit that
    /// was reached, unless a warning is all that follows.
    pub(super) fn over_budget(
        &mut self,
        node: &Node,
        allowance: &Allowance,
        unpriced: Option<&str>,
    ) -> Result<Option<Exceeded>, Error> {
        let warnings = self.engine.budget.take_warnings();
        self.root_mut().warnings.extend(warnings);
        let mut reached = allowance.limits.exceeded(&node.id, &allowance.account);
        let action = self.engine.budget.action();
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
            if !self.state().exceeded.contains(&limit_mark(&said)) {
                news.push(said.into());
            }
        }
        if allowance.limits.is_in_dollars() {
            let asked: BTreeSet<&String> = self.spendings().flat_map(|spent| &spent.unpriced).collect();
            let unsaid = asked.into_iter().filter(|model| !self.state().price_unknown.contains(*model));
            news.extend(unsaid.map(|model| Event::from(price_unknown(model))));
        }
        if !news.is_empty() {
            let batch = Batch { summary: "look at the budget".into(), ..Batch::default() };
            tokio::task::block_in_place(|| self.root_mut().record(batch, news, clock::now()))?;
        }
        reached.extend(unpriced.and_then(|model| allowance.limits.unpriced(&node.id, model)));
        Ok(reached.into_iter().next().filter(|_| action != OnExceeded::Warn))
    }

    /// What an agent is told whose node has reached a limit.
    pub(super) fn order(&mut self, over: Option<Exceeded>) -> BudgetVerdict {
        let Some(over) = over else { return BudgetVerdict::Go };
        let order = match self.fails(&over) {
            true => BudgetVerdict::Stop(self.stop_reason(&over)),
            false => BudgetVerdict::Pause,
        };
        self.over = Some(over);
        order
    }

    /// Ends the run, or lets it pause, before anything is spent on a node that has nothing left to spend.
    pub(super) fn end_over_budget(&mut self, node: &NodeId, over: Exceeded) -> Result<(), Error> {
        let BudgetVerdict::Stop(reason) = self.order(Some(over)) else {
            return self.pause(PauseReason::OverBudget);
        };
        let batch = Batch { summary: format!("fail at {node}"), ..Batch::default() };
        let event = PipelineFailed { reason, node_id: Some(node.clone()), extra: Default::default() };
        self.root_mut().record(batch, vec![event.into()], clock::now())
    }

    /// Whether the session fails when this limit is reached. A task is not to blame for what other tasks have spent: its
    /// session waits, and only the run over the tree ends.
    fn fails(&self, over: &Exceeded) -> bool {
        let stops = self.engine.budget.action() == OnExceeded::Stop;
        stops && (self.plan.started.task.is_none() || over.limit.is_of_session())
    }

    /// Why the run fails, and how to go on.
    fn stop_reason(&self, over: &Exceeded) -> String {
        let again = match self.plan.started.task {
            Some(_) => ", then `pleach gardener --retry-failed` tries again",
            None => " and resume",
        };
        format!("{over}; {}{again}", over.advice())
    }

    /// How to go on with a run that waits because of this limit.
    pub(super) fn pause_reason(&self) -> Option<String> {
        let over = self.over.as_ref()?;
        let again = match self.plan.started.task {
            Some(_) => "and run again",
            None => "and resume",
        };
        let day = if over.limit.scope() == "day" { ", or wait until tomorrow" } else { "" };
        Some(format!("{over}; {} {again}{day}", over.advice()))
    }

    /// The widest limit that was passed and not only reached, unless warnings are all that follows: by the last call of an
    /// agent whose work was done with it.
    pub fn overspent(&self) -> Result<Option<Exceeded>, Error> {
        if self.engine.budget.action() == OnExceeded::Warn {
            return Ok(None);
        }
        let mut passed = Vec::new();
        for node in self.engine.agent_nodes(&self.plan.pipeline) {
            let allowance = self.allowance(node)?;
            passed.extend(
                allowance.limits.exceeded(&node.id, &allowance.account).into_iter().filter(Exceeded::is_passed),
            );
        }
        Ok(passed.into_iter().min_by(|one, other| one.limit.cmp(&other.limit)))
    }

    /// Why a task gets no further attempt, if it has nothing left to spend.
    pub(super) fn task_is_out_of_budget(&self) -> Result<Option<String>, Error> {
        if self.engine.budget.action() != OnExceeded::Stop {
            return Ok(None);
        }
        for node in self.engine.agent_nodes(&self.plan.pipeline) {
            let allowance = self.allowance(node)?;
            let reached = allowance.limits.exceeded(&node.id, &allowance.account);
            if let Some(over) = reached.iter().find(|over| over.limit.is_of_session()) {
                return Ok(Some(self.stop_reason(over)));
            }
        }
        Ok(None)
    }
}

fn price_unknown(model: &str) -> PriceUnknown {
    let text = format!(
        "the price of `{model}` is unknown, so it counts against no limit in dollars; set \
         `providers.NAME.prices.{model}`"
    );
    PriceUnknown { model: model.to_owned(), text, extra: Default::default() }
}
