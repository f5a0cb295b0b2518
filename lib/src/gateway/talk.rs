//! Which conversation a request belongs to, and which exchanges are over. An agent may hold several conversations at
//! once, its own and those of its helpers; it may ask the same again; it may begin anew with a summary.
//!
//! A request goes on with the conversation whose newest answer is the last one it repeats, or names. That holds whatever
//! else a client changes in what it sends, and needs no header. Nothing here touches the world.
//!
//! What brings no tools is something beside the conversations, such as a title, where there are any that bring some. An
//! agent without tools has conversations too; which it is shows only when more has come, so until then they are kept.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::watch::Heard;
use super::{Exchange, Spent};
use crate::event::{SideCall, Usage};
use crate::llm::wire::Format;
use crate::llm::{Message, Part, Request, Response, Role};

/// What calls beside the conversations are for: something without tools, such as a title.
pub(super) const ASIDE: &str = "aside";

/// A call that broke off before its answer was whole.
const BROKEN_OFF: &str = "broken_off";

/// What an answer cost beyond what was known when it was told.
const LATE: &str = "late";

/// So many conversations may begin without tools before one that brings some. An agent that begins more of them has none.
const PRELUDE: usize = 3;

/// All conversations of one agent.
#[derive(Debug, Default)]
pub(super) struct Talks {
    talks: Vec<Talk>,
    flights: u64,
    /// Whether the agent has conversations without tools.
    plain: bool,
    /// The models of calls that turned out to be beside the conversations while they were on their way.
    beside: BTreeMap<u64, String>,
    /// What was spent outside of exchanges that are told.
    aside: Vec<SideCall>,
    warnings: Vec<String>,
}

/// One conversation.
#[derive(Debug)]
struct Talk {
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
    spent: Spent,
    state: State,
    /// What clients may name its newest answer by.
    answer_id: Option<String>,
}

#[derive(Debug)]
enum State {
    /// Asked and not answered yet, as this flight.
    Asked(u64),
    /// Answered; nobody was told of it yet. The flight may still correct what it cost.
    Answered(u64, Box<Answer>),
    /// Not answered.
    Failed,
    /// Answered, and told; it stays to know the next request by.
    Told(Option<Box<Message>>),
}

#[derive(Debug)]
struct Answer {
    response: Option<Response>,
    /// Why there are no words.
    unheard: Option<String>,
}

/// A request that belongs to a conversation.
#[derive(Debug)]
pub(super) struct Arrived {
    /// The conversation, from 0.
    pub talk: usize,
    /// What its answer is known by.
    pub flight: u64,
    /// The exchanges that are over, oldest first.
    pub ended: Vec<Exchange>,
    /// How often this very request came, from 1.
    pub tries: u32,
}

impl Talks {
    /// Takes in a request. None when it is no part of any conversation.
    pub(super) fn arrive(&mut self, request: &Arc<Request>, session: Option<&str>) -> Option<Arrived> {
        let asked = fingerprint(request);
        let tools = brings_tools(request);
        let again = self.again(asked, session, request);
        let next = if again.is_none() { self.next(request, session) } else { None };
        match next {
            _ if again.is_some() => {}
            Some(talk) => self.plain |= !tools && !self.talks[talk].tools,
            None if tools => self.begin_with_tools(),
            None if self.has_tools() || is_probe(request) => return None,
            None => self.plain |= self.talks.len() >= PRELUDE,
        }
        self.flights += 1;
        let flight = self.flights;
        let mut ended = self.finished(again.or(next));
        let talk = match (again, next) {
            (Some(talk), _) => {
                let known = &mut self.talks[talk];
                known.tries += 1;
                known.state = State::Asked(flight);
                talk
            }
            (None, next) => {
                let tail = tail(request);
                let (talk, opening) = match next {
                    Some(talk) => {
                        let (exchange, opening) = self.tell(talk, tail);
                        ended.extend(exchange);
                        (talk, opening)
                    }
                    None => (self.talks.len(), tail),
                };
                let new = Talk {
                    session: session.map(str::to_owned),
                    tools: tools || self.talks.get(talk).is_some_and(|known| known.tools),
                    asked,
                    length: request.messages.len(),
                    tries: 1,
                    opening,
                    model: request.model.clone(),
                    spent: Spent::default(),
                    state: State::Asked(flight),
                    answer_id: None,
                };
                match self.talks.get_mut(talk) {
                    Some(known) => *known = new,
                    None => self.talks.push(new),
                }
                talk
            }
        };
        Some(Arrived { talk, flight, ended, tries: self.talks[talk].tries })
    }

    fn has_tools(&self) -> bool {
        self.talks.iter().any(|talk| talk.tools)
    }

    /// A conversation with tools begins. If it is the first that could be the agent's own, those before it were none.
    fn begin_with_tools(&mut self) {
        if self.plain || self.has_tools() {
            return;
        }
        for Talk { model, spent, state, .. } in std::mem::take(&mut self.talks) {
            match state {
                State::Asked(flight) => {
                    self.spend(BROKEN_OFF, &model, spent);
                    self.beside.insert(flight, model);
                }
                State::Failed => self.spend(BROKEN_OFF, &model, spent),
                State::Answered(..) | State::Told(_) => self.spend(ASIDE, &model, spent),
            }
        }
    }

    /// What was spent on exchanges that are not told yet.
    pub(super) fn pending(&self) -> Spent {
        self.talks.iter().fold(Spent::default(), |mut sum, talk| {
            sum += talk.spent;
            sum
        })
    }

    /// The conversation this very request was asked in. Helpers may begin alike, at the same time or one after the other;
    /// these are two.
    fn again(&self, asked: u64, session: Option<&str>, request: &Request) -> Option<usize> {
        let begins =
            named(request).is_none() && !request.messages.iter().any(|message| message.role == Role::Assistant);
        self.talks.iter().rposition(|talk| {
            let other = match talk.state {
                State::Asked(_) => begins,
                State::Told(..) => true,
                State::Answered(..) | State::Failed => false,
            };
            talk.asked == asked && same_session(talk.session.as_deref(), session) && !other
        })
    }

    /// The conversation this request goes on with.
    fn next(&self, request: &Request, session: Option<&str>) -> Option<usize> {
        if let Some(id) = named(request) {
            let says_so = |talk: &Talk| !matches!(talk.state, State::Asked(_)) && talk.answer_id.as_deref() == Some(id);
            return self.talks.iter().rposition(says_so);
        }
        let said = request.messages.iter().rfind(|message| message.role == Role::Assistant)?;
        self.talks.iter().rposition(|talk| {
            let goes_on = match &talk.state {
                State::Answered(_, answer) => match &answer.response {
                    Some(response) => says_the_same(said, &response.message),
                    // Nobody knows what was said; that there is more of it must do.
                    None => request.messages.len() > talk.length,
                },
                State::Told(Some(message)) => says_the_same(said, message),
                State::Told(None) | State::Asked(_) | State::Failed => false,
            };
            goes_on && same_session(talk.session.as_deref(), session)
        })
    }

    /// Exchanges of other conversations that ask for nothing: whatever comes, they are over.
    fn finished(&mut self, but: Option<usize>) -> Vec<Exchange> {
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
    fn tell(&mut self, talk: usize, tail: Vec<Message>) -> (Option<Exchange>, Vec<Message>) {
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

    /// An answer is whole, though more may come that changes what it cost.
    pub(super) fn answered(&mut self, flight: u64, response: Response, spent: Spent) {
        if let Some(talk) = self.flying(flight) {
            talk.spent += spent;
            talk.answer_id = id_of(&response);
            talk.state = State::Answered(flight, Box::new(Answer { response: Some(response), unheard: None }));
        }
    }

    /// A flight is over. `before` is what was counted for it when it was answered.
    pub(super) fn landed(&mut self, flight: u64, heard: Heard, spent: Spent, before: Option<Spent>) {
        let more = spent - before.unwrap_or_default();
        if before.is_some() {
            // It was answered before it ended; what came after that is only more to pay.
            let open =
                self.talks.iter_mut().find(|talk| matches!(talk.state, State::Answered(own, _) if own == flight));
            match open {
                Some(talk) => talk.spent += more,
                None => self.spend(LATE, "", more),
            }
            return;
        }
        let beside = self.beside.remove(&flight);
        let Some(talk) = self.flying(flight) else {
            match beside {
                Some(model) => self.spend(ASIDE, &model, more),
                None => self.spend(LATE, "", more),
            }
            return;
        };
        talk.spent += more;
        talk.state = match heard {
            Heard::Whole(response) => {
                talk.answer_id = id_of(&response);
                State::Answered(flight, Box::new(Answer { response: Some(*response), unheard: None }))
            }
            Heard::Counted(_, why) => State::Answered(flight, Box::new(Answer { response: None, unheard: Some(why) })),
            Heard::Cut(..) | Heard::Refused(..) => State::Failed,
        };
    }

    fn flying(&mut self, flight: u64) -> Option<&mut Talk> {
        self.talks.iter_mut().find(|talk| matches!(talk.state, State::Asked(own) if own == flight))
    }

    /// Something was spent beside the conversations. Without a model, it is that of the newest request.
    pub(super) fn spend(&mut self, purpose: &str, model: &str, spent: Spent) {
        if spent.usage == Usage::default() {
            return;
        }
        let newest = self.talks.last().map(|talk| talk.model.as_str()).unwrap_or_default();
        let model = if model.is_empty() { newest } else { model };
        let same = |call: &&mut SideCall| call.purpose == purpose && call.model == model;
        match self.aside.iter_mut().find(same) {
            Some(call) => {
                let mut sum = Spent { usage: call.token_usage, cost_usd: call.cost_usd };
                sum += spent;
                (call.token_usage, call.cost_usd) = (sum.usage, sum.cost_usd);
            }
            None => self.aside.push(SideCall {
                purpose: purpose.to_owned(),
                model: model.to_owned(),
                provider: String::new(),
                token_usage: spent.usage,
                cost_usd: spent.cost_usd,
            }),
        }
    }

    /// Something the user should know.
    pub(super) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// What was spent beside the conversations, and what the user should know, since the last time.
    pub(super) fn take_aside(&mut self, provider: &str) -> (Vec<SideCall>, Vec<String>) {
        let mut aside = std::mem::take(&mut self.aside);
        aside.iter_mut().for_each(|call| provider.clone_into(&mut call.provider));
        (aside, std::mem::take(&mut self.warnings))
    }

    /// The exchanges nobody was told of, as if nothing more came. What failed is counted aside.
    pub(super) fn settle(&mut self) -> Vec<Exchange> {
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

fn same_session(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Whether the model may act. Tools the server runs itself change nothing here.
fn brings_tools(request: &Request) -> bool {
    let served = |extra: &crate::event::Extra| {
        let kind = extra.get("anthropic").and_then(|known| known.get("type")?.as_str());
        kind.is_some_and(|kind| kind != "custom")
    };
    request.tools.iter().any(|tool| !tool.parameters.is_null() || !served(&tool.extra))
}

/// Whether nothing is to be said: some clients ask only to see what they are answered.
fn is_probe(request: &Request) -> bool {
    request.max_tokens.is_some_and(|most| most <= 1)
}

/// The answer a request goes on with, where it names that and does not repeat it.
fn named(request: &Request) -> Option<&str> {
    request.extra.get(Format::Responses.name())?.get("previous_response_id")?.as_str()
}

/// What clients may name an answer by.
fn id_of(response: &Response) -> Option<String> {
    Some(response.extra.get(Format::Responses.name())?.get("id")?.as_str()?.to_owned())
}

/// What a request says, without what clients change from try to try.
fn fingerprint(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.tools.len().hash(&mut hasher);
    named(request).hash(&mut hasher);
    for message in &request.messages {
        (message.role as u8).hash(&mut hasher);
        for part in &message.content {
            match part {
                Part::Text { text, .. } => (0, text).hash(&mut hasher),
                Part::ToolCall { id, name, .. } => (1, id, name).hash(&mut hasher),
                Part::ToolResult { id, content, .. } => (2, id, content).hash(&mut hasher),
                Part::Thinking { .. } => {}
                Part::Unknown(value) => (3, value.to_string()).hash(&mut hasher),
            }
        }
    }
    hasher.finish()
}

/// What a client says after the newest answer; everything when there is none.
fn tail(request: &Request) -> Vec<Message> {
    let after = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    request.messages[after.map_or(0, |at| at + 1)..].to_vec()
}

/// Whether a client's message repeats an answer: it asks for the same tools, or without tools has the same words.
fn says_the_same(said: &Message, answer: &Message) -> bool {
    let ids = |message: &Message| message.tool_calls().map(|(id, _, _)| id.to_owned()).collect::<Vec<_>>();
    let (said_ids, answer_ids) = (ids(said), ids(answer));
    if answer_ids.is_empty() && said_ids.is_empty() {
        return said.text().trim() == answer.text().trim();
    }
    let made_up = |message: &Message| {
        message.content.iter().any(|part| match part {
            Part::ToolCall { extra, .. } => extra.get("gemini").is_some_and(|known| known.get("no_id").is_some()),
            _ => false,
        })
    };
    if made_up(said) || made_up(answer) {
        return said
            .tool_calls()
            .map(|(_, name, arguments)| (name, arguments))
            .eq(answer.tool_calls().map(|(_, name, arguments)| (name, arguments)));
    }
    answer_ids.iter().any(|id| said_ids.contains(id))
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
    }
}

impl std::ops::Sub for Spent {
    type Output = Self;

    /// What was spent since.
    fn sub(self, before: Self) -> Self {
        let (now, then) = (self.usage, before.usage);
        let usage = Usage {
            input: now.input.saturating_sub(then.input),
            cache_read: now.cache_read.saturating_sub(then.cache_read),
            cache_write: now.cache_write.saturating_sub(then.cache_write),
            output: now.output.saturating_sub(then.output),
            reasoning: now.reasoning.saturating_sub(then.reasoning),
        };
        let cost_usd = self.cost_usd.map(|cost| (cost - before.cost_usd.unwrap_or_default()).max(0.0));
        Self { usage, cost_usd }
    }
}

#[cfg(test)]
mod tests;
