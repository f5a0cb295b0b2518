//! The output of agents while they work, for `-v`.

use agents::llm::{Message, Part, Role};
use pleach_core::event::Event;
use serde::Deserialize as _;
use serde_json::Value;

use super::session::{headline, part};
use crate::globals::Globals;
use crate::say;

/// Shows what agents say and what they wait for, as far as the global options ask for it.
#[derive(Debug)]
pub struct AgentOutput {
    /// Their words and tool calls.
    words: bool,
    /// All of them.
    whole: bool,
    /// What they wait for.
    waits: bool,
}

impl AgentOutput {
    /// As the global options ask.
    pub fn new(globals: &Globals) -> Self {
        let (shown, verbosity) = (!globals.json, globals.verbosity);
        Self { words: shown && verbosity > 0, whole: verbosity > 1, waits: shown && verbosity >= 0 }
    }

    /// Takes one event. `branch` is what lines of its context begin with.
    pub fn hear(&self, event: &Event, branch: &str) {
        match event {
            Event::AgentSpoke(spoke) if self.words => {
                let message = Message::deserialize(&spoke.message);
                message.iter().flat_map(|message| spoken(message, self.whole)).for_each(|line| say!("{branch}{line}"));
            }
            Event::AgentWaits(waits) if self.waits => say::wait(waits.why.as_deref()),
            _ => {}
        }
    }
}

/// The most characters of a tool's arguments that are shown.
const ARGUMENTS: usize = 100;

/// The lines a message is shown as: the words and tool calls of an agent, with `whole` its thoughts and what the tools
/// answered as well.
fn spoken(message: &Message, whole: bool) -> Vec<String> {
    let lines = message.content.iter().filter_map(|content| match content {
        Part::Text { text, .. } if text.trim().is_empty() => None,
        Part::Text { .. } if message.role == Role::Assistant => Some(part(content, whole)),
        Part::ToolCall { name, arguments, .. } if !whole => Some(called(name, arguments)),
        Part::ToolCall { .. } => Some(part(content, whole)),
        Part::ToolResult { .. } | Part::Thinking { .. } if whole => Some(part(content, whole)),
        _ => None,
    });
    lines.flat_map(|text| text.lines().map(|line| format!("  │ {line}")).collect::<Vec<_>>()).collect()
}

/// `→ shell cargo test`, `→ edit_file {"path":…}`: the one thing a tool is given, or all of it.
fn called(name: &str, arguments: &Value) -> String {
    let only = arguments.as_object().filter(|given| given.len() == 1).and_then(|given| given.values().next()?.as_str());
    let given = only.map_or_else(|| arguments.to_string(), str::to_owned);
    format!("→ {name} {}", headline(&given, ARGUMENTS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_calls_are_shown_and_prompts_are_not() {
        let call =
            |arguments| Part::ToolCall { id: "1".into(), name: "shell".into(), arguments, extra: Default::default() };
        let mut said = Message::assistant("I look.\nAt it.");
        said.content.push(call(json!({"command": "make\ntest"})));
        said.content.push(call(json!({"a": 1, "b": 2})));
        let expected = ["  │ I look.", "  │ At it.", "  │ → shell make …", "  │ → shell {\"a\":1,\"b\":2}"];
        assert_eq!(spoken(&said, false), expected);
        assert!(spoken(&Message::user("Work"), true).is_empty());
    }
}
