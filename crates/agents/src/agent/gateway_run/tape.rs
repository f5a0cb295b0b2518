//! Answering an agent from the record. A program that keeps no session is run again from where its node began; the
//! calls it made before are answered as they were, until what is recorded is used up and it is live again. Until then no
//! call of it leaves the machine, and none that is not on the tape is answered: then its work takes another course.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::llm::{Message, Part, Request, Response, Role, Stop};
use pleach_core::event::Usage;

/// What a call without tools is answered that is not on the tape: a title, a summary.
const ASIDE: &str = "The work up to here is repeated from its record.";

/// A call on the tape: its answer, and what the tools said that it asked for.
#[derive(Debug, Clone)]
struct TapedCall {
    answer: Message,
    results: Vec<Message>,
}

/// What one conversation has on record.
#[derive(Debug, Default)]
struct TapedConversation {
    opening: Vec<String>,
    calls: VecDeque<TapedCall>,
    /// The newest call that was answered.
    last: Option<TapedCall>,
    taken: bool,
}

/// What is on record of an agent's conversations.
#[derive(Debug, Default)]
pub(super) struct Tape {
    conversations: Vec<TapedConversation>,
    /// The record of each live conversation.
    playing: BTreeMap<usize, usize>,
    /// How many calls were answered.
    played: usize,
    /// How many there are.
    length: usize,
    /// The tools that have failed where they had not, or the other way round.
    differing: BTreeSet<String>,
}

/// What the tape has for a call.
#[derive(Debug)]
pub(super) enum Play {
    /// Its recorded answer.
    Answer(Box<Response>),
    /// It is beside the work: an answer that says nothing.
    Aside(Box<Response>),
    /// It is not answered: nobody knows what it is for.
    Refuse,
    /// The work takes another course than on record, for this reason.
    Diverged(String),
    /// The tape is used up.
    Live,
}

impl Tape {
    /// The conversations of recorded messages.
    pub(super) fn new(messages: &[Message]) -> Self {
        let mut all: BTreeMap<usize, TapedConversation> = BTreeMap::new();
        // Half an answer is none.
        for message in messages.iter().filter(|message| !message.is_broken_off()) {
            let taped = all.entry(message.conversation()).or_default();
            match (message.role, taped.calls.back_mut()) {
                (Role::Assistant, _) => {
                    taped.calls.push_back(TapedCall { answer: message.clone(), results: Vec::new() });
                }
                (_, None) => taped.opening.push(message.text()),
                (_, Some(call)) => call.results.push(message.clone()),
            }
        }
        let length = all.values().map(|taped| taped.calls.len()).sum();
        Self { conversations: all.into_values().collect(), length, ..Self::default() }
    }

    /// What it has for a call, in which conversation if that is known. `tries` says how often this very call came.
    pub(super) fn play(&mut self, conversation: Option<usize>, request: &Request, tries: u32) -> Play {
        let taped = conversation.and_then(|conversation| self.playing.get(&conversation)).copied();
        if tries > 1
            && let Some(last) = taped.and_then(|taped| self.conversations[taped].last.as_ref())
        {
            return Play::Answer(response(last.answer.clone()));
        }
        if self.is_over() {
            taped.into_iter().for_each(|taped| self.conversations[taped].last = None);
            return Play::Live;
        }
        let Some(conversation) = conversation else {
            return if request.messages.is_empty() { Play::Refuse } else { Play::Aside(aside()) };
        };
        let number = self.played + 1;
        let found = taped.or_else(|| {
            if request.tools.is_empty() { self.find_plain(request) } else { self.find(conversation, request) }
        });
        let Some(found) = found else {
            let why = format!("call {number} begins a conversation that is not on record");
            return if request.tools.is_empty() { Play::Aside(aside()) } else { Play::Diverged(why) };
        };
        self.playing.insert(conversation, found);
        let taped = &mut self.conversations[found];
        if let Some(last) = &taped.last {
            let Some(differing) = differing(last, request) else {
                let why = format!("call {number} does not bring the results of the tools it was to use");
                return Play::Diverged(why);
            };
            self.differing.extend(differing);
        }
        let Some(call) = taped.calls.pop_front() else {
            let why = format!("call {number} goes on with a conversation that ends there on record");
            return if request.tools.is_empty() { Play::Aside(aside()) } else { Play::Diverged(why) };
        };
        self.played += 1;
        taped.last = Some(call.clone());
        Play::Answer(response(call.answer))
    }

    /// The record for a new conversation: one that began alike; for the agent's own, its own.
    fn find(&mut self, conversation: usize, request: &Request) -> Option<usize> {
        let opening: Vec<String> = request.messages.iter().map(Message::text).collect();
        let free = |taped: &TapedConversation| !taped.taken;
        let found = self.conversations.iter().position(|taped| free(taped) && taped.opening == opening);
        let found =
            found.or_else(|| (conversation == 0 && self.conversations.first().is_some_and(free)).then_some(0))?;
        self.conversations[found].taken = true;
        Some(found)
    }

    /// The record for a new conversation without tools: one that began alike and called none. A looser match could
    /// answer a title with the agent's own answer.
    fn find_plain(&mut self, request: &Request) -> Option<usize> {
        let opening: Vec<String> = request.messages.iter().map(Message::text).collect();
        let plain =
            |taped: &TapedConversation| taped.calls.iter().all(|call| call.answer.tool_calls().next().is_none());
        let found =
            self.conversations.iter().position(|taped| !taped.taken && taped.opening == opening && plain(taped))?;
        self.conversations[found].taken = true;
        Some(found)
    }

    /// Whether there was anything on it.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether the record is used up.
    pub(super) fn is_over(&self) -> bool {
        self.played == self.length
    }

    /// How far it is, for people.
    pub(super) fn words(&self) -> String {
        format!("replaying call {} of {}", self.played, self.length)
    }

    /// The tools that have failed where they had not, or the other way round.
    pub(super) fn differing(&self) -> impl Iterator<Item = &String> {
        self.differing.iter()
    }
}

/// The tools of a call whose results have failed where they had not, or the other way round; none where a result is missing.
fn differing(last: &TapedCall, request: &Request) -> Option<Vec<String>> {
    let failed = |messages: &[Message], wanted: &str| {
        messages.iter().rev().flat_map(|message| &message.content).find_map(|part| match part {
            Part::ToolResult { id, is_error, .. } if id == wanted => Some(*is_error),
            _ => None,
        })
    };
    let mut found = Vec::new();
    for (id, name, _) in last.answer.tool_calls() {
        let now = failed(&request.messages, id)?;
        if failed(&last.results, id).is_some_and(|then| then != now) {
            found.push(name.to_owned());
        }
    }
    Some(found)
}

/// A recorded answer. It was paid for when it was recorded.
fn response(message: Message) -> Box<Response> {
    let stop = if message.tool_calls().next().is_some() { Stop::ToolCalls } else { Stop::End };
    let extra = Default::default();
    Box::new(Response { message, usage: Usage::default(), model: String::new(), stop, extra })
}

/// Whether an answer is that of a call beside the work.
pub(super) fn is_aside(answer: &Message) -> bool {
    answer.role == Role::Assistant && answer.text() == ASIDE
}

fn aside() -> Box<Response> {
    response(Message::assistant(ASIDE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::ToolSpec;

    fn asks(id: &str) -> Message {
        Message::new(Role::Assistant, vec![Part::tool_call(id, "write", json!({}))])
    }

    fn of(conversation: usize, mut message: Message) -> Message {
        message.set_conversation(conversation);
        message
    }

    fn request(text: &str) -> Request {
        let tool = ToolSpec {
            name: "write".into(),
            description: String::new(),
            parameters: json!({}),
            extra: Default::default(),
        };
        Request { tools: vec![tool], ..plain(text) }
    }

    fn plain(text: &str) -> Request {
        Request { messages: vec![Message::user(text)], ..Request::default() }
    }

    fn said(played: Play) -> String {
        match played {
            Play::Answer(answer) | Play::Aside(answer) => {
                let call = answer.message.tool_calls().next().map(|(id, _, _)| id.to_owned());
                call.unwrap_or_else(|| answer.message.text())
            }
            Play::Refuse => "refused".to_owned(),
            Play::Diverged(why) => why,
            Play::Live => "live".to_owned(),
        }
    }

    fn result(id: &str) -> Message {
        Message::new(Role::Tool, vec![Part::tool_result(id, "ok", false)])
    }

    fn with_result(text: &str, result: Message) -> Request {
        let mut request = request(text);
        request.messages.push(result);
        request
    }

    #[test]
    fn recorded_calls_are_replayed_until_the_record_ends() {
        let mut tape = Tape::new(&[Message::user("task"), asks("a"), result("a"), asks("b")]);
        assert!(!tape.is_over());
        // The task may read differently now: a path in it, the date.
        assert_eq!(said(tape.play(Some(0), &request("task, today"), 1)), "a");
        assert_eq!(said(tape.play(Some(0), &request("task, today"), 2)), "a", "the same again");
        assert_eq!(said(tape.play(Some(0), &with_result("…", result("a")), 1)), "b");
        assert!(tape.is_over());
        assert_eq!(said(tape.play(Some(0), &with_result("…", result("b")), 1)), "live");
        assert_eq!(said(tape.play(Some(0), &with_result("…", result("b")), 2)), "live", "live calls are asked live");
        assert!(Tape::new(&[]).is_over());
    }

    #[test]
    fn what_is_beside_the_work_stays_on_the_machine() {
        let mut tape = Tape::new(&[Message::user("task"), asks("a")]);
        assert_eq!(said(tape.play(Some(0), &plain("task"), 1)), ASIDE, "a title of the same words");
        assert_eq!(said(tape.play(None, &plain("a title"), 1)), ASIDE);
        assert_eq!(said(tape.play(None, &Request::default(), 1)), "refused", "an embedding");
        assert_eq!(said(tape.play(Some(0), &request("task"), 1)), "a");
        let mut tape = Tape::new(&[Message::user("task"), Message::assistant("fine")]);
        assert_eq!(said(tape.play(Some(0), &plain("another"), 1)), ASIDE);
        assert_eq!(said(tape.play(Some(0), &plain("task"), 1)), "fine");
        assert_eq!(said(tape.play(Some(0), &plain("task"), 2)), "fine", "the same again");
    }

    #[test]
    fn subagents_replay_their_own_record_in_any_order() {
        let mut tape = Tape::new(&[
            Message::user("task"),
            asks("main"),
            of(1, Message::user("help one")),
            of(1, Message::assistant("one")),
            of(2, Message::user("help two")),
            of(2, Message::assistant("two")),
        ]);
        assert_eq!(said(tape.play(Some(0), &request("task"), 1)), "main");
        assert_eq!(said(tape.play(Some(1), &request("help two"), 1)), "two");
        assert_eq!(said(tape.play(Some(2), &request("help one"), 1)), "one");
        assert!(tape.is_over());
    }

    #[test]
    fn another_course_is_noticed() {
        let taped =
            [Message::user("task"), asks("a"), result("a"), asks("b"), of(1, Message::user("help")), of(1, asks("c"))];
        let mut tape = Tape::new(&taped);
        assert_eq!(said(tape.play(Some(0), &request("task"), 1)), "a");
        assert!(said(tape.play(Some(0), &request("task"), 1)).contains("does not bring the results"));
        assert!(said(tape.play(Some(1), &request("help me"), 1)).contains("begins a conversation"));
        let mut tape = Tape::new(&taped);
        assert_eq!(said(tape.play(Some(0), &request("task"), 1)), "a");
        let failed = Message::new(Role::Tool, vec![Part::tool_result("a", "no", true)]);
        assert_eq!(said(tape.play(Some(0), &with_result("task", failed), 1)), "b");
        assert_eq!(tape.differing().collect::<Vec<_>>(), ["write"], "it is only named");
        assert!(said(tape.play(Some(0), &with_result("task", result("b")), 1)).contains("ends there"));
    }
}
