//! The budget of a planner. A planner runs outside sessions, so its turns are recorded separately, and only the limits
//! of a run and of a day apply.

use std::collections::BTreeSet;

use super::Budget;
use super::unpriced::{SCRIPT, unknown_price};
use crate::env::Error;
use agents::agent::Turn;
use git::Repo;
use git::record::record_planning;
use pleach_core::budget::{Account, Allowance, Amount, BudgetLimits, Exceeded, Limit, day_of};
use pleach_core::clock;
use pleach_core::config::{self, OnExceeded};
use pleach_core::event::{AgentTurn, Warning, WarningCode};
use pleach_core::ids::{NodeId, TurnId};
use pleach_core::redact::Redactor;

/// The spending and limits of one plan.
#[derive(Debug)]
pub struct PlannerBudget<'a> {
    budget: &'a Budget,
    /// Where turns are recorded and the spending of others is read; `None` outside a repository.
    repo: Option<&'a Repo>,
    redactor: &'a Redactor,
    spent: Amount,
    turns: u64,
    warned: BTreeSet<Limit>,
    unpriced: BTreeSet<String>,
}

/// Whether a planner may continue.
#[derive(Debug)]
pub(crate) struct Balance {
    /// The remaining allowance.
    pub allowance: Allowance,
    /// The widest limit reached, unless limits only warn.
    pub over: Option<Exceeded>,
    /// Warnings to report once.
    pub warnings: Vec<Warning>,
}

impl<'a> PlannerBudget<'a> {
    /// A budget for a plan with no spending yet.
    pub fn new(budget: &'a Budget, repo: Option<&'a Repo>, redactor: &'a Redactor) -> Self {
        let (warned, unpriced) = (BTreeSet::new(), BTreeSet::new());
        Self { budget, repo, redactor, spent: Amount::default(), turns: 0, warned, unpriced }
    }

    /// A model that was called although its price is unknown.
    pub(crate) fn unpriced(&self) -> Option<String> {
        self.unpriced.first().cloned()
    }

    /// Whether the run pauses at a limit instead of failing.
    pub(crate) fn pauses(&self) -> bool {
        self.budget.action() == OnExceeded::Pause
    }

    /// Counts a turn, and records it if its cost or its tokens are known.
    pub(crate) fn pay(&mut self, node: &NodeId, agent: &str, turn: &Turn) -> Result<(), Error> {
        self.turns += 1;
        let event = AgentTurn {
            turn: TurnId { context: pleach_core::ids::ContextId::main(), number: self.turns },
            turn_number: self.turns,
            node_id: node.clone(),
            visit: 1,
            attempt: 1,
            agent: agent.to_owned(),
            model: turn.model.clone(),
            provider: turn.provider.clone(),
            messages: None,
            tool_calls: Vec::new(),
            files_written: Default::default(),
            token_usage: turn.usage,
            cost_usd: turn.cost_usd,
            estimated: turn.estimated,
            unbilled: turn.unbilled,
            side_calls: turn.side_calls.clone(),
            git_sha: None,
            agent_head: None,
            commit_message: None,
            boundary: if turn.exact { "exact" } else { "inferred" }.to_owned(),
            agent_state_ref: None,
            is_last: turn.is_last,
            extra: Default::default(),
        };
        let amount = Amount::of_turn(&event);
        self.spent += amount;
        match self.repo.filter(|_| amount.priced > 0 || amount.tokens.total() > 0) {
            Some(repo) => {
                let recorded = || record_planning(repo, self.redactor, clock::now(), event);
                Ok(tokio::task::block_in_place(recorded)?)
            }
            None => Ok(()),
        }
    }

    /// The remaining allowance and the warnings after a turn.
    pub(crate) fn balance(&mut self, node: &NodeId, turn: Option<&Turn>) -> Result<Balance, Error> {
        // A plan is not a task, and limits of nodes and pipelines do not apply to it.
        let budget = config::BudgetSettings { per_task_tokens: 0, per_task_usd: 0.0, ..self.budget.limits.clone() };
        let limits = BudgetLimits { budget, ..BudgetLimits::default() };
        let mut day = self.spent;
        if let Some(repo) = self.repo.filter(|_| limits.is_for_days()) {
            day = tokio::task::block_in_place(|| self.budget.spent_on(repo, day_of(clock::now()), None))?;
        }
        let account = Account { run: self.spent, day, ..Account::default() };
        let allowance = Allowance { limits, account };
        let reached = allowance.limits.exceeded(node, &allowance.account);
        let mut warnings = self.budget.take_warnings();
        let warns = self.budget.action() == OnExceeded::Warn;
        for over in reached.iter().filter(|_| warns) {
            if self.warned.insert(over.limit.clone()) {
                warnings.push(WarningCode::BudgetReached.with(over.to_string()));
            }
        }
        if let Some(turn) = turn.filter(|_| allowance.limits.is_in_dollars()) {
            let own = (&turn.model, Amount::of_call(turn.usage, turn.cost_usd));
            let side = turn.side_calls.iter().map(|call| (&call.model, Amount::of_side(call)));
            let all = std::iter::once(own).chain(side).filter(|_| !turn.unbilled && turn.provider != SCRIPT);
            for (model, _) in all.filter(|(_, amount)| amount.unpriced > 0) {
                if self.unpriced.insert(model.clone()) {
                    warnings.push(WarningCode::PriceUnknown.with(unknown_price(model).text));
                }
            }
        }
        Ok(Balance { over: reached.into_iter().next().filter(|_| !warns), allowance, warnings })
    }
}
