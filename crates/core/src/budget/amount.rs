//! Amounts of tokens and dollars, summed over turns.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::event::{AgentTurn, SideCall, Usage};
use crate::ids::NodeId;

/// What some turns have cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// How many turns.
    pub turns: u64,
    /// Their tokens.
    pub tokens: Usage,
    /// Dollars of the calls whose price is known.
    pub usd: f64,
    /// Calls whose price is known.
    pub priced: u64,
    /// Calls that used tokens and whose price is not known.
    pub unpriced: u64,
    /// Turns and side calls with estimated tokens or prices.
    #[serde(default)]
    pub estimated: u64,
    /// Turns that are not billed by the token.
    #[serde(default)]
    pub unbilled: u64,
    /// Dollars these would have cost, which are part of all.
    #[serde(default)]
    pub unbilled_usd: f64,
}

impl Amount {
    /// What one call cost. One without tokens and without a price has cost nothing anybody could count.
    pub fn of_call(tokens: Usage, usd: Option<f64>) -> Self {
        let unpriced = usd.is_none() && tokens.total() > 0;
        Self {
            turns: 0,
            tokens,
            usd: usd.unwrap_or(0.0),
            priced: u64::from(usd.is_some()),
            unpriced: u64::from(unpriced),
            estimated: 0,
            unbilled: 0,
            unbilled_usd: 0.0,
        }
    }

    /// What a turn cost, with the calls beside it.
    pub fn of_turn(turn: &AgentTurn) -> Self {
        turn.side_calls.iter().map(Self::of_side).fold(Self::of_turn_alone(turn), |sum, call| sum + call)
    }

    /// What a turn cost, without the calls beside it.
    pub fn of_turn_alone(turn: &AgentTurn) -> Self {
        let own = Self::of_call(turn.token_usage, turn.cost_usd);
        let unbilled_usd = if turn.unbilled { own.usd } else { 0.0 };
        let (estimated, unbilled) = (u64::from(turn.estimated), u64::from(turn.unbilled));
        Self { turns: 1, estimated, unbilled, unbilled_usd, ..own }
    }

    /// What a call beside a turn cost.
    pub fn of_side(call: &SideCall) -> Self {
        Self { estimated: u64::from(call.estimated), ..Self::of_call(call.token_usage, call.cost_usd) }
    }

    /// Dollars, as far as prices are known; none when no call had one.
    pub fn known_usd(&self) -> Option<f64> {
        (self.priced > 0).then_some(self.usd)
    }
}

impl std::ops::Add for Amount {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.turns = self.turns.saturating_add(other.turns);
        self.tokens += other.tokens;
        self.usd += other.usd;
        self.priced = self.priced.saturating_add(other.priced);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.estimated = self.estimated.saturating_add(other.estimated);
        self.unbilled = self.unbilled.saturating_add(other.unbilled);
        self.unbilled_usd += other.unbilled_usd;
    }
}

impl std::ops::Sub for Amount {
    type Output = Self;

    /// What was spent since.
    fn sub(self, before: Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(before.turns),
            tokens: self.tokens - before.tokens,
            usd: (self.usd - before.usd).max(0.0),
            priced: self.priced.saturating_sub(before.priced),
            unpriced: self.unpriced.saturating_sub(before.unpriced),
            estimated: self.estimated.saturating_sub(before.estimated),
            unbilled: self.unbilled.saturating_sub(before.unbilled),
            unbilled_usd: (self.unbilled_usd - before.unbilled_usd).max(0.0),
        }
    }
}

/// What a session has spent: a fold over its turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Altogether.
    pub total: Amount,
    /// By node, over all its visits.
    pub nodes: BTreeMap<NodeId, Amount>,
    /// By day, in UTC.
    pub days: BTreeMap<Date, Amount>,
    /// The models that used tokens and have no price.
    pub unpriced: BTreeSet<String>,
    /// The kinds of agents that took its turns.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub agents: BTreeSet<String>,
    /// Their models.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub models: BTreeSet<String>,
}

impl Spent {
    /// Takes one more turn in.
    pub fn add(&mut self, at: Timestamp, turn: &AgentTurn) {
        let amount = Amount::of_turn(turn);
        self.agents.insert(turn.agent.clone());
        self.models.extend((!turn.model.is_empty()).then(|| turn.model.clone()));
        self.total += amount;
        *self.nodes.entry(turn.node_id.clone()).or_default() += amount;
        *self.days.entry(day_of(at)).or_default() += amount;
        if turn.unbilled {
            return;
        }
        if Amount::of_call(turn.token_usage, turn.cost_usd).unpriced > 0 {
            self.unpriced.insert(turn.model.clone());
        }
        let unpriced = turn.side_calls.iter().filter(|call| Amount::of_side(call).unpriced > 0);
        self.unpriced.extend(unpriced.map(|call| call.model.clone()));
    }

    /// What a node has spent.
    pub fn on(&self, node: &NodeId) -> Amount {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// What was spent on a day.
    pub fn during(&self, day: Date) -> Amount {
        self.days.get(&day).copied().unwrap_or_default()
    }
}

/// The day of a moment, in UTC.
pub fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// `$1.25`; small amounts with four digits: `$0.0042`.
pub fn dollars(usd: f64) -> String {
    if usd != 0.0 && usd.abs() < 0.1 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn unpriced_usage_is_counted_and_not_free() {
        let known = Amount::of_call(usage(10, 2), Some(0.5));
        let unknown = Amount::of_call(usage(7, 1), None);
        let nothing = Amount::of_call(Usage::default(), None);
        assert_eq!((known.known_usd(), known.unpriced), (Some(0.5), 0));
        assert_eq!((unknown.known_usd(), unknown.unpriced), (None, 1));
        assert_eq!((nothing.known_usd(), nothing.unpriced), (None, 0));
        let all = known + unknown + nothing;
        assert_eq!((all.known_usd(), all.priced, all.unpriced, all.tokens.total()), (Some(0.5), 1, 1, 20));
        assert_eq!(Amount::of_call(Usage::default(), Some(0.0)).known_usd(), Some(0.0), "free is a price");
    }

    #[test]
    fn a_day_ends_at_midnight_in_utc() {
        let day = |text: &str| day_of(text.parse().unwrap()).to_string();
        assert_eq!(day("2026-11-15T23:59:59.999Z"), "2026-11-15");
        assert_eq!(day("2026-11-16T00:00:00Z"), "2026-11-16");
        assert_eq!(day("2026-11-16T00:30:00+01:00"), "2026-11-15");
    }

    #[test]
    fn small_amounts_keep_their_digits() {
        assert_eq!([0.0, 0.0042, 0.1, 1.25, 1234.5].map(dollars), ["$0.00", "$0.0042", "$0.10", "$1.25", "$1234.50"]);
    }
}
