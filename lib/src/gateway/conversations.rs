//! Which conversation a request belongs to, and which exchanges are over. An agent may hold several conversations at
//! once, its own and those of its helpers; it may ask the same again; it may begin anew with a summary.
//! `matching` compares requests and answers, `landing` takes answers in, `telling` tells exchanges, `spending` counts,
//! `reservations` sets aside what calls on their way may take.
//!
//! A request goes on with the conversation whose newest answer is the last one it repeats, or names. That holds whatever
//! else a client changes in what it sends, and needs no header. Nothing here touches the world.
//!
//! What brings no tools is something beside the conversations, such as a title, where there are any that bring some. An
//! agent without tools has conversations too; which it is shows only when more has come, so until then they are kept.

mod landing;
mod matching;
mod reservations;
mod spending;
mod telling;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::matching::{brings_tools, fingerprint, is_probe, same_session, says_the_same, tail};
use self::reservations::Reservation;
use self::spending::{ASIDE, BROKEN_OFF};
use super::{CallCost, Exchange, FEW};
use crate::event::{SideCall, Usage, Warning};
use crate::llm::{LlmError, Message, Request, Response, Role};

pub(super) use self::matching::named;

/// So many conversations may begin without tools before one that brings some. An agent that begins more of them has none.
const PRELUDE: usize = 3;

/// All conversations of one agent.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    conversations: Vec<Conversation>,
    flights: u64,
    /// The calls that are on their way, by their numbers.
    under_way: BTreeMap<u64, Reservation>,
    /// The most that a request and an answer had up to now.
    most: Usage,
    /// Whether the agent has conversations without tools.
    plain: bool,
    /// The models of calls that turned out to be beside the conversations while they were on their way.
    beside: BTreeMap<u64, String>,
    /// What was spent on all calls that have come to an end, told or not.
    total: CallCost,
    /// What was spent outside of exchanges that are told.
    aside: Vec<SideCall>,
    warnings: Vec<Warning>,
    /// Whether the user knows that calls were estimated.
    estimates: bool,
    /// Why the newest call in a conversation has no whole answer, where that is so.
    unanswered: Option<LlmError>,
}

/// One conversation.
#[derive(Debug)]
struct Conversation {
    session: Option<String>,
    /// Whether the model may act in it.
    tools: bool,
    /// What its newest request says.
    asked: u64,
    /// How many messages that has.
    length: usize,
    /// How often it was asked.
    tries: u32,
    /// What was new in the newest request before the answer.
    opening: Vec<Message>,
    model: String,
    /// What was spent on it since it was last told of.
    spent: CallCost,
    state: ConversationState,
    /// What arrived of its newest answer, where that broke off.
    arrived: Option<PartialAnswer>,
    /// What clients may name its newest answer by.
    answer_id: Option<String>,
}

#[derive(Debug)]
enum ConversationState {
    /// Asked and not answered yet, as this flight.
    Asked(u64),
    /// Answered; nobody was told of it yet. The flight may still correct what it cost.
    Answered(u64, Box<CompletedAnswer>),
    /// Not answered.
    Failed,
    /// Answered, and told; it stays to know the next request by.
    Told(Option<Box<Message>>),
}

/// A part of an answer.
#[derive(Debug)]
struct PartialAnswer {
    response: Response,
    /// Why there is no more of it.
    why: String,
    /// Whether somebody was told of it.
    is_told: bool,
}

#[derive(Debug)]
struct CompletedAnswer {
    response: Option<Response>,
    /// Why there are no words.
    unread_because: Option<String>,
}

/// A request that belongs to a conversation.
#[derive(Debug)]
pub(super) struct MatchedRequest {
    /// The conversation, from 0.
    pub conversation: usize,
    /// What its answer is known by.
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
        let again = self.again(asked, session, request);
        let next = if again.is_none() { self.next(request, session) } else { None };
        match next {
            _ if again.is_some() => {}
            Some(conversation) => self.plain |= !tools && !self.conversations[conversation].tools,
            None if tools => self.begin_with_tools(),
            None if self.has_tools() || is_probe(request) => return None,
            None => self.plain |= self.conversations.len() >= PRELUDE,
        }
        let flight = self.number();
        let mut ended = self.finished(again.or(next));
        let conversation = match (again, next) {
            (Some(conversation), _) => {
                if self.conversations[conversation].tries > FEW {
                    ended.extend(self.tell_broken(conversation));
                }
                let known = &mut self.conversations[conversation];
                known.tries += 1;
                known.state = ConversationState::Asked(flight);
                conversation
            }
            (None, next) => {
                let tail = tail(request);
                let (conversation, opening) = match next {
                    Some(conversation) => {
                        // What it goes on with may be half an answer.
                        ended.extend(self.tell_broken(conversation));
                        let (exchange, opening) = self.tell(conversation, tail);
                        ended.extend(exchange);
                        (conversation, opening)
                    }
                    None => (self.conversations.len(), tail),
                };
                let new = Conversation {
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

    /// Why the newest call in a conversation has no whole answer, where that is so.
    pub(super) fn unanswered(&self) -> Option<LlmError> {
        self.unanswered.clone()
    }

    /// Whether the agent has something to do but to ask: a call of a conversation is on its way, or the tools of an answer
    /// may run.
    pub(super) fn is_at_work(&self) -> bool {
        self.conversations.iter().any(|conversation| match &conversation.state {
            ConversationState::Asked(_) => true,
            ConversationState::Answered(_, answer) => answer.asks(),
            ConversationState::Failed | ConversationState::Told(_) => false,
        })
    }

    fn has_tools(&self) -> bool {
        self.conversations.iter().any(|conversation| conversation.tools)
    }

    /// A conversation with tools begins. If it is the first that could be the agent's own, those before it were none.
    fn begin_with_tools(&mut self) {
        if self.plain || self.has_tools() {
            return;
        }
        for Conversation { model, spent, state, .. } in std::mem::take(&mut self.conversations) {
            match state {
                ConversationState::Asked(flight) => {
                    self.spend(BROKEN_OFF, &model, spent);
                    self.beside.insert(flight, model);
                }
                ConversationState::Failed => self.spend(BROKEN_OFF, &model, spent),
                ConversationState::Answered(..) | ConversationState::Told(_) => self.spend(ASIDE, &model, spent),
            }
        }
    }

    /// The conversation this very request was asked in. Helpers may begin alike, at the same time or one after the other;
    /// these are two.
    fn again(&self, asked: u64, session: Option<&str>, request: &Request) -> Option<usize> {
        let begins =
            named(request).is_none() && !request.messages.iter().any(|message| message.role == Role::Assistant);
        self.conversations.iter().rposition(|conversation| {
            let other = match conversation.state {
                ConversationState::Asked(_) => begins,
                ConversationState::Told(..) => true,
                ConversationState::Answered(..) | ConversationState::Failed => false,
            };
            conversation.asked == asked && same_session(conversation.session.as_deref(), session) && !other
        })
    }

    /// The conversation this request goes on with.
    fn next(&self, request: &Request, session: Option<&str>) -> Option<usize> {
        if let Some(id) = named(request) {
            let says_so = |conversation: &Conversation| {
                !matches!(conversation.state, ConversationState::Asked(_))
                    && conversation.answer_id.as_deref() == Some(id)
            };
            return self.conversations.iter().rposition(says_so);
        }
        let said = request.messages.iter().rfind(|message| message.role == Role::Assistant)?;
        self.conversations.iter().rposition(|conversation| {
            let goes_on = match &conversation.state {
                ConversationState::Answered(_, answer) => match &answer.response {
                    Some(response) => says_the_same(said, &response.message),
                    // Nobody knows what was said; that there is more of it must do.
                    None => request.messages.len() > conversation.length,
                },
                ConversationState::Told(Some(message)) => says_the_same(said, message),
                ConversationState::Failed => {
                    conversation.arrived.as_ref().is_some_and(|arrived| says_the_same(said, &arrived.response.message))
                }
                ConversationState::Told(None) | ConversationState::Asked(_) => false,
            };
            goes_on && same_session(conversation.session.as_deref(), session)
        })
    }
}

#[cfg(test)]
mod tests;
