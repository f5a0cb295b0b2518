//! Exchanges that are over, each told once.

use super::spending::{ASIDE, BROKEN_OFF};
use super::{State, Talk, Talks};
use crate::gateway::Exchange;
use crate::llm::Message;

impl Talks {
    /// Exchanges of other conversations that ask for nothing: whatever comes, they are over.
    pub(super) fn finished(&mut self, but: Option<usize>) -> Vec<Exchange> {
        let over = |talk: &Talk| match &talk.state {
            // Whether this was a conversation at all is not known yet.
            State::Answered(..) if !talk.tools && !self.plain => false,
            State::Answered(_, answer) => {
                answer.response.as_ref().is_some_and(|answer| answer.message.tool_calls().next().is_none())
            }
            _ => false,
        };
        let others: Vec<usize> =
            (0..self.talks.len()).filter(|talk| Some(*talk) != but && over(&self.talks[*talk])).collect();
        others.into_iter().filter_map(|talk| self.tell(talk, Vec::new()).0).collect()
    }

    /// The exchange a conversation's newest answer ends, which is told now, and what opens the next one. `tail` is what
    /// the client says after the answer.
    pub(super) fn tell(&mut self, talk: usize, tail: Vec<Message>) -> (Option<Exchange>, Vec<Message>) {
        let known = &mut self.talks[talk];
        let answer = match std::mem::replace(&mut known.state, State::Failed) {
            State::Answered(_, answer) => *answer,
            other => {
                known.state = other;
                return (None, tail);
            }
        };
        known.state = State::Told(answer.response.as_ref().map(|response| Box::new(response.message.clone())));
        if let Some(why) = &answer.unheard {
            self.warnings.push(format!("an answer of the model is not recorded: {why}"));
        }
        let asks = answer.response.as_ref().is_none_or(|answer| answer.message.tool_calls().next().is_some());
        let (results, opening) = if asks { (tail, Vec::new()) } else { (Vec::new(), tail) };
        let spent = std::mem::take(&mut known.spent);
        let model = answer.response.as_ref().map(|response| response.model.clone()).filter(|model| !model.is_empty());
        let exchange = Exchange {
            talk,
            opening: std::mem::take(&mut known.opening),
            response: answer.response,
            results,
            model: model.unwrap_or_else(|| known.model.clone()),
            usage: spent.usage,
            cost_usd: spent.cost_usd,
        };
        (Some(exchange), opening)
    }

    /// The exchanges nobody was told of, as if nothing more came. What failed is counted aside.
    pub(in crate::gateway) fn settle(&mut self) -> Vec<Exchange> {
        // Beside conversations with tools, those without were none.
        let all = self.plain || !self.has_tools();
        let mut order: Vec<(u64, usize)> = Vec::new();
        let mut others = Vec::new();
        for (at, talk) in self.talks.iter_mut().enumerate() {
            let purpose = match &talk.state {
                State::Answered(flight, _) if all || talk.tools => {
                    order.push((*flight, at));
                    continue;
                }
                State::Answered(..) => ASIDE,
                State::Asked(_) | State::Failed => BROKEN_OFF,
                State::Told(..) => continue,
            };
            others.push((purpose, talk.model.clone(), std::mem::take(&mut talk.spent)));
        }
        others.into_iter().for_each(|(purpose, model, spent)| self.spend(purpose, &model, spent));
        order.sort_unstable();
        order.into_iter().filter_map(|(_, talk)| self.tell(talk, Vec::new()).0).collect()
    }
}
