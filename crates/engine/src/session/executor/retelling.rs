//! What an agent is told of its own work when it cannot continue its conversation.

use std::path::Path;

use agents::llm::{Message, Part, Role};
use pleach_core::state::{Position, State};
use pleach_core::text::{counted, shorten};

/// How many characters of its words in a turn it is told.
const WORDS: usize = 1_000;

/// How many characters of what each tool was given.
const TOOL: usize = 200;

/// How many characters in all. The newest turns are told.
const WHOLE: usize = 8_000;

/// The story of the turns so far.
pub(super) struct Retelling {
    /// For the prompt.
    pub text: String,
    /// All that was said, for a file, where the text leaves some out.
    pub whole: Option<String>,
}

/// Tells what was said and done in these messages; `file` is where the whole of it will be.
pub(super) fn tell(said: &[Message], state: &State, file: Option<&Path>) -> Retelling {
    let turns = match &state.position {
        Position::Running { turns, .. } => turns.len(),
        _ => 0,
    };
    let parts: Vec<String> = said.iter().filter(|message| message.conversation() == 0).filter_map(part).collect();
    let (mut told, mut length) = (Vec::new(), 0);
    for part in parts.iter().rev() {
        length += part.chars().count();
        if length > WHOLE {
            break;
        }
        told.push(part.as_str());
    }
    let left = parts.len() - told.len();
    told.reverse();
    let mut text = format!("What was done so far, in {}:\n", counted(turns as u64, "turn"));
    if left > 0 {
        text.push_str(&format!("({left} earlier steps are left out)\n"));
    }
    text.push_str(&told.join("\n"));
    let whole = file.map(|_| said.iter().map(whole).collect::<Vec<_>>().join("\n\n"));
    if let Some(file) = file {
        text.push_str(&format!("\n\nAll of it, with what the tools answered, is in {}.", file.display()));
    }
    Retelling { text, whole }
}

/// What an answer said, and which tools it used.
fn part(message: &Message) -> Option<String> {
    if message.role != Role::Assistant {
        return None;
    }
    let words = shorten(message.text().trim(), WORDS);
    let calls = message.tool_calls().map(|(_, name, arguments)| {
        let given = shorten(&arguments.to_string(), TOOL);
        format!("  {name} {given}")
    });
    let lines: Vec<String> = (!words.is_empty()).then(|| format!("- {words}")).into_iter().chain(calls).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A message in full.
fn whole(message: &Message) -> String {
    let part = |part: &Part| match part {
        Part::ToolCall { name, arguments, .. } => Some(format!("{name} {arguments}")),
        Part::ToolResult { content, .. } => Some(content.clone()),
        _ => None,
    };
    let parts = message.content.iter().filter_map(part);
    let words = Some(message.text()).filter(|text| !text.is_empty());
    let all: Vec<String> = words.into_iter().chain(parts).collect();
    format!("## {:?}\n\n{}", message.role, all.join("\n\n"))
}
