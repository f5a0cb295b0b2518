//! Answering an agent from the record. A program that keeps no session is run again from where its node began; the
//! calls it made before are answered as they were, until what is recorded is used up and it is live again.

use std::collections::{BTreeMap, VecDeque};

use crate::llm::{Message, Request, Response, Role, Stop};
use pleach_core::event::Usage;

/// What one conversation has on record.
#[derive(Debug, Default)]
struct RecordedConversation {
    opening: Vec<String>,
    answers: VecDeque<Message>,
    taken: bool,
}

/// What is on record of an agent's conversations.
#[derive(Debug, Default)]
pub(super) struct Replay {
    conversations: Vec<RecordedConversation>,
    /// The record of each live conversation; none for those that are new.
    playing: BTreeMap<usize, Option<usize>>,
    /// The newest answer given in each, for when a call is repeated.
    given: BTreeMap<usize, Message>,
}

impl Replay {
    /// The conversations of recorded messages.
    pub(super) fn new(messages: &[Message]) -> Self {
        let mut replay: BTreeMap<usize, RecordedConversation> = BTreeMap::new();
        // Half an answer is none.
        for message in messages.iter().filter(|message| !message.is_broken_off()) {
            let recorded = replay.entry(message.conversation()).or_default();
            match message.role {
                Role::Assistant => recorded.answers.push_back(message.clone()),
                _ if recorded.answers.is_empty() => recorded.opening.push(message.text()),
                _ => {}
            }
        }
        Self { conversations: replay.into_values().collect(), ..Self::default() }
    }

    /// The recorded answer to a call, if there is one. `tries` says how often this very call came.
    pub(super) fn answer(&mut self, conversation: usize, request: &Request, tries: u32) -> Option<Box<Response>> {
        if tries > 1 {
            return self.given.get(&conversation).map(|message| response(message.clone()));
        }
        self.given.remove(&conversation);
        let recorded = match self.playing.get(&conversation) {
            Some(recorded) => *recorded,
            // A request without tools may turn out to be a side call; the number is free again then.
            None if request.tools.is_empty() => {
                let recorded = self.find_plain(request)?;
                self.playing.insert(conversation, Some(recorded));
                Some(recorded)
            }
            None => {
                let recorded = self.find(conversation, request);
                self.playing.insert(conversation, recorded);
                recorded
            }
        };
        let message = self.conversations[recorded?].answers.pop_front()?;
        self.given.insert(conversation, message.clone());
        Some(response(message))
    }

    /// The record for a new conversation: one that began alike; for the agent's own, its own.
    fn find(&mut self, conversation: usize, request: &Request) -> Option<usize> {
        let opening: Vec<String> = request.messages.iter().map(Message::text).collect();
        let free = |recorded: &RecordedConversation| !recorded.taken;
        let found = self.conversations.iter().position(|recorded| free(recorded) && recorded.opening == opening);
        let found =
            found.or_else(|| (conversation == 0 && self.conversations.first().is_some_and(free)).then_some(0))?;
        self.conversations[found].taken = true;
        Some(found)
    }

    /// The record for a new conversation without tools: one that began alike and called none. A looser match could
    /// answer a title with the agent's own answer.
    fn find_plain(&mut self, request: &Request) -> Option<usize> {
        let opening: Vec<String> = request.messages.iter().map(Message::text).collect();
        let plain = |recorded: &RecordedConversation| {
            recorded.answers.iter().all(|answer| answer.tool_calls().next().is_none())
        };
        let found = self
            .conversations
            .iter()
            .position(|recorded| !recorded.taken && recorded.opening == opening && plain(recorded))?;
        self.conversations[found].taken = true;
        Some(found)
    }

    /// Whether the record is used up.
    pub(super) fn is_over(&self) -> bool {
        self.conversations.iter().all(|recorded| recorded.answers.is_empty())
    }
}

/// A recorded answer. It was paid for when it was recorded.
fn response(message: Message) -> Box<Response> {
    let stop = if message.tool_calls().next().is_some() { Stop::ToolCalls } else { Stop::End };
    let extra = Default::default();
    Box::new(Response { message, usage: Usage::default(), model: String::new(), stop, extra })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::{Part, ToolSpec};

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

    fn said(answer: Option<Box<Response>>) -> Option<String> {
        let message = answer?.message;
        let call = message.tool_calls().next().map(|(id, _, _)| id.to_owned());
        Some(call.unwrap_or_else(|| message.text()))
    }

    #[test]
    fn recorded_calls_are_replayed_until_the_record_ends() {
        let result = Message::new(Role::Tool, vec![Part::tool_result("a", "ok", false)]);
        let mut replay = Replay::new(&[Message::user("task"), asks("a"), result, asks("b")]);
        assert!(!replay.is_over());
        // The task may read differently now: a path in it, the date.
        assert_eq!(said(replay.answer(0, &request("task, today"), 1)).as_deref(), Some("a"));
        assert_eq!(said(replay.answer(0, &request("task, today"), 2)).as_deref(), Some("a"), "the same again");
        assert_eq!(said(replay.answer(0, &request("…"), 1)).as_deref(), Some("b"));
        assert!(replay.is_over());
        assert_eq!(said(replay.answer(0, &request("…"), 1)), None);
        assert_eq!(said(replay.answer(0, &request("…"), 2)), None, "live calls are asked again live");
        assert!(Replay::new(&[]).is_over());
    }

    #[test]
    fn requests_without_tools_replay_only_such_records() {
        let mut replay = Replay::new(&[Message::user("task"), asks("a")]);
        assert_eq!(said(replay.answer(0, &plain("task"), 1)), None, "a title of the same words");
        assert_eq!(said(replay.answer(0, &request("task"), 1)).as_deref(), Some("a"));
        let mut replay = Replay::new(&[Message::user("task"), Message::assistant("fine")]);
        assert_eq!(said(replay.answer(0, &plain("another"), 1)), None);
        assert_eq!(said(replay.answer(0, &plain("task"), 1)).as_deref(), Some("fine"));
        assert_eq!(said(replay.answer(0, &plain("task"), 2)).as_deref(), Some("fine"), "the same again");
    }

    #[test]
    fn subagents_replay_their_own_record_in_any_order() {
        let mut replay = Replay::new(&[
            Message::user("task"),
            asks("main"),
            of(1, Message::user("help one")),
            of(1, Message::assistant("one")),
            of(2, Message::user("help two")),
            of(2, Message::assistant("two")),
        ]);
        assert_eq!(said(replay.answer(0, &request("task"), 1)).as_deref(), Some("main"));
        assert_eq!(said(replay.answer(1, &request("help two"), 1)).as_deref(), Some("two"));
        assert_eq!(said(replay.answer(2, &request("help one"), 1)).as_deref(), Some("one"));
        assert_eq!(said(replay.answer(3, &request("help three"), 1)), None);
        assert!(replay.is_over());
    }
}
