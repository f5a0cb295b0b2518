//! Limits, and whether what was spent has come up to one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::amount::{Amount, dollars};
use crate::config::{BudgetSettings, OnExceeded};
use crate::ids::NodeId;
use crate::plan::pipeline::OwnBudget;

/// Sums of dollars are not exact: so much less than a limit is the limit.
const ROUNDING: f64 = 1e-9;

/// Everything that limits an agent's node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetLimits {
    /// What the settings say.
    pub budget: BudgetSettings,
    /// What the pipeline says about itself.
    pub pipeline: OwnBudget,
    /// What the node says, over all its visits.
    pub node: OwnBudget,
}

/// What counts against the limits of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// What the node has spent.
    pub node: Amount,
    /// What its session has spent.
    pub session: Amount,
    /// What its run has spent: its session, in a tree all sessions of the run.
    pub run: Amount,
    /// What its task has spent, over all its sessions; nothing outside of trees.
    pub task: Amount,
    /// What the day has cost so far, in all sessions of the repository.
    pub day: Amount,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// `budget.per_day_tokens` of the settings.
    DayTokens,
    /// `budget.per_day_usd` of the settings.
    DayUsd,
    /// `budget.tokens` of the settings.
    RunTokens,
    /// `budget.usd` of the settings.
    RunUsd,
    /// `budget.per_task_tokens` of the settings.
    TaskTokens,
    /// `budget.per_task_usd` of the settings.
    TaskUsd,
    /// `budget.tokens` of the pipeline.
    PipelineTokens,
    /// `budget.usd` of the pipeline.
    PipelineUsd,
    /// `budget.tokens` of a node.
    NodeTokens(NodeId),
    /// `budget.usd` of a node.
    NodeUsd(NodeId),
}

impl Limit {
    /// The key that sets it.
    pub fn key(&self) -> &'static str {
        match self {
            Self::DayTokens => "budget.per_day_tokens",
            Self::DayUsd => "budget.per_day_usd",
            Self::TaskTokens => "budget.per_task_tokens",
            Self::TaskUsd => "budget.per_task_usd",
            Self::RunTokens | Self::PipelineTokens | Self::NodeTokens(_) => "budget.tokens",
            Self::RunUsd | Self::PipelineUsd | Self::NodeUsd(_) => "budget.usd",
        }
    }

    /// What it is a limit of: `day`, `run`, `task`, `pipeline` or `node`.
    pub fn scope(&self) -> &'static str {
        match self {
            Self::DayTokens | Self::DayUsd => "day",
            Self::RunTokens | Self::RunUsd => "run",
            Self::TaskTokens | Self::TaskUsd => "task",
            Self::PipelineTokens | Self::PipelineUsd => "pipeline",
            Self::NodeTokens(_) | Self::NodeUsd(_) => "node",
        }
    }

    /// The node it is a limit of.
    pub fn node(&self) -> Option<&NodeId> {
        match self {
            Self::NodeTokens(node) | Self::NodeUsd(node) => Some(node),
            _ => None,
        }
    }

    /// Whether it is a limit of a single session's work. Others hold for sessions that are not started yet.
    pub fn is_of_session(&self) -> bool {
        !matches!(self, Self::DayTokens | Self::DayUsd | Self::RunTokens | Self::RunUsd)
    }

    fn is_of_tokens(&self) -> bool {
        match self {
            Self::DayTokens | Self::RunTokens | Self::TaskTokens | Self::PipelineTokens | Self::NodeTokens(_) => true,
            Self::DayUsd | Self::RunUsd | Self::TaskUsd | Self::PipelineUsd | Self::NodeUsd(_) => false,
        }
    }
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Exceeded {
    /// Which one.
    pub limit: Limit,
    /// What was spent, in the unit of the limit.
    pub spent: f64,
    /// What may be spent.
    pub of: f64,
    /// The model whose price is unknown, so that the limit cannot be checked.
    pub unpriced: Option<String>,
}

impl Exceeded {
    /// What a person has to do about it.
    pub fn advice(&self) -> &'static str {
        match self.unpriced {
            Some(_) => "set it, or limit tokens (`budget.tokens`) instead of dollars",
            None => "raise it",
        }
    }

    /// Whether more was spent than may be.
    pub fn is_passed(&self) -> bool {
        self.spent > self.of + ROUNDING
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(model) = &self.unpriced {
            let key = self.limit.key();
            return write!(
                f,
                "the price of `{model}` is unknown (`providers.NAME.prices.{model}`), and `{key}` limits dollars"
            );
        }
        let whose = match &self.limit {
            Limit::DayTokens | Limit::DayUsd => " of this day (UTC)".to_owned(),
            Limit::TaskTokens | Limit::TaskUsd => " of this task".to_owned(),
            Limit::PipelineTokens | Limit::PipelineUsd => " of the pipeline".to_owned(),
            Limit::NodeTokens(node) | Limit::NodeUsd(node) => format!(" of node `{node}`"),
            Limit::RunTokens | Limit::RunUsd => String::new(),
        };
        let (spent, allowed) = if self.limit.is_of_tokens() {
            (format!("{:.0}", self.spent), format!("{:.0} tokens", self.of))
        } else {
            (dollars(self.spent), dollars(self.of))
        };
        write!(f, "the budget{whose} is used up: {spent} of {allowed} (`{}`)", self.limit.key())
    }
}

impl BudgetLimits {
    /// Whether there is any limit.
    pub fn is_set(&self) -> bool {
        let BudgetSettings { tokens, per_task_tokens, per_day_tokens, .. } = self.budget;
        let counts = [tokens, per_task_tokens, per_day_tokens, self.pipeline.tokens, self.node.tokens];
        counts.iter().any(|tokens| *tokens > 0) || self.is_in_dollars()
    }

    /// Whether there is any limit of a day.
    pub fn is_for_days(&self) -> bool {
        self.budget.per_day_tokens > 0 || self.budget.per_day_usd > 0.0
    }

    /// Whether there is any limit in dollars.
    pub fn is_in_dollars(&self) -> bool {
        let BudgetSettings { usd, per_task_usd, per_day_usd, .. } = self.budget;
        [usd, per_task_usd, per_day_usd, self.pipeline.usd, self.node.usd].iter().any(|usd| *usd > 0.0)
    }

    /// Whether nothing may be spent whose price is not known: a limit in dollars would not hold.
    pub fn needs_prices(&self) -> bool {
        self.is_in_dollars() && self.budget.on_exceeded != OnExceeded::Warn
    }

    /// The widest limit in dollars, which cannot be checked once this model was asked.
    pub fn unpriced(&self, node: &NodeId, model: &str) -> Option<Exceeded> {
        let BudgetSettings { usd, per_task_usd, per_day_usd, .. } = self.budget;
        let all = [
            (Limit::DayUsd, per_day_usd),
            (Limit::RunUsd, usd),
            (Limit::TaskUsd, per_task_usd),
            (Limit::PipelineUsd, self.pipeline.usd),
            (Limit::NodeUsd(node.clone()), self.node.usd),
        ];
        let (limit, of) = all.into_iter().find(|(_, of)| *of > 0.0)?;
        Some(Exceeded { limit, spent: 0.0, of, unpriced: Some(model.to_owned()) })
    }

    /// The limits that were reached, the widest first.
    pub fn exceeded(&self, node: &NodeId, account: &Account) -> Vec<Exceeded> {
        let BudgetSettings { tokens, usd, per_task_tokens, per_task_usd, per_day_tokens, per_day_usd, .. } =
            self.budget;
        let used = |amount: &Amount| amount.tokens.total();
        let in_tokens = |limit, amount: &Amount, allowed: u64| {
            (allowed > 0 && used(amount) >= allowed).then(|| Exceeded {
                limit,
                spent: used(amount) as f64,
                of: allowed as f64,
                unpriced: None,
            })
        };
        let in_dollars = |limit, amount: &Amount, allowed: f64| {
            (allowed > 0.0 && amount.usd + ROUNDING >= allowed).then_some(Exceeded {
                limit,
                spent: amount.usd,
                of: allowed,
                unpriced: None,
            })
        };
        let all = [
            in_tokens(Limit::DayTokens, &account.day, per_day_tokens),
            in_dollars(Limit::DayUsd, &account.day, per_day_usd),
            in_tokens(Limit::RunTokens, &account.run, tokens),
            in_dollars(Limit::RunUsd, &account.run, usd),
            in_tokens(Limit::TaskTokens, &account.task, per_task_tokens),
            in_dollars(Limit::TaskUsd, &account.task, per_task_usd),
            in_tokens(Limit::PipelineTokens, &account.session, self.pipeline.tokens),
            in_dollars(Limit::PipelineUsd, &account.session, self.pipeline.usd),
            in_tokens(Limit::NodeTokens(node.clone()), &account.node, self.node.tokens),
            in_dollars(Limit::NodeUsd(node.clone()), &account.node, self.node.usd),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What may still be spent, as it was known at some moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// The limits.
    pub limits: BudgetLimits,
    /// What counts against them.
    pub account: Account,
}

impl Allowance {
    /// Whether one more call may be made after this much more was spent.
    pub fn allows(&self, node: &NodeId, more: Amount) -> bool {
        if self.limits.budget.on_exceeded == OnExceeded::Warn || !self.limits.is_set() {
            return true;
        }
        let Account { node: own, session, run, task, day } = self.account;
        let account =
            Account { node: own + more, session: session + more, run: run + more, task: task + more, day: day + more };
        self.limits.exceeded(node, &account).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Usage;

    fn spent(tokens: u64, usd: f64) -> Amount {
        Amount::of_call(Usage { input: tokens, ..Usage::default() }, Some(usd))
    }

    fn everything(amount: Amount) -> Account {
        Account { node: amount, session: amount, run: amount, task: amount, day: amount }
    }

    fn all_limits() -> BudgetLimits {
        BudgetLimits {
            budget: BudgetSettings {
                tokens: 100,
                usd: 1.0,
                per_task_tokens: 110,
                per_task_usd: 2.0,
                per_day_tokens: 120,
                per_day_usd: 3.0,
                ..BudgetSettings::default()
            },
            pipeline: OwnBudget { tokens: 50, usd: 0.5 },
            node: OwnBudget { tokens: 10, usd: 0.1 },
        }
    }

    fn reached(limits: &BudgetLimits, account: &Account) -> Vec<String> {
        let node = NodeId::new("code").unwrap();
        let found = limits.exceeded(&node, account);
        found.iter().map(|over| format!("{} {} {}", over.limit.scope(), over.limit.key(), over.spent)).collect()
    }

    #[test]
    fn a_limit_is_reached_when_nothing_is_left_of_it() {
        let limits = all_limits();
        assert_eq!(reached(&limits, &everything(spent(9, 0.09))), Vec::<String>::new());
        assert_eq!(
            reached(&limits, &everything(spent(10, 0.1))),
            ["node budget.tokens 10", "node budget.usd 0.1"].map(String::from)
        );
        let last = reached(&limits, &everything(spent(120, 3.0)));
        let scopes: Vec<&str> = last.iter().filter_map(|over| over.split(' ').next()).collect();
        let widest_first = ["day", "run", "task", "pipeline", "node"];
        assert_eq!(scopes, widest_first.map(|scope| [scope; 2]).concat());
    }

    #[test]
    fn each_limit_looks_at_its_own_sum() {
        let limits = all_limits();
        let day = Account { day: spent(0, 3.0), ..Account::default() };
        assert_eq!(reached(&limits, &day), ["day budget.per_day_usd 3"]);
        let day = Account { day: spent(120, 0.0), ..Account::default() };
        assert_eq!(reached(&limits, &day), ["day budget.per_day_tokens 120"]);
        let task = Account { task: spent(0, 2.5), ..Account::default() };
        assert_eq!(reached(&limits, &task), ["task budget.per_task_usd 2.5"]);
        let task = Account { task: spent(119, 0.0), ..Account::default() };
        assert_eq!(reached(&limits, &task), ["task budget.per_task_tokens 119"]);
        let run = Account { run: spent(100, 0.0), ..Account::default() };
        assert_eq!(reached(&limits, &run), ["run budget.tokens 100"]);
        let session = Account { session: spent(50, 0.0), ..Account::default() };
        assert_eq!(reached(&limits, &session), ["pipeline budget.tokens 50"]);
    }

    #[test]
    fn without_limits_everything_is_allowed() {
        let limits = BudgetLimits::default();
        assert!(!limits.is_set() && !limits.is_in_dollars());
        assert_eq!(reached(&limits, &everything(spent(u64::MAX, f64::MAX))), Vec::<String>::new());
    }

    #[test]
    fn ten_times_ten_cents_are_a_dollar() {
        let limits = BudgetLimits {
            budget: BudgetSettings { usd: 1.0, ..BudgetSettings::default() },
            ..BudgetLimits::default()
        };
        let sum = (0..10).map(|_| spent(0, 0.1)).fold(Amount::default(), |sum, each| sum + each);
        assert!(sum.usd < 1.0, "or this tests nothing: {}", sum.usd);
        assert_eq!(reached(&limits, &everything(sum)).len(), 1);
    }

    #[test]
    fn an_allowance_counts_what_is_not_recorded_yet() {
        let node = NodeId::new("code").unwrap();
        let limits = BudgetLimits {
            budget: BudgetSettings { usd: 1.0, ..BudgetSettings::default() },
            ..BudgetLimits::default()
        };
        let mut allowance = Allowance { limits, account: everything(spent(0, 0.4)) };
        assert!(allowance.allows(&node, spent(0, 0.5)));
        assert!(!allowance.allows(&node, spent(0, 0.6)));
        allowance.limits.budget.on_exceeded = OnExceeded::Warn;
        assert!(allowance.allows(&node, spent(0, 9.0)), "a warning stops nobody");
    }

    #[test]
    fn a_reached_limit_names_its_numbers_and_setting() {
        let node = NodeId::new("code").unwrap();
        let said: Vec<String> =
            all_limits().exceeded(&node, &everything(spent(123, 3.5))).iter().map(ToString::to_string).collect();
        assert_eq!(
            said[..6],
            [
                "the budget of this day (UTC) is used up: 123 of 120 tokens (`budget.per_day_tokens`)",
                "the budget of this day (UTC) is used up: $3.50 of $3.00 (`budget.per_day_usd`)",
                "the budget is used up: 123 of 100 tokens (`budget.tokens`)",
                "the budget is used up: $3.50 of $1.00 (`budget.usd`)",
                "the budget of this task is used up: 123 of 110 tokens (`budget.per_task_tokens`)",
                "the budget of this task is used up: $3.50 of $2.00 (`budget.per_task_usd`)",
            ]
        );
        assert_eq!(said[9], "the budget of node `code` is used up: $3.50 of $0.10 (`budget.usd`)");
    }
}
