//! The scripts of a file: when each of them answers, and what it answers call by call.

use std::time::Duration;

use serde_json::Value;

use crate::llm::{LlmError, Message, Part, Request, Role, Stop, meta};
use pleach_core::event::Usage;

/// One script of the file: when it matches, and what it answers call by call.
#[derive(Debug)]
pub(super) struct ScriptEntry {
    pub(super) name: String,
    pub(super) when: ScriptCondition,
    pub(super) calls: Vec<ScriptedCall>,
}

/// What must hold for a script to be chosen; what is not set always holds.
#[derive(Debug, Default)]
pub(super) struct ScriptCondition {
    pub(super) nodes: Vec<String>,
    pub(super) visit: Option<u32>,
    pub(super) attempt: Option<u32>,
    pub(super) model: Option<String>,
    pub(super) contains: Vec<String>,
}

impl ScriptCondition {
    pub(super) fn holds(&self, request: &Request, task: &str) -> bool {
        let is = |key: &str, wanted: Option<u32>| {
            wanted.is_none_or(|wanted| request.metadata.get(key).is_some_and(|text| *text == wanted.to_string()))
        };
        let node = request.metadata.get(meta::NODE);
        (self.nodes.is_empty() || node.is_some_and(|node| self.nodes.contains(node)))
            && is(meta::VISIT, self.visit)
            && is(meta::ATTEMPT, self.attempt)
            && self.model.as_ref().is_none_or(|model| *model == request.model)
            && self.contains.iter().all(|piece| task.contains(piece))
    }
}

/// One model call: what goes wrong first, then the answer. Only the last call of a script can lack one.
#[derive(Debug, Default)]
pub(super) struct ScriptedCall {
    pub(super) faults: Vec<ScriptedFault>,
    pub(super) reply: Option<ScriptedReply>,
}

impl ScriptedCall {
    /// What goes wrong at this try, if anything: each fault uses up its tries, one after the other.
    pub(super) fn fault(&self, mut nth: u32, attempt: u32) -> Option<&ScriptedFault> {
        for fault in self.faults.iter().filter(|fault| fault.attempts.is_none_or(|last| attempt <= last)) {
            if nth <= fault.tries {
                return Some(fault);
            }
            nth -= fault.tries;
        }
        None
    }
}

#[derive(Debug)]
pub(super) struct ScriptedFault {
    pub(super) kind: ScriptedFaultKind,
    pub(super) delay: Duration,
    /// How many tries of the call it spoils.
    pub(super) tries: u32,
    /// The last attempt of the node it happens in; none for every attempt.
    pub(super) attempts: Option<u32>,
}

#[derive(Debug)]
pub(super) enum ScriptedFaultKind {
    /// The error, and the status it was written with.
    Error(LlmError, Option<u16>),
    Malformed(String),
    Hang,
}

#[derive(Debug)]
pub(super) struct ScriptedReply {
    pub(super) thinking: Option<String>,
    pub(super) text: Option<String>,
    pub(super) tools: Vec<(String, Value)>,
    pub(super) usage: Usage,
    pub(super) delay: Duration,
    pub(super) stop: Option<Stop>,
}

impl ScriptedReply {
    pub(super) fn message(&self, request: &Request) -> Result<Message, String> {
        let mut content = Vec::new();
        if let Some(thinking) = &self.thinking {
            let text = fill(thinking, request)?;
            content.push(Part::Thinking { text, signature: None, extra: Default::default() });
        }
        if let Some(text) = &self.text {
            content.push(Part::text(fill(text, request)?));
        }
        for (index, (name, arguments)) in self.tools.iter().enumerate() {
            // The place in the conversation makes the id: unique in it, and the same when asked again.
            let id = format!("call_{}_{}", request.messages.len(), index + 1);
            content.push(Part::tool_call(id, name, fill_value(arguments, request)?));
        }
        Ok(Message::new(Role::Assistant, content))
    }
}

/// The facts a script may name in its texts as `{{name}}`.
const PLACEHOLDERS: [&str; 4] = [meta::NODE, meta::VISIT, meta::ATTEMPT, meta::STATUS_FILE];

fn fill(text: &str, request: &Request) -> Result<String, String> {
    let mut text = text.to_owned();
    for name in PLACEHOLDERS {
        let hole = format!("{{{{{name}}}}}");
        if text.contains(&hole) {
            let value =
                request.metadata.get(name).ok_or_else(|| format!("the request has no `{name}` for `{hole}`"))?;
            text = text.replace(&hole, value);
        }
    }
    Ok(text)
}

fn fill_value(value: &Value, request: &Request) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, request)?),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| fill_value(item, request)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), fill_value(value, request)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
