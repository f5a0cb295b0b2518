use serde_json::{Value, json};

use super::*;
use crate::gateway::watch::AnswerOutcome;
use crate::llm::{Part, Response, Stop, ToolSpec};
use pleach_core::event::Usage;

const CALL: Usage =
    Usage { input: 10, cache_read: 0, cache_write: 0, output: 1, reasoning: 0, cache_write_1h: 0, web_searches: 0 };

fn tool() -> ToolSpec {
    ToolSpec {
        name: "write".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        extra: Default::default(),
    }
}

fn request(messages: &[Message]) -> Arc<Request> {
    Arc::new(Request { messages: messages.to_vec(), tools: vec![tool()], model: "m".into(), ..Request::default() })
}

fn asks(id: &str) -> Message {
    Message::new(Role::Assistant, vec![Part::text("I write."), Part::tool_call(id, "write", json!({"path": id}))])
}

fn result(id: &str) -> Message {
    Message::new(Role::Tool, vec![Part::tool_result(id, "done", false)])
}

fn response(message: Message) -> Response {
    Response { message, usage: CALL, model: "m-2".into(), stop: Stop::End, extra: Default::default() }
}

fn spent() -> CallCost {
    CallCost { usage: CALL, cost_usd: Some(0.5), estimated: false }
}

fn answer(conversations: &mut Conversations, flight: u64, message: Message) {
    conversations.finish_call(flight, AnswerOutcome::Whole(Box::new(response(message))), spent(), None);
}

/// Takes a request in and answers it.
fn exchange(conversations: &mut Conversations, messages: &[Message], message: Message) -> MatchedRequest {
    let arrived = conversations.arrive(&request(messages), None).expect("it brings tools");
    answer(conversations, arrived.flight, message);
    arrived
}

#[test]
fn a_turn_is_an_answer_and_what_its_tools_said() {
    let mut conversations = Conversations::default();
    let task = Message::user("task");
    let first = exchange(&mut conversations, std::slice::from_ref(&task), asks("a"));
    assert_eq!((first.conversation, first.ended.len(), first.tries), (0, 0, 1));
    let reminder = Message::user("<reminder>");
    let messages = [task.clone(), asks("a"), result("a"), reminder.clone()];
    let second = exchange(&mut conversations, &messages, Message::assistant("Done."));
    let ended = &second.ended[0];
    assert_eq!((second.conversation, second.ended.len()), (0, 1));
    assert_eq!(ended.opening, std::slice::from_ref(&task));
    assert_eq!(ended.response.as_ref().unwrap().message, asks("a"));
    assert_eq!(ended.results, [result("a"), reminder]);
    assert_eq!((ended.usage, ended.cost_usd, ended.model.as_str()), (CALL, Some(0.5), "m-2"));
    let rest = conversations.report_all();
    assert_eq!((rest.len(), rest[0].opening.len(), rest[0].results.len()), (1, 0, 0), "the last words");
    assert!(conversations.report_all().is_empty(), "nothing is told twice");
}

#[test]
fn a_new_task_in_a_conversation_opens_the_next_turn() {
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("one")], Message::assistant("Done."));
    let messages = [Message::user("one"), Message::assistant("Done."), Message::user("two")];
    let next = exchange(&mut conversations, &messages, Message::assistant("Done as well."));
    assert_eq!((next.conversation, next.ended.len()), (0, 1));
    assert!(next.ended[0].results.is_empty());
    assert_eq!(conversations.report_all()[0].opening, [Message::user("two")]);
}

#[test]
fn a_retry_makes_no_turn_but_is_counted() {
    let mut conversations = Conversations::default();
    let ask = request(&[Message::user("task")]);
    let first = conversations.arrive(&ask, None).unwrap();
    conversations.finish_call(first.flight, AnswerOutcome::Cut(CALL, "cut".into()), spent(), None);
    let second = conversations.arrive(&ask, None).unwrap();
    assert_eq!((second.conversation, second.ended.len(), second.tries), (0, 0, 2));
    conversations.finish_call(second.flight, AnswerOutcome::Refused(429, "slow".into()), CallCost::default(), None);
    let third = conversations.arrive(&ask, None).unwrap();
    assert_eq!(third.tries, 3);
    answer(&mut conversations, third.flight, asks("a"));
    // The client did not like the answer's end.
    let fourth = conversations.arrive(&ask, None).unwrap();
    assert_eq!((fourth.conversation, fourth.ended.len()), (0, 0));
    answer(&mut conversations, fourth.flight, asks("b"));
    let rest = conversations.report_all();
    assert_eq!((rest.len(), rest[0].usage.input), (1, 30), "every try that cost something counts");
    assert_eq!(rest[0].response.as_ref().unwrap().message, asks("b"));
}

#[test]
fn parallel_subagents_have_their_own_conversations() {
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("task")], asks("main"));
    let one = conversations.arrive(&request(&[Message::user("help one")]), None).unwrap();
    let two = conversations.arrive(&request(&[Message::user("help two")]), None).unwrap();
    assert_eq!((one.conversation, two.conversation), (1, 2));
    let ended: Vec<usize> = one.ended.iter().map(|exchange| exchange.conversation).collect();
    assert_eq!((ended, two.ended.len()), (vec![0], 0), "what was done before the first helper is the main call's");
    answer(&mut conversations, two.flight, asks("b"));
    answer(&mut conversations, one.flight, asks("a"));
    let messages = [Message::user("help one"), asks("a"), result("a")];
    let next = exchange(&mut conversations, &messages, Message::assistant("one is done"));
    assert_eq!((next.conversation, next.ended.len(), next.ended[0].conversation), (1, 1, 1));
    let messages = [Message::user("help two"), asks("b"), result("b")];
    let next = exchange(&mut conversations, &messages, Message::assistant("two is done"));
    let ended: Vec<usize> = next.ended.iter().map(|exchange| exchange.conversation).collect();
    assert_eq!((next.conversation, ended), (2, vec![1, 2]), "the first helper's last words are over by now");
    let messages = [Message::user("task"), asks("main"), result("main")];
    let next = exchange(&mut conversations, &messages, Message::assistant("all is done"));
    let ended: Vec<usize> = next.ended.iter().map(|exchange| exchange.conversation).collect();
    assert_eq!((next.conversation, ended), (0, vec![2]));
    assert_eq!(conversations.report_all()[0].opening, [result("main")], "what the tools said opens the next exchange");
}

#[test]
fn an_abandoned_conversation_is_reported_when_the_next_starts() {
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("one")], asks("a"));
    let two = exchange(&mut conversations, &[Message::user("two")], asks("b"));
    assert_eq!((two.conversation, two.ended.len(), two.ended[0].conversation), (1, 1, 0));
    let next = exchange(&mut conversations, &[Message::user("two"), asks("b"), result("b")], asks("c"));
    assert_eq!((next.conversation, next.ended.len(), &next.ended[0].results), (1, 1, &vec![result("b")]));
    let three = exchange(&mut conversations, &[Message::user("three")], Message::assistant("Done."));
    assert_eq!((three.conversation, three.ended.len(), three.ended[0].conversation), (2, 1, 1));
    assert_eq!(conversations.report_all().len(), 1);
    // Those that run side by side are told when they go on, or at the end.
    let (one, two) = (request(&[Message::user("help one")]), request(&[Message::user("help two")]));
    let (one, two) = (conversations.arrive(&one, None).unwrap(), conversations.arrive(&two, None).unwrap());
    answer(&mut conversations, two.flight, asks("y"));
    answer(&mut conversations, one.flight, asks("x"));
    assert!(conversations.arrive(&request(&[Message::user("help three")]), None).unwrap().ended.is_empty());
    let ended: Vec<usize> = conversations.report_all().iter().map(|exchange| exchange.conversation).collect();
    assert_eq!(ended, [3, 4], "in the order of their calls");
}

#[test]
fn subagents_with_equal_prompts_are_two_conversations() {
    let mut conversations = Conversations::default();
    let ask = request(&[Message::user("help")]);
    let (one, two) = (conversations.arrive(&ask, None).unwrap(), conversations.arrive(&ask, None).unwrap());
    assert_eq!((one.conversation, two.conversation), (0, 1));
    answer(&mut conversations, one.flight, Message::assistant("fine"));
    answer(&mut conversations, two.flight, Message::assistant("fine"));
    assert_eq!(conversations.arrive(&request(&[Message::user("else")]), None).unwrap().ended.len(), 2);
    // Once more, later.
    assert_eq!(conversations.arrive(&ask, None).unwrap().conversation, 3);
}

#[test]
fn sessions_keep_conversations_apart() {
    let mut conversations = Conversations::default();
    let one = conversations.arrive(&request(&[Message::user("task")]), Some("s-1")).unwrap();
    answer(&mut conversations, one.flight, asks("a"));
    let next = request(&[Message::user("task"), asks("a"), result("a")]);
    assert_eq!(conversations.arrive(&next, Some("s-2")).unwrap().conversation, 1);
    assert_eq!(conversations.arrive(&next, Some("s-1")).unwrap().conversation, 0);
}

#[test]
fn a_conversation_restarted_with_a_summary_loses_nothing() {
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("task")], asks("a"));
    let messages = [Message::user("task"), asks("a"), result("a"), Message::user("summarise")];
    let summing = exchange(&mut conversations, &messages, Message::assistant("a was written"));
    assert_eq!(summing.ended.len(), 1);
    let anew = exchange(&mut conversations, &[Message::user("a was written; go on")], asks("b"));
    assert_eq!((anew.conversation, anew.ended.len(), anew.ended[0].conversation), (1, 1, 0));
}

fn plain(messages: &[Message]) -> Arc<Request> {
    Arc::new(Request { messages: messages.to_vec(), model: "small".into(), ..Request::default() })
}

#[test]
fn requests_without_tools_are_side_requests() {
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("task")], asks("a"));
    let title = plain(&[Message::user("a title?")]);
    assert!(conversations.arrive(&title, None).is_none());
    let search: Value = json!({"type": "web_search_20250305"});
    let search =
        ToolSpec { parameters: Value::Null, extra: [("anthropic".to_owned(), search)].into_iter().collect(), ..tool() };
    let searching = Arc::new(Request { tools: vec![search], ..(*title).clone() });
    assert!(conversations.arrive(&searching, None).is_none(), "the server runs that tool");
    // The end of a conversation may come without tools; it belongs to it all the same.
    let last = plain(&[Message::user("task"), asks("a"), result("a")]);
    assert_eq!(conversations.arrive(&last, None).unwrap().ended.len(), 1);
}

#[test]
fn requests_without_tools_before_the_task_are_side_calls() {
    let mut conversations = Conversations::default();
    let probe = Arc::new(Request { max_tokens: Some(1), ..(*plain(&[Message::user("quota")])).clone() });
    assert!(conversations.arrive(&probe, None).is_none(), "nobody wants to hear that answer");
    let title = conversations.arrive(&plain(&[Message::user("a title?")]), None).unwrap();
    answer(&mut conversations, title.flight, Message::assistant("Title"));
    let in_flight = conversations.arrive(&plain(&[Message::user("a topic?")]), None).unwrap();
    assert_eq!(in_flight.ended.len(), 0, "whether the title was a conversation is not known yet");
    assert_eq!(conversations.pending(), spent());
    let own = exchange(&mut conversations, &[Message::user("task")], asks("a"));
    assert_eq!((own.conversation, own.ended.len()), (0, 0), "the agent's own is the first");
    answer(&mut conversations, in_flight.flight, Message::assistant("Topic"));
    let (aside, _) = conversations.spending.take_side_calls("p");
    assert_eq!((aside.len(), aside[0].purpose.as_str(), aside[0].model.as_str()), (1, "aside", "small"));
    assert_eq!(aside[0].token_usage.input, 20, "both were paid for");
    assert_eq!(conversations.report_all().len(), 1);
}

#[test]
fn an_agent_without_tools_has_conversations() {
    let mut conversations = Conversations::default();
    let one = Message::user("one");
    let first = conversations.arrive(&plain(std::slice::from_ref(&one)), None).unwrap();
    answer(&mut conversations, first.flight, Message::assistant("First."));
    let goes_on = plain(&[one.clone(), Message::assistant("First."), Message::user("two")]);
    let second = conversations.arrive(&goes_on, None).unwrap();
    assert_eq!((second.conversation, second.ended.len(), second.ended[0].usage), (0, 1, CALL));
    assert_eq!(second.ended[0].opening, [one]);
    answer(&mut conversations, second.flight, Message::assistant("Second."));
    let other = conversations.arrive(&plain(&[Message::user("words for a commit")]), None).unwrap();
    assert_eq!((other.conversation, other.ended.len()), (1, 1), "each call ends what came before it");
    answer(&mut conversations, other.flight, Message::assistant("Add it"));
    assert_eq!(conversations.report_all()[0].response.as_ref().unwrap().message.text(), "Add it");
}

#[test]
fn an_agent_without_follow_ups_still_has_turns() {
    let mut conversations = Conversations::default();
    let ended: Vec<usize> = (0..6)
        .map(|number| {
            let arrived = conversations.arrive(&plain(&[Message::user(format!("question {number}"))]), None).unwrap();
            answer(&mut conversations, arrived.flight, Message::assistant("Yes."));
            arrived.ended.len()
        })
        .collect();
    assert_eq!(ended, [0, 0, 0, 3, 1, 1]);
    assert_eq!(conversations.report_all().len(), 1);
    // A single one is told at the end.
    let mut conversations = Conversations::default();
    let only = conversations.arrive(&plain(&[Message::user("question")]), None).unwrap();
    answer(&mut conversations, only.flight, Message::assistant("Yes."));
    let rest = conversations.report_all();
    assert_eq!((rest.len(), rest[0].opening.len(), rest[0].usage), (1, 1, CALL));
}

#[test]
fn a_request_may_name_the_answer_it_continues() {
    let mut conversations = Conversations::default();
    let named = |messages: &[Message], id: &str| {
        let extra = [("openai".to_owned(), json!({"previous_response_id": id}))].into_iter().collect();
        Arc::new(Request { extra, ..(*request(messages)).clone() })
    };
    let mut say = |request: &Arc<Request>, id: &str, message: Message| {
        let arrived = conversations.arrive(request, None).unwrap();
        let extra = [("openai".to_owned(), json!({"id": id}))].into_iter().collect();
        let response = Response { extra, ..response(message) };
        conversations.finish_call(arrived.flight, AnswerOutcome::Whole(Box::new(response)), spent(), None);
        arrived
    };
    say(&request(&[Message::user("task")]), "r-1", asks("a"));
    let second = say(&named(&[result("a")], "r-1"), "r-2", asks("b"));
    assert_eq!((second.conversation, second.ended.len()), (0, 1));
    assert_eq!(second.ended[0].results, [result("a")]);
    let other = say(&named(&[Message::user("go on")], "r-0"), "r-9", asks("z"));
    assert_eq!((other.conversation, other.ended.len()), (1, 1), "nobody here knows that answer");
    let third = say(&named(&[result("b")], "r-2"), "r-3", Message::assistant("Done."));
    assert_eq!((third.conversation, third.ended.len()), (0, 0), "it was told when the other one began");
    // After its last words were told, for the next task.
    say(&request(&[Message::user("helper")]), "r-10", asks("y"));
    let fourth = say(&named(&[Message::user("more")], "r-3"), "r-4", asks("c"));
    assert_eq!((fourth.conversation, fourth.tries), (0, 1));
}

#[test]
fn unreported_spending_is_pending() {
    let mut conversations = Conversations::default();
    assert_eq!(conversations.pending(), CallCost::default());
    exchange(&mut conversations, &[Message::user("one")], asks("a"));
    assert_eq!(conversations.pending(), spent());
    // A client that tells its story anew each time.
    exchange(&mut conversations, &[Message::user("one, and a was written")], asks("b"));
    let two = request(&[Message::user("one, and a was written"), asks("b"), result("b")]);
    let two = conversations.arrive(&two, None).unwrap();
    let ask = request(&[Message::user("three")]);
    let cut = conversations.arrive(&ask, None).unwrap();
    answer(&mut conversations, two.flight, asks("c"));
    conversations.finish_call(cut.flight, AnswerOutcome::Cut(CALL, "cut".into()), spent(), None);
    conversations.arrive(&ask, None).unwrap();
    assert_eq!(conversations.pending().usage.input, 20, "an answer and a try");
    assert_eq!(conversations.report_all().len(), 1);
    assert_eq!(
        (conversations.pending(), conversations.spending.take_side_calls("p").0[0].token_usage),
        (CallCost::default(), CALL)
    );
}

#[test]
fn usage_after_the_last_word_is_counted() {
    let mut conversations = Conversations::default();
    let first = conversations.arrive(&request(&[Message::user("task")]), None).unwrap();
    let early = CallCost::default();
    conversations.answered(first.flight, response(asks("a")), early);
    // The next request is here before the stream of the answer has ended.
    let next = conversations.arrive(&request(&[Message::user("task"), asks("a"), result("a")]), None).unwrap();
    assert_eq!((next.conversation, next.ended.len(), next.ended[0].usage), (0, 1, Usage::default()));
    conversations.finish_call(first.flight, AnswerOutcome::Whole(Box::new(response(asks("a")))), spent(), Some(early));
    let (late, _) = conversations.spending.take_side_calls("p");
    assert_eq!((late.len(), late[0].token_usage, late[0].cost_usd), (1, CALL, Some(0.5)));
    assert_eq!((late[0].purpose.as_str(), late[0].model.as_str(), late[0].provider.as_str()), ("late", "m", "p"));
    conversations.answered(next.flight, response(Message::assistant("Done.")), early);
    conversations.finish_call(next.flight, AnswerOutcome::Cut(CALL, "gone".into()), spent(), Some(early));
    assert_eq!(conversations.report_all()[0].usage, CALL, "nobody was told of it yet");
}

#[test]
fn an_unreadable_answer_is_a_turn_with_a_warning() {
    let mut conversations = Conversations::default();
    let first = conversations.arrive(&request(&[Message::user("task")]), None).unwrap();
    conversations.finish_call(
        first.flight,
        AnswerOutcome::Counted(CALL, "it is too long to be kept".into()),
        spent(),
        None,
    );
    let next = conversations.arrive(&request(&[Message::user("task"), asks("a"), result("a")]), None).unwrap();
    assert_eq!((next.conversation, next.ended.len()), (0, 1));
    assert_eq!((&next.ended[0].response, next.ended[0].usage), (&None, CALL));
    assert!(conversations.spending.take_side_calls("p").1[0].text.contains("too long to be kept"));
}

#[test]
fn google_gives_calls_no_ids() {
    let call = |number: &str| {
        let mut part = Part::tool_call(format!("call_{number}"), "write", json!({"path": "x"}));
        if let Part::ToolCall { extra, .. } = &mut part {
            extra.insert("gemini".into(), json!({"no_id": true}));
        }
        Message::new(Role::Assistant, vec![part])
    };
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("task")], call("0"));
    let next = conversations.arrive(&request(&[Message::user("task"), call("1_0"), result("")]), None).unwrap();
    assert_eq!((next.conversation, next.ended.len()), (0, 1));
}

#[test]
fn a_late_answer_to_a_retried_request_is_counted() {
    let mut conversations = Conversations::default();
    exchange(&mut conversations, &[Message::user("task")], asks("a"));
    let again = request(&[Message::user("task"), asks("a"), result("a")]);
    let first = conversations.arrive(&again, None).unwrap();
    // The client does not wait any longer; the answer is read to its end without it.
    let second = conversations.arrive(&again, None).unwrap();
    assert_eq!((second.conversation, second.tries), (first.conversation, 2), "or this tests nothing");
    conversations.answered(first.flight, response(asks("b")), spent());
    conversations.finish_call(
        first.flight,
        AnswerOutcome::Whole(Box::new(response(asks("b")))),
        spent(),
        Some(spent()),
    );
    let (aside, _) = conversations.spending.take_side_calls("p");
    assert_eq!(aside.iter().map(|call| call.token_usage.input).sum::<u64>(), 10, "{aside:?}");
    assert_eq!(aside[0].model, "m-2");
}
