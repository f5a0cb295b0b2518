//! What was spent on conversations and on side calls.

use crate::gateway::exchange::CallCost;
use crate::llm::uncounted;
use pleach_core::event::{SideCall, Usage, Warning};

/// The purpose of side calls: something without tools, such as a title.
pub(super) const ASIDE: &str = "aside";

/// A call that broke off before its answer was whole.
pub(super) const BROKEN_OFF: &str = "broken_off";

/// What an answer cost beyond what was known when it was reported.
pub(super) const LATE: &str = "late";

/// What was spent on conversations and on side calls, and what the user should know of it.
#[derive(Debug, Default)]
pub(in crate::gateway) struct CallSpending {
    /// What was spent on all calls that have ended, reported or not.
    pub total: CallCost,
    /// What was spent outside of exchanges.
    side_calls: Vec<SideCall>,
    pub warnings: Vec<Warning>,
    /// Whether the user knows that calls were estimated.
    estimates: bool,
}

impl CallSpending {
    /// Adds spending on side calls.
    pub(super) fn add(&mut self, purpose: &str, model: &str, spent: CallCost) {
        if spent.usage == Usage::default() {
            return;
        }
        let same = |call: &&mut SideCall| call.purpose == purpose && call.model == model;
        match self.side_calls.iter_mut().find(same) {
            Some(call) => {
                let mut sum = CallCost { usage: call.token_usage, cost_usd: call.cost_usd, estimated: call.estimated };
                sum += spent;
                (call.token_usage, call.cost_usd, call.estimated) = (sum.usage, sum.cost_usd, sum.estimated);
            }
            None => self.side_calls.push(SideCall {
                purpose: purpose.to_owned(),
                model: model.to_owned(),
                provider: String::new(),
                token_usage: spent.usage,
                cost_usd: spent.cost_usd,
                estimated: spent.estimated,
            }),
        }
    }

    /// Something the user should know.
    pub(in crate::gateway) fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The provider did not count the tokens of a call of this model, and they were estimated. The user is warned once.
    pub(in crate::gateway) fn estimated(&mut self, model: &str) {
        if !std::mem::replace(&mut self.estimates, true) {
            self.warn(uncounted(model));
        }
    }

    /// What was spent on side calls, and what the user should know, since the last time.
    pub(in crate::gateway) fn take_side_calls(&mut self, provider: &str) -> (Vec<SideCall>, Vec<Warning>) {
        let mut side_calls = std::mem::take(&mut self.side_calls);
        side_calls.iter_mut().for_each(|call| provider.clone_into(&mut call.provider));
        (side_calls, std::mem::take(&mut self.warnings))
    }
}
