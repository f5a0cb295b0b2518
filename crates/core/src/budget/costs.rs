//! What turns have cost, put together by something they share.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::amount::{Amount, day_of};
use crate::event::AgentTurn;
use crate::ids::{SessionId, TaskId};

/// What turns are put together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Their session; none of planners.
    Session,
    /// The task of their session; none outside of task trees.
    Task,
    /// The model that was called.
    Model,
    /// Their node.
    Node,
    /// The day they ended, in UTC.
    Day,
}

impl By {
    /// The word for one of them.
    pub fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Task => "task",
            Self::Model => "model",
            Self::Node => "node",
            Self::Day => "day",
        }
    }
}

/// Costs by what they were put together by, and all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// What they are put together by.
    pub by: By,
    /// Each of them, in order; none stands for turns that have none.
    pub rows: BTreeMap<Option<String>, Amount>,
    /// All of it.
    pub total: Amount,
}

impl Costs {
    /// Nothing yet.
    pub fn new(by: By) -> Self {
        Self { by, rows: BTreeMap::new(), total: Amount::default() }
    }

    /// Takes one more turn in.
    pub fn add(&mut self, session: Option<&SessionId>, task: Option<&TaskId>, at: Timestamp, turn: &AgentTurn) {
        self.total += Amount::of_turn(turn);
        let key = match self.by {
            By::Session => session.map(ToString::to_string),
            By::Task => task.map(ToString::to_string),
            By::Node => Some(turn.node_id.to_string()),
            By::Day => Some(day_of(at).to_string()),
            By::Model => {
                // The calls beside a turn are mostly those of another model.
                self.put(Some(turn.model.clone()), Amount::of_turn_alone(turn));
                turn.side_calls.iter().for_each(|call| self.put(Some(call.model.clone()), Amount::of_side(call)));
                return;
            }
        };
        self.put(key, Amount::of_turn(turn));
    }

    fn put(&mut self, key: Option<String>, amount: Amount) {
        *self.rows.entry(key).or_default() += amount;
    }
}
