//! Model calls as the recorder sees them: held, finished, paid for.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::llm::{LlmError, Message, Request, Response};
use pleach_core::event::{SideCall, Usage, Warning};

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallCost {
    /// In tokens.
    pub usage: Usage,
    /// In dollars, where the price is known.
    pub cost_usd: Option<f64>,
    /// Whether some of it is estimated, where the provider did not say.
    pub estimated: bool,
}

impl std::ops::AddAssign for CallCost {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.estimated |= other.estimated;
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
    }
}

impl std::ops::Sub for CallCost {
    type Output = Self;

    /// What was spent since.
    fn sub(self, before: Self) -> Self {
        let cost_usd = self.cost_usd.map(|cost| (cost - before.cost_usd.unwrap_or_default()).max(0.0));
        Self { usage: self.usage - before.usage, cost_usd, estimated: self.estimated }
    }
}

/// One model call that is over, with what its tools answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Which of the agent's conversations it belongs to, by the order in which they began.
    pub conversation: usize,
    /// What was new in the request: the task in the first of a conversation.
    pub opening: Vec<Message>,
    /// What the model answered; none where that could not be read.
    pub response: Option<Response>,
    /// What the tools answered, and whatever the agent said with it.
    pub results: Vec<Message>,
    /// The model.
    pub model: String,
    /// What it cost in tokens, tries that failed included.
    pub usage: Usage,
    /// What it cost in dollars, where the price is known.
    pub cost_usd: Option<f64>,
    /// Whether some of that is estimated, where the provider did not say.
    pub estimated: bool,
    /// Why the answer is incomplete, where it broke off.
    pub broken_off: Option<String>,
}

/// A model call that is held until its gate is opened.
#[derive(Debug)]
pub struct HeldCall {
    /// Which of the agent's conversations it belongs to, by the order in which they began. None for side calls: titles,
    /// and what cannot be read.
    pub conversation: Option<usize>,
    /// What is asked; where that cannot be read, only the model, if the path names it.
    pub request: Arc<Request>,
    /// The exchanges that have ended before it, oldest first.
    pub before: Vec<Exchange>,
    /// How often this very request came, from 1.
    pub tries: u32,
    /// The number of the call.
    pub number: u64,
    /// What the call may take.
    pub at_most: CallCost,
    /// What was spent on side calls since the last held call: titles, calls that broke off.
    pub side_calls: Vec<SideCall>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// What is to be done with it. Dropped, the call is refused.
    pub answer: oneshot::Sender<CallDecision>,
}

/// What is done with a call that is held.
#[derive(Debug)]
pub enum CallDecision {
    /// It goes to the provider.
    Forward,
    /// It is answered with this, without asking the provider.
    Answer(Box<Response>),
    /// It is refused, in these words.
    Refuse(String),
}

/// What was spent and is not reported yet, and what may still be.
#[derive(Debug)]
pub struct Outstanding {
    /// Spending in conversations that is in no reported exchange: tools may still run, or the agent has continued
    /// without repeating the answer.
    pub pending: CallCost,
    /// What the forwarded calls may still take; none when there are no such calls.
    pub reserved: Option<CallCost>,
    /// What was spent on side calls.
    pub side_calls: Vec<SideCall>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}

/// What was not reported when the gateway was closed.
#[derive(Debug, Default)]
pub struct UnreportedCalls {
    /// Exchanges that are over, oldest first.
    pub exchanges: Vec<Exchange>,
    /// What arrived of answers that broke off.
    pub broken: Vec<Exchange>,
    /// What was spent besides.
    pub side_calls: Vec<SideCall>,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// Why the newest call in a conversation has no complete answer, where that is so.
    pub unanswered: Option<LlmError>,
}
