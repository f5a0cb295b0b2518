//! Which conversation a request belongs to, and which exchanges are over. An agent may hold several conversations at
//! once, its own and those of its subagents; it may retry a request; it may start over with a summary. `matching`
//! compares requests and answers, `spending` counts, `reservations` sets aside what calls in flight may take.
//!
//! A request repeats the answers of its conversation, or names the newest; it continues the conversation whose newest
//! answer is the last of these. That holds whatever else a client changes in what it sends, and needs no header. Nothing
//! here touches the world.
//!
//! A request without tools is a side call, such as one for a title, where there are conversations with tools. An agent
//! without tools has conversations too. Which of both a request is can only be told by later ones, so side calls are
//! kept until then.

mod matching;
mod reservations;
mod spending;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::matching::{brings_tools, fingerprint, id_of, is_probe, repeats, same_session, tail};
use self::reservations::Reservations;
use self::spending::{ASIDE, BROKEN_OFF, CallSpending, LATE};
use super::exchange::{CallCost, Exchange};
use super::failed_calls::FEW;
use super::watch::AnswerOutcome;
use crate::llm::{LlmError, Message, Request, Response, Role};
use pleach_core::event::WarningCode;

pub(super) use self::matching::named;

/// How many conversations may begin without tools before one with tools. An agent that begins more uses no tools.
const PRELUDE: usize = 3;

/// All conversations of one agent.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    conversations: Vec<ModelConversation>,
    /// The calls in flight.
    pub reservations: Reservations,
    /// What was spent, and what the user should know of it.
    pub spending: CallSpending,
    /// Whether the agent has conversations without tools.
    plain: bool,
    /// The models of calls that turned out to be side calls while they were in flight.
    beside: BTreeMap<u64, String>,
    /// Why the newest call in a conversation has no complete answer, where that is so.
    unanswered: Option<LlmError>,
}

/// One conversation.
#[derive(Debug)]
struct ModelConversation {
    session: Option<String>,
    /// Whether the model may act in it.
    tools: bool,
    /// What its newest request says.
    asked: u64,
    /// How many messages that has.
    length: usize,
    /// How often that came.
    tries: u32,
    /// What was new in the newest request before the answer.
    opening: Vec<Message>,
    model: String,
    /// What was spent on it since it was last reported.
    spent: CallCost,
    state: ConversationState,
    /// What arrived of its newest answer, where that broke off.
    arrived: Option<PartialAnswer>,
    /// The id clients may name its newest answer by.
    answer_id: Option<String>,
}

#[derive(Debug)]
enum ConversationState {
    /// Asked and not answered yet, as this flight.
    Asked(u64),
    /// Answered and not reported yet. The flight may still correct its cost.
    Answered(u64, Box<CompletedAnswer>),
    /// Not answered.
    Failed,
    /// Answered and reported; kept to match the next request with.
    Reported(Option<Box<Message>>),
}

/// A part of an answer.
#[derive(Debug)]
struct PartialAnswer {
    response: Response,
    /// Why it is incomplete.
    why: String,
    /// Whether it was reported.
    is_reported: bool,
}

#[derive(Debug)]
struct CompletedAnswer {
    response: Option<Response>,
    /// Why there are no words.
    unrecorded_because: Option<String>,
}

impl CompletedAnswer {
    /// Whether tools are to run; an unreadable answer may have asked for some.
    fn asks(&self) -> bool {
        self.response.as_ref().is_none_or(|response| response.message.tool_calls().next().is_some())
    }
}

/// A request that belongs to a conversation.
#[derive(Debug)]
pub(super) struct MatchedRequest {
    /// The conversation, from 0.
    pub conversation: usize,
    /// The number of its flight.
    pub flight: u64,
    /// The exchanges that are over, oldest first.
    pub ended: Vec<Exchange>,
    /// How often this very request came, from 1.
    pub tries: u32,
}

impl Conversations {
    /// Takes in a request. None when it is no part of any conversation.
    pub(super) fn arrive(&mut self, request: &Arc<Request>, session: Option<&str>) -> Option<MatchedRequest> {
        let asked = fingerprint(request);
        let tools = brings_tools(request);
        let retried = self.find_retry(asked, session, request);
        let continued = if retried.is_none() { self.find_continued(request, session) } else { None };
        match continued {
            _ if retried.is_some() => {}
            Some(conversation) => self.plain |= !tools && !self.conversations[conversation].tools,
            None if tools => self.begin_with_tools(),
            None if self.has_tools() || is_probe(request) => return None,
            None => self.plain |= self.conversations.len() >= PRELUDE,
        }
        let flight = self.reservations.number();
        let mut ended = self.finished(retried.or(continued));
        let conversation = match (retried, continued) {
            (Some(conversation), _) => {
                if self.conversations[conversation].tries > FEW {
                    ended.extend(self.report_broken(conversation));
                }
                let known = &mut self.conversations[conversation];
                known.tries += 1;
                known.state = ConversationState::Asked(flight);
                conversation
            }
            (None, continued) => {
                let tail = tail(request);
                let (conversation, opening) = match continued {
                    Some(conversation) => {
                        // What it continues may be half an answer.
                        ended.extend(self.report_broken(conversation));
                        let (exchange, opening) = self.report(conversation, tail);
                        ended.extend(exchange);
                        (conversation, opening)
                    }
                    None => (self.conversations.len(), tail),
                };
                let new = ModelConversation {
                    session: session.map(str::to_owned),
                    tools: tools || self.conversations.get(conversation).is_some_and(|known| known.tools),
                    asked,
                    length: request.messages.len(),
                    tries: 1,
                    opening,
                    model: request.model.clone(),
                    spent: CallCost::default(),
                    state: ConversationState::Asked(flight),
                    arrived: None,
                    answer_id: None,
                };
                match self.conversations.get_mut(conversation) {
                    Some(known) => *known = new,
                    None => self.conversations.push(new),
                }
                conversation
            }
        };
        Some(MatchedRequest { conversation, flight, ended, tries: self.conversations[conversation].tries })
    }

    /// Why the newest call in a conversation has no complete answer, where that is so.
    pub(super) fn unanswered(&self) -> Option<LlmError> {
        self.unanswered.clone()
    }

    /// Whether the agent is busy: a call of a conversation is in flight, or the tools of an answer may run.
    pub(super) fn is_at_work(&self) -> bool {
        self.conversations.iter().any(|conversation| match &conversation.state {
            ConversationState::Asked(_) => true,
            ConversationState::Answered(_, answer) => answer.asks(),
            ConversationState::Failed | ConversationState::Reported(_) => false,
        })
    }

    /// What was spent on exchanges that are not reported yet.
    pub(super) fn pending(&self) -> CallCost {
        self.conversations.iter().fold(CallCost::default(), |mut sum, conversation| {
            sum += conversation.spent;
            sum
        })
    }

    /// What was spent on all calls, reported or not, those in flight included as far as that is known.
    pub(super) fn total(&self) -> CallCost {
        let mut total = self.spending.total;
        total += self.reservations.counted_so_far();
        total
    }

    /// Counts spending on side calls. Without a model, it is that of the newest request.
    fn spend(&mut self, purpose: &str, model: &str, spent: CallCost) {
        let newest = self.conversations.last().map(|conversation| conversation.model.as_str()).unwrap_or_default();
        self.spending.add(purpose, if model.is_empty() { newest } else { model }, spent);
    }

    fn has_tools(&self) -> bool {
        self.conversations.iter().any(|conversation| conversation.tools)
    }

    /// A conversation with tools begins. If it may be the agent's first own one, those before were side calls.
    fn begin_with_tools(&mut self) {
        if self.plain || self.has_tools() {
            return;
        }
        for ModelConversation { model, spent, state, .. } in std::mem::take(&mut self.conversations) {
            match state {
                ConversationState::Asked(flight) => {
                    self.spend(BROKEN_OFF, &model, spent);
                    self.beside.insert(flight, model);
                }
                ConversationState::Failed => self.spend(BROKEN_OFF, &model, spent),
                ConversationState::Answered(..) | ConversationState::Reported(_) => self.spend(ASIDE, &model, spent),
            }
        }
    }

    /// The conversation of this very request. Two subagents that begin alike, at the same time or one after
    /// the other, have two conversations.
    fn find_retry(&self, asked: u64, session: Option<&str>, request: &Request) -> Option<usize> {
        let begins =
            named(request).is_none() && !request.messages.iter().any(|message| message.role == Role::Assistant);
        self.conversations.iter().rposition(|conversation| {
            let other = match conversation.state {
                ConversationState::Asked(_) => begins,
                ConversationState::Reported(..) => true,
                ConversationState::Answered(..) | ConversationState::Failed => false,
            };
            conversation.asked == asked && same_session(conversation.session.as_deref(), session) && !other
        })
    }

    /// The conversation this request continues.
    fn find_continued(&self, request: &Request, session: Option<&str>) -> Option<usize> {
        if let Some(id) = named(request) {
            let says_so = |conversation: &ModelConversation| {
                !matches!(conversation.state, ConversationState::Asked(_))
                    && conversation.answer_id.as_deref() == Some(id)
            };
            return self.conversations.iter().rposition(says_so);
        }
        let said = request.messages.iter().rfind(|message| message.role == Role::Assistant)?;
        self.conversations.iter().rposition(|conversation| {
            let goes_on = match &conversation.state {
                ConversationState::Answered(_, answer) => match &answer.response {
                    Some(response) => repeats(said, &response.message),
                    // The answer is not known; more messages have to do.
                    None => request.messages.len() > conversation.length,
                },
                ConversationState::Reported(Some(message)) => repeats(said, message),
                ConversationState::Failed => {
                    conversation.arrived.as_ref().is_some_and(|arrived| repeats(said, &arrived.response.message))
                }
                ConversationState::Reported(None) | ConversationState::Asked(_) => false,
            };
            goes_on && same_session(conversation.session.as_deref(), session)
        })
    }

    /// What arrived of an answer that ends before it is whole.
    pub(super) fn broke_off(&mut self, flight: u64, response: Response, why: &str) {
        if let Some(conversation) = self.in_flight(flight) {
            conversation.arrived = Some(PartialAnswer { response, why: why.to_owned(), is_reported: false });
        }
    }

    /// A call will have no complete answer, for this reason. One that its client has repeated meanwhile, or a side
    /// call, does not count.
    pub(super) fn failed(&mut self, flight: u64, why: LlmError) {
        if self.in_flight(flight).is_some() {
            self.unanswered = Some(why);
        }
    }

    /// A call is refused before anybody knows which conversation it belongs to.
    pub(super) fn refuse_request(&mut self, why: LlmError) {
        self.unanswered = Some(why);
    }

    /// An answer is whole, though more may come that changes what it cost. Says whether a conversation waited for it.
    pub(super) fn answered(&mut self, flight: u64, response: Response, spent: CallCost) -> bool {
        self.spending.total += spent;
        let Some(conversation) = self.in_flight(flight) else {
            // Its client has repeated the call meanwhile, or it was a side call after all.
            let purpose = if self.beside.remove(&flight).is_some() { ASIDE } else { LATE };
            self.spend(purpose, &response.model, spent);
            return false;
        };
        conversation.spent += spent;
        conversation.answer_id = id_of(&response);
        conversation.state = ConversationState::Answered(
            flight,
            Box::new(CompletedAnswer { response: Some(response), unrecorded_because: None }),
        );
        self.unanswered = None;
        true
    }

    /// A side call is over.
    pub(super) fn finish_side_call(&mut self, model: &str, spent: CallCost) {
        self.spending.total += spent;
        self.spend(ASIDE, model, spent);
    }

    /// A flight is over. `before` is what was counted for it when it was answered. Says whether a conversation waited
    /// for it until now.
    pub(super) fn finish_call(
        &mut self,
        flight: u64,
        outcome: AnswerOutcome,
        spent: CallCost,
        before: Option<CallCost>,
    ) -> bool {
        let more = spent - before.unwrap_or_default();
        self.spending.total += more;
        if before.is_some() {
            // It was answered before it ended; what came after only adds to its cost.
            let open = self.conversations.iter_mut().find(
                |conversation| matches!(conversation.state, ConversationState::Answered(own, _) if own == flight),
            );
            match open {
                Some(conversation) => conversation.spent += more,
                None => self.spend(LATE, "", more),
            }
            return false;
        }
        let beside = self.beside.remove(&flight);
        let Some(conversation) = self.in_flight(flight) else {
            match beside {
                Some(model) => self.spend(ASIDE, &model, more),
                None => self.spend(LATE, "", more),
            }
            return false;
        };
        conversation.spent += more;
        conversation.state = match outcome {
            AnswerOutcome::Whole(response) => {
                conversation.answer_id = id_of(&response);
                ConversationState::Answered(
                    flight,
                    Box::new(CompletedAnswer { response: Some(*response), unrecorded_because: None }),
                )
            }
            AnswerOutcome::Counted(_, why) => ConversationState::Answered(
                flight,
                Box::new(CompletedAnswer { response: None, unrecorded_because: Some(why) }),
            ),
            AnswerOutcome::Unreadable(..) | AnswerOutcome::Cut(..) | AnswerOutcome::Refused(..) => {
                ConversationState::Failed
            }
        };
        if matches!(conversation.state, ConversationState::Answered(..)) {
            self.unanswered = None;
        }
        true
    }

    fn in_flight(&mut self, flight: u64) -> Option<&mut ModelConversation> {
        self.conversations
            .iter_mut()
            .find(|conversation| matches!(conversation.state, ConversationState::Asked(own) if own == flight))
    }

    /// Exchanges of other conversations that are over when a request continues `goes_on`, or begins a conversation.
    ///
    /// Those that ask for no tools always are. One whose tools may still run is over when a conversation begins and
    /// nothing else is in flight: the agent has left it, or starts its first subagent, and its work so far belongs to
    /// this exchange. Parallel subagents are waited for, each until it continues.
    fn finished(&mut self, goes_on: Option<usize>) -> Vec<Exchange> {
        let (mut over, mut open) = (Vec::new(), Vec::new());
        for (at, conversation) in self.conversations.iter().enumerate().filter(|(at, _)| Some(*at) != goes_on) {
            match &conversation.state {
                // Whether this was a conversation at all is not known yet.
                ConversationState::Answered(..) if !conversation.tools && !self.plain => {}
                ConversationState::Answered(flight, answer) if answer.asks() => open.push((*flight, at)),
                ConversationState::Answered(flight, _) => over.push((*flight, at)),
                ConversationState::Asked(_) | ConversationState::Failed | ConversationState::Reported(_) => {}
            }
        }
        let in_flight =
            self.conversations.iter().any(|conversation| matches!(conversation.state, ConversationState::Asked(_)));
        if goes_on.is_none() && !in_flight && open.len() == 1 {
            over.append(&mut open);
        }
        over.sort_unstable();
        over.into_iter().filter_map(|(_, conversation)| self.report(conversation, Vec::new()).0).collect()
    }

    /// The exchange a conversation's newest answer ends, which is reported now, and what opens the next one. `tail` is
    /// what the client says after the answer.
    fn report(&mut self, conversation: usize, tail: Vec<Message>) -> (Option<Exchange>, Vec<Message>) {
        let known = &mut self.conversations[conversation];
        let answer = match std::mem::replace(&mut known.state, ConversationState::Failed) {
            ConversationState::Answered(_, answer) => *answer,
            other => {
                known.state = other;
                return (None, tail);
            }
        };
        known.state =
            ConversationState::Reported(answer.response.as_ref().map(|response| Box::new(response.message.clone())));
        if let Some(why) = &answer.unrecorded_because {
            let text = format!("an answer of the model is not recorded: {why}");
            self.spending.warnings.push(WarningCode::AnswerUnrecorded.with(text));
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

    /// What arrived of a conversation's newest answer that broke off, reported once. Where nothing arrived, its cost is
    /// a side call's.
    fn report_broken(&mut self, conversation: usize) -> Option<Exchange> {
        let known = &mut self.conversations[conversation];
        if !matches!(known.state, ConversationState::Failed) {
            return None;
        }
        let (spent, model) = (std::mem::take(&mut known.spent), known.model.clone());
        let Some(arrived) = known.arrived.as_mut().filter(|arrived| !arrived.is_reported) else {
            self.spend(BROKEN_OFF, &model, spent);
            return None;
        };
        arrived.is_reported = true;
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

    /// What arrived of all answers that broke off, reported once.
    pub(super) fn broken_off(&mut self) -> Vec<Exchange> {
        (0..self.conversations.len()).filter_map(|conversation| self.report_broken(conversation)).collect()
    }

    /// All unreported exchanges, as if nothing more came. Failed calls are side calls.
    pub(super) fn report_all(&mut self) -> Vec<Exchange> {
        // Beside conversations with tools, others are side calls.
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
                ConversationState::Failed | ConversationState::Reported(..) => continue,
            };
            others.push((purpose, conversation.model.clone(), std::mem::take(&mut conversation.spent)));
        }
        others.into_iter().for_each(|(purpose, model, spent)| self.spend(purpose, &model, spent));
        order.sort_unstable();
        order.into_iter().filter_map(|(_, conversation)| self.report(conversation, Vec::new()).0).collect()
    }
}

#[cfg(test)]
mod tests;
