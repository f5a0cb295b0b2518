//! Keeping a conversation within what its model takes. What is recorded stays whole: a mark in the conversation says
//! which old outputs of tools are left out of what is sent, so a resumed run sends the same.

use pleach_core::text::counted;
use serde_json::{Value, json};

use crate::llm::{Message, Part};

/// From which share of the model's context on room is made.
pub(super) const FULL: f64 = 0.8;

/// The context of an unknown model, in tokens.
const USUAL: u64 = 200_000;

/// The most that is made use of, in tokens: with every call the whole conversation is paid for again.
const MOST: u64 = 400_000;

/// The share of the context the newest outputs may fill after room was made.
const KEPT: f64 = 0.25;

/// The share of the context that must be won for it to be worth a turn.
const WORTH: f64 = 0.1;

/// Outputs and arguments up to so many bytes stay.
const SHORT: usize = 400;

/// How many characters of ASCII count as a token. Of other scripts about each one is.
const CHARS: usize = 4;

/// The field of the mark.
const ELIDED: &str = "elided";

/// How much of a model's context is made use of, in tokens.
pub(super) fn usable(known: Option<u64>) -> u64 {
    known.unwrap_or(USUAL).min(MOST)
}

/// The conversation as it is sent: without the outputs that were elided, and long arguments of their calls.
pub(super) fn sent(messages: &[Message]) -> Vec<Message> {
    let elided = elided(messages);
    let (mut calls, mut results) = (0, 0);
    let mut sent = messages.to_vec();
    for part in sent.iter_mut().flat_map(|message| &mut message.content) {
        match part {
            Part::ToolCall { arguments, .. } => {
                calls += 1;
                if calls <= elided {
                    elide_texts(arguments);
                }
            }
            Part::ToolResult { content, .. } => {
                results += 1;
                if results <= elided && content.len() > SHORT {
                    *content = note(content, "run the tool again if you need them");
                }
            }
            _ => {}
        }
    }
    sent
}

/// About how many tokens a conversation has, as it is sent.
pub(super) fn tokens(messages: &[Message]) -> f64 {
    let said = |message: &Message| serde_json::to_string(&message.content).map_or(0, |text| weight(&text));
    sent(messages).iter().map(said).sum::<usize>() as f64
}

/// About how many tokens a text has.
fn weight(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    ascii / CHARS + text.chars().filter(|c| !c.is_ascii()).count()
}

/// The mark that makes room in a conversation for a model with a context of so many tokens, and how many outputs it
/// elides; none where that would not be worth it.
pub(super) fn make_room(messages: &[Message], context: f64) -> Option<(Message, usize)> {
    let sizes: Vec<usize> = results(messages).map(weight).collect();
    let room = context * KEPT;
    let mut kept = 0.0;
    let fits = |size: &&usize| {
        kept += **size as f64;
        kept <= room
    };
    // What the model has just asked for it is to see.
    let keep = sizes.iter().rev().take_while(fits).count().max(1);
    let count = sizes.len().saturating_sub(keep);
    let mut mark = Message::steering(format!(
        "To make room, the older outputs of tools are left out of this conversation from here on, all but the last \
         {keep}. Run a tool again where you need its output."
    ));
    mark.extra.insert(ELIDED.into(), json!({"keep": keep}));
    let mut marked = messages.to_vec();
    marked.push(mark.clone());
    let won = tokens(messages) - tokens(&marked);
    (won >= context * WORTH).then(|| (mark, count - elided(messages).min(count)))
}

fn results(messages: &[Message]) -> impl Iterator<Item = &str> {
    messages.iter().flat_map(|message| &message.content).filter_map(|part| match part {
        Part::ToolResult { content, .. } => Some(content.as_str()),
        _ => None,
    })
}

/// How many outputs are elided, from the first on.
fn elided(messages: &[Message]) -> usize {
    let (mut seen, mut most) = (0_usize, 0);
    for message in messages {
        let keep = message.extra.get(ELIDED).and_then(|mark| mark.get("keep")?.as_u64());
        if let Some(keep) = keep {
            most = most.max(seen.saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX)));
        }
        seen += results(std::slice::from_ref(message)).count();
    }
    most
}

fn elide_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > SHORT => *text = note(text, "they were given to the tool"),
        Value::Array(items) => items.iter_mut().for_each(elide_texts),
        Value::Object(fields) => fields.values_mut().for_each(elide_texts),
        _ => {}
    }
}

fn note(text: &str, how: &str) -> String {
    format!("[elided: {}; {how}]", counted(text.chars().count(), "character"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_of_another_script_counts_as_a_token() {
        assert_eq!(weight(&"word".repeat(100)), 100);
        assert_eq!(weight(&"木".repeat(100)), 100);
    }
    use crate::llm::Role;

    fn turn(id: usize, size: usize) -> [Message; 2] {
        let call = Part::tool_call(id.to_string(), "write_file", json!({"content": "c".repeat(size)}));
        let result = Part::tool_result(id.to_string(), "r".repeat(size), false);
        [Message::new(Role::Assistant, vec![call]), Message::new(Role::Tool, vec![result])]
    }

    #[test]
    fn old_outputs_are_elided_and_the_newest_stay() {
        let mut messages = vec![Message::user("task")];
        messages.extend((0..10).flat_map(|id| turn(id, 4_000)));
        assert_eq!(sent(&messages), messages);
        let (mark, count) = make_room(&messages, 16_000.0).unwrap();
        assert_eq!(count, 6, "a quarter of 16000 tokens is four outputs of 1000");
        messages.push(mark);
        let after = sent(&messages);
        let lengths: Vec<usize> = results(&after).map(str::len).collect();
        assert!(lengths[..6].iter().all(|length| *length < 100) && lengths[6..] == [4_000; 4], "{lengths:?}");
        let argument = |at: usize| after[at].content[0].clone();
        assert!(
            matches!(argument(1), Part::ToolCall { arguments, .. } if arguments["content"].as_str().unwrap().len() < 100)
        );
        assert!(
            matches!(argument(19), Part::ToolCall { arguments, .. } if arguments["content"].as_str().unwrap().len() == 4_000)
        );
        // What follows stays, and what was elided stays so.
        messages.extend(turn(10, 4_000));
        let longer = sent(&messages);
        assert_eq!(longer[..after.len()], after);
        assert_eq!(make_room(&messages, 24_000.0), None, "what can be won is not worth it");
    }

    #[test]
    fn the_newest_tool_outputs_are_kept() {
        let messages: Vec<Message> = turn(0, 40_000).to_vec();
        assert_eq!(make_room(&messages, 1_000.0), None);
        assert_eq!((usable(None), usable(Some(32_000)), usable(Some(1_000_000))), (USUAL, 32_000, MOST));
    }
}
