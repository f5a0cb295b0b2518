//! Exchanges that are over, each told once.

use super::spending::{ASIDE, BROKEN_OFF};
use super::{CompletedAnswer, ConversationState, Conversations};
use crate::event::WarningCode;
use crate::gateway::Exchange;
use crate::llm::Message;

impl CompletedAnswer {
    /// Whether tools are to run; what nobody could read may have asked for some.
    pub(super) fn asks(&self) -> bool {
        self.response.as_ref().is_none_or(|response| response.message.tool_calls().next().is_some())
    }
}

impl Conversations {
    /// Exchanges of other conversations that are over when a request arrives that goes on with `goes_on`, or begins a
    /// conversation.
    ///
    /// Those that ask for nothing are, whatever comes. One whose tools may still run is as well when a conversation begins
    /// and nothing else is under way: the agent has left it, or sends out its first helper, and what it has done so far
    /// is this exchange's. Helpers side by side are waited for, each until it goes on.
    pub(super) fn finished(&mut self, goes_on: Option<usize>) -> Vec<Exchange> {
        let (mut over, mut open) = (Vec::new(), Vec::new());
        for (at, conversation) in self.conversations.iter().enumerate().filter(|(at, _)| Some(*at) != goes_on) {
            match &conversation.state {
                // Whether this was a conversation at all is not known yet.
                ConversationState::Answered(..) if !conversation.tools && !self.plain => {}
                ConversationState::Answered(flight, answer) if answer.asks() => open.push((*flight, at)),
                ConversationState::Answered(flight, _) => over.push((*flight, at)),
                ConversationState::Asked(_) | ConversationState::Failed | ConversationState::Told(_) => {}
            }
        }
        let flying =
            self.conversations.iter().any(|conversation| matches!(conversation.state, ConversationState::Asked(_)));
        if goes_on.is_none() && !flying && open.len() == 1 {
            over.append(&mut open);
        }
        over.sort_unstable();
        over.into_iter().filter_map(|(_, conversation)| self.tell(conversation, Vec::new()).0).collect()
    }

    /// The exchange a conversation's newest answer ends, which is told now, and what opens the next one. `tail` is what
    /// the client says after the answer.
    pub(super) fn tell(&mut self, conversation: usize, tail: Vec<Message>) -> (Option<Exchange>, Vec<Message>) {
        let known = &mut self.conversations[conversation];
        let answer = match std::mem::replace(&mut known.state, ConversationState::Failed) {
            ConversationState::Answered(_, answer) => *answer,
            other => {
                known.state = other;
                return (None, tail);
            }
        };
        known.state =
            ConversationState::Told(answer.response.as_ref().map(|response| Box::new(response.message.clone())));
        if let Some(why) = &answer.unread_because {
            let text = format!("an answer of the model is not recorded: {why}");
            self.warnings.push(WarningCode::AnswerUnrecorded.with(text));
        }
        let (results, opening) = if answer.asks() { (tail, Vec::new()) } else { (Vec::new(), tail) };
        let spent = std::mem::take(&mut known.spent);
        let model = answer.response.as_ref().map(|response| response.model.clone()).filter(|model| !model.is_empty());
        let exchange = Exchange {
            conversation,
            opening: std::mem::take(&mut known.opening),
            response: answer.response,
            results,
            model: model.unwrap_or_else(|| known.model.clone()),
            usage: spent.usage,
            cost_usd: spent.cost_usd,
            estimated: spent.estimated,
            broken_off: None,
        };
        (Some(exchange), opening)
    }

    /// What arrived of a conversation's newest answer that broke off, told once. What was spent where nothing arrived is
    /// aside then.
    pub(super) fn tell_broken(&mut self, conversation: usize) -> Option<Exchange> {
        let known = &mut self.conversations[conversation];
        if !matches!(known.state, ConversationState::Failed) {
            return None;
        }
        let (spent, model) = (std::mem::take(&mut known.spent), known.model.clone());
        let Some(arrived) = known.arrived.as_mut().filter(|arrived| !arrived.is_told) else {
            self.spend(BROKEN_OFF, &model, spent);
            return None;
        };
        arrived.is_told = true;
        let (response, why) = (arrived.response.clone(), arrived.why.clone());
        Some(Exchange {
            conversation,
            opening: std::mem::take(&mut known.opening),
            response: Some(response),
            results: Vec::new(),
            model,
            usage: spent.usage,
            cost_usd: spent.cost_usd,
            estimated: spent.estimated,
            broken_off: Some(why),
        })
    }

    /// What arrived of all answers that broke off, told once.
    pub(in crate::gateway) fn broken_off(&mut self) -> Vec<Exchange> {
        (0..self.conversations.len()).filter_map(|conversation| self.tell_broken(conversation)).collect()
    }

    /// The exchanges nobody was told of, as if nothing more came. What failed is counted aside.
    pub(in crate::gateway) fn settle(&mut self) -> Vec<Exchange> {
        // Beside conversations with tools, those without were none.
        let all = self.plain || !self.has_tools();
        let mut order: Vec<(u64, usize)> = Vec::new();
        let mut others = Vec::new();
        for (at, conversation) in self.conversations.iter_mut().enumerate() {
            let purpose = match &conversation.state {
                ConversationState::Answered(flight, _) if all || conversation.tools => {
                    order.push((*flight, at));
                    continue;
                }
                ConversationState::Answered(..) => ASIDE,
                ConversationState::Asked(_) => BROKEN_OFF,
                ConversationState::Failed | ConversationState::Told(..) => continue,
            };
            others.push((purpose, conversation.model.clone(), std::mem::take(&mut conversation.spent)));
        }
        others.into_iter().for_each(|(purpose, model, spent)| self.spend(purpose, &model, spent));
        order.sort_unstable();
        order.into_iter().filter_map(|(_, conversation)| self.tell(conversation, Vec::new()).0).collect()
    }
}
