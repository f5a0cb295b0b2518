//! Noticing an agent that goes in circles.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::llm::{Message, Part};

/// The longest cycle that is looked for.
const LONGEST: usize = 3;

/// What to do about the agent's newest tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// Nothing to see.
    None,
    /// It goes in circles: tell it.
    Steer(String),
    /// It was warned and continues.
    Stuck(String),
}

/// The mark of a remark about going in circles.
pub(super) const MARK: &str = "You are repeating yourself";

/// Looks at what an agent did since its task. It only needs the messages, so a resumed run finds the same.
pub(super) fn look(after_task: &[Message], window: usize) -> Finding {
    if window < 2 {
        return Finding::None;
    }
    let mut calls: Vec<AnsweredCall<'_>> = Vec::new();
    let mut told_at = None;
    for message in after_task {
        if message.is_steering() && message.text().starts_with(MARK) {
            told_at = Some(calls.len());
        }
        calls.extend(message.tool_calls().map(|(id, name, arguments)| AnsweredCall {
            id,
            name,
            arguments,
            answer: None,
        }));
        for part in &message.content {
            let Part::ToolResult { id: of, content, .. } = part else { continue };
            // Ids may come again: the newest call of one is meant.
            if let Some(call) = calls.iter_mut().rev().find(|call| call.id == of) {
                call.answer = Some(content);
            }
        }
    }
    let signatures: Vec<u64> = calls.iter().map(AnsweredCall::signature).collect();
    let Some(length) = cycle(&signatures, window) else { return Finding::None };
    let names: Vec<&str> = calls[calls.len() - length..].iter().map(|call| call.name).collect();
    let what = format!("the last {window} tool calls repeat {} without end", names.join(", "));
    match told_at.map(|at| calls.len() - at) {
        // One whole cycle is the time it has to react.
        Some(since) if since < LONGEST => Finding::None,
        Some(since) if since < window => Finding::Stuck(what),
        _ => Finding::Steer(format!(
            "{MARK}: {what}. Stop and think: what do you still need, and what else could you try? If you cannot get \
             further, say so and why."
        )),
    }
}

/// A call of a tool and what it answered: the same command with another output is no circle.
struct AnsweredCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Value,
    answer: Option<&'a str>,
}

impl AnsweredCall<'_> {
    fn signature(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.name, self.arguments.to_string(), self.answer).hash(&mut hasher);
        hasher.finish()
    }
}

/// The length of the cycle that fills the last `window` calls. A window that is no multiple of the length is shortened
/// to the largest one that is.
fn cycle(calls: &[u64], window: usize) -> Option<usize> {
    let recent = &calls[calls.len().checked_sub(window)?..];
    (1..=LONGEST.min(window / 2)).find(|length| {
        let part = &recent[window % length..];
        part.iter().zip(&part[*length..]).all(|(one, next)| one == next)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::Role;

    #[test]
    fn cycles_of_one_two_and_three_are_found() {
        for length in 1..=3u64 {
            let calls: Vec<u64> = (0..10).map(|n| n % length).collect();
            assert_eq!(cycle(&calls, 10), Some(length as usize));
            assert_eq!(cycle(&calls[1..], 10), None, "nine calls are too few");
            let mut broken = calls.clone();
            broken[5] = 99;
            assert_eq!(cycle(&broken, 10), None);
        }
        let four: Vec<u64> = (0..10).map(|n| n % 4).collect();
        assert_eq!(cycle(&four, 10), None);
    }

    #[test]
    fn only_the_newest_calls_are_checked_for_loops() {
        let mut calls = vec![7; 30];
        calls.push(8);
        assert_eq!(cycle(&calls, 10), None);
        calls.extend([1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(cycle(&calls, 10), Some(3), "the oldest of the ten is not part of it");
    }

    fn turn(argument: u32) -> [Message; 2] {
        answered(argument, "same")
    }

    fn answered(argument: u32, answer: &str) -> [Message; 2] {
        let call = Part::tool_call("1", "read_file", json!({"file_path": argument}));
        [
            Message::new(Role::Assistant, vec![call]),
            Message::new(Role::Tool, vec![Part::tool_result("1", answer, false)]),
        ]
    }

    #[test]
    fn a_different_answer_is_not_a_loop() {
        let waits: Vec<Message> = (0..30).flat_map(|n| answered(1, &format!("{n} of 30 done"))).collect();
        assert_eq!(look(&waits, 10), Finding::None);
    }

    #[test]
    fn a_loop_is_warned_about_once_then_fails() {
        let mut messages: Vec<Message> = Vec::new();
        for _ in 0..9 {
            messages.extend(turn(1));
            assert_eq!(look(&messages, 10), Finding::None);
        }
        messages.extend(turn(1));
        let Finding::Steer(text) = look(&messages, 10) else { panic!("ten equal calls are a circle") };
        messages.push(Message::steering(text));
        for _ in 0..2 {
            messages.extend(turn(1));
            assert_eq!(look(&messages, 10), Finding::None, "it has a moment to react");
        }
        let mut other = messages.clone();
        messages.extend(turn(1));
        assert!(matches!(look(&messages, 10), Finding::Stuck(_)));

        other.extend(turn(2));
        for _ in 0..9 {
            assert_eq!(look(&other, 10), Finding::None);
            other.extend(turn(1));
        }
        other.extend(turn(1));
        assert!(matches!(look(&other, 10), Finding::Steer(_)), "a new circle is a new remark");
    }
}
