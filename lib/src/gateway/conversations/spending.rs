//! What was spent, in the conversations and beside them.

use super::Conversations;
use crate::event::{SideCall, Usage, Warning};
use crate::gateway::CallCost;
use crate::llm::uncounted;

/// What calls beside the conversations are for: something without tools, such as a title.
pub(super) const ASIDE: &str = "aside";

/// A call that broke off before its answer was whole.
pub(super) const BROKEN_OFF: &str = "broken_off";

/// What an answer cost beyond what was known when it was told.
pub(super) const LATE: &str = "late";

impl Conversations {
    /// What was spent on exchanges that are not told yet.
    pub(in crate::gateway) fn pending(&self) -> CallCost {
        self.conversations.iter().fold(CallCost::default(), |mut sum, conversation| {
            sum += conversation.spent;
            sum
        })
    }

    /// What was spent on all calls, told or not, those on their way included as far as that is known.
    pub(in crate::gateway) fn total(&self) -> CallCost {
        let mut total = self.total;
        total += self.counted_so_far();
        total
    }

    /// Something was spent beside the conversations. Without a model, it is that of the newest request.
    pub(super) fn spend(&mut self, purpose: &str, model: &str, spent: CallCost) {
        if spent.usage == Usage::default() {
            return;
        }
        let newest = self.conversations.last().map(|conversation| conversation.model.as_str()).unwrap_or_default();
        let model = if model.is_empty() { newest } else { model };
        let same = |call: &&mut SideCall| call.purpose == purpose && call.model == model;
        match self.aside.iter_mut().find(same) {
            Some(call) => {
                let mut sum = CallCost { usage: call.token_usage, cost_usd: call.cost_usd, estimated: call.estimated };
                sum += spent;
                (call.token_usage, call.cost_usd, call.estimated) = (sum.usage, sum.cost_usd, sum.estimated);
            }
            None => self.aside.push(SideCall {
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

    /// The provider has not said what a call of this model took, and it was estimated. The user hears of it once.
    pub(in crate::gateway) fn estimated(&mut self, model: &str) {
        if !std::mem::replace(&mut self.estimates, true) {
            self.warn(uncounted(model));
        }
    }

    /// What was spent beside the conversations, and what the user should know, since the last time.
    pub(in crate::gateway) fn take_aside(&mut self, provider: &str) -> (Vec<SideCall>, Vec<Warning>) {
        let mut aside = std::mem::take(&mut self.aside);
        aside.iter_mut().for_each(|call| provider.clone_into(&mut call.provider));
        (aside, std::mem::take(&mut self.warnings))
    }
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
