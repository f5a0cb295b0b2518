//! Messages as conversations and records hold them. Reading and writing one loses nothing: fields and parts this pleach
//! does not know are kept as they came.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use pleach_core::event::Extra;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The rules of the conversation.
    System,
    /// Who gives the task.
    User,
    /// The model.
    Assistant,
    /// The tools' answers.
    Tool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author of a message.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Part>,
    /// Fields of a newer writer, and marks pleach sets itself.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A piece of a message. In JSON an object whose `type` names the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", remote = "Self")]
pub enum Part {
    /// Words.
    Text {
        /// The words.
        text: String,
        /// Fields of a newer writer.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The model asks for a tool.
    ToolCall {
        /// Ties the call to its result.
        id: String,
        /// The tool.
        name: String,
        /// What it is given.
        arguments: Value,
        /// Fields of a newer writer.
        #[serde(flatten)]
        extra: Extra,
    },
    /// What a tool answered.
    ToolResult {
        /// The call's id.
        id: String,
        /// The answer.
        content: String,
        /// Whether the answer says that the tool failed.
        is_error: bool,
        /// Fields of a newer writer.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The model thinks aloud.
    Thinking {
        /// The thoughts.
        text: String,
        /// The provider's seal, given back to it word for word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Fields of a newer writer.
        #[serde(flatten)]
        extra: Extra,
    },
    /// A kind this pleach does not know, as it came.
    #[serde(untagged)]
    Unknown(Value),
}

// The derived reader would take a known kind with a missing field for an unknown one; this one says what is wrong.
impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let value = Value::deserialize(deserializer)?;
        let kind = value.get("type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| D::Error::custom("a part of a message has no `type`"))?.to_owned();
        match Self::deserialize(value).map_err(D::Error::custom)? {
            Self::Unknown(_) if ["text", "tool_call", "tool_result", "thinking"].contains(&kind.as_str()) => {
                Err(D::Error::custom(format!("a `{kind}` part of a message lacks a field")))
            }
            part => Ok(part),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl Part {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), extra: Extra::new() }
    }

    /// A call of a tool.
    pub fn tool_call(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self::ToolCall { id: id.into(), name: name.into(), arguments, extra: Extra::new() }
    }

    /// A tool's answer.
    pub fn tool_result(id: impl Into<String>, content: impl Into<String>, is_error: bool) -> Self {
        Self::ToolResult { id: id.into(), content: content.into(), is_error, extra: Extra::new() }
    }
}

/// The field of a task with the description of the step it belongs to.
const ABOUT: &str = "about";

/// The mark of a user message that does not come from the user.
const STEERING: &str = "steering";

/// The field that marks an answer that is no good: the words of a program that failed, half an answer of a model.
const FAILED: &str = "failed";

/// The field that marks an answer of a program's model that broke off.
const BROKEN_OFF: &str = "broken_off";

/// The field that marks what is said in a subagent's conversation, with its number.
const CONVERSATION: &str = "talk";

impl Message {
    /// A message of these parts.
    pub fn new(role: Role, content: Vec<Part>) -> Self {
        Self { role, content, extra: Extra::new() }
    }

    /// A task in words.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Part::text(text)])
    }

    /// The same with the description of the step the task belongs to, which goes to the model with the task.
    #[must_use]
    pub fn about(mut self, step: &str) -> Self {
        self.extra.insert(ABOUT.into(), step.into());
        self
    }

    /// Puts the description of its step before the words of a task.
    pub(crate) fn include_about(&mut self) {
        if let Some(step) = self.extra.get(ABOUT).and_then(Value::as_str) {
            self.content.insert(0, Part::text(step));
        }
    }

    /// A model's answer in words.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Part::text(text)])
    }

    /// A remark to the model while it works. It goes to the model as a user's, but no task starts with it.
    pub fn steering(text: impl Into<String>) -> Self {
        let mut message = Self::user(text);
        message.extra.insert(STEERING.into(), json!(true));
        message
    }

    /// Whether this is a remark made with [`Message::steering`].
    pub fn is_steering(&self) -> bool {
        self.extra.get(STEERING) == Some(&Value::Bool(true))
    }

    /// Whether a task starts here.
    pub fn is_prompt(&self) -> bool {
        self.role == Role::User && !self.is_steering()
    }

    /// All its words, without thoughts and tools.
    pub fn text(&self) -> String {
        let words = |part: &Part| match part {
            Part::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.content.iter().filter_map(words).collect::<Vec<_>>().join("\n")
    }

    /// Whether it is an assistant's last word: it asks for no tool.
    pub fn is_answer(&self) -> bool {
        let whole = !self.extra.contains_key(FAILED) && self.conversation() == 0;
        self.role == Role::Assistant && self.tool_calls().next().is_none() && whole
    }

    /// Which of its agent's conversations it belongs to: 0 is the agent's own, the others are its subagents'.
    pub fn conversation(&self) -> usize {
        let number = self.extra.get(CONVERSATION).and_then(Value::as_u64).unwrap_or_default();
        usize::try_from(number).unwrap_or_default()
    }

    /// Says which of its agent's conversations it belongs to.
    pub fn set_conversation(&mut self, conversation: usize) {
        if conversation > 0 {
            self.extra.insert(CONVERSATION.to_owned(), conversation.into());
        }
    }

    /// Marks an answer as the words of a program that failed, or of a model that broke off, with why: nothing can
    /// continue from it.
    pub fn mark_failed(&mut self, why: &str) {
        self.extra.insert(FAILED.to_owned(), why.into());
    }

    /// Marks it as what arrived of an answer that broke off for this reason: it was never an answer.
    pub fn mark_broken_off(&mut self, why: &str) {
        self.mark_failed(why);
        self.extra.insert(BROKEN_OFF.to_owned(), true.into());
    }

    /// Whether it is what arrived of an answer that broke off.
    pub fn is_broken_off(&self) -> bool {
        self.extra.contains_key(BROKEN_OFF)
    }

    /// Why nothing can continue from it, if that is so.
    pub fn failure(&self) -> Option<&str> {
        self.extra.get(FAILED).and_then(Value::as_str)
    }

    /// The tools it asks for: id, name, arguments.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolCall { id, name, arguments, .. } => Some((id.as_str(), name.as_str(), arguments)),
            _ => None,
        })
    }
}

/// Where the newest task of a conversation stands, and what came after it.
pub(crate) fn newest_task(messages: &[Message]) -> Option<(&Message, &[Message])> {
    let at = messages.iter().rposition(Message::is_prompt)?;
    Some((&messages[at], &messages[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_and_writing_loses_nothing() {
        let json = json!({
            "role": "assistant",
            "content": [
                {"type": "text", "text": "hi", "citations": [1, 2]},
                {"type": "thinking", "text": "hm", "signature": "s==", "depth": 3},
                {"type": "tool_call", "id": "1", "name": "shell", "arguments": {"b": 1, "a": [null]}, "cache": true},
                {"type": "tool_result", "id": "1", "content": "ok", "is_error": false, "x": {"y": 1.5}},
                {"type": "redacted_thinking", "data": "zzz"},
                {"type": "image", "source": {"url": "u"}},
            ],
            "response_id": "r-1",
        });
        let message: Message = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), json);
        assert!(matches!(&message.content[0], Part::Text { text, extra } if text == "hi" && extra.len() == 1));
        assert!(matches!(&message.content[4], Part::Unknown(_)));
        assert_eq!(message.tool_calls().count(), 1);
        assert_eq!(message.text(), "hi");
    }

    #[test]
    fn a_known_part_must_be_whole() {
        for bad in [
            json!({"role": "user", "content": [{"type": "text"}]}),
            json!({"role": "user", "content": [{"type": "tool_call", "id": "1", "name": "x"}]}),
            json!({"role": "user", "content": [{"text": "no type"}]}),
            json!({"role": "nobody", "content": []}),
        ] {
            assert!(serde_json::from_value::<Message>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn remarks_start_no_task() {
        let conversation = [Message::user("task"), Message::assistant("a"), Message::steering("mind the gap")];
        let (task, after) = newest_task(&conversation).unwrap();
        assert_eq!((task.text().as_str(), after.len()), ("task", 2));
        let json = serde_json::to_string(&conversation[2]).unwrap();
        assert!(serde_json::from_str::<Message>(&json).unwrap().is_steering(), "{json}");
        assert!(newest_task(&[]).is_none());
    }
}
