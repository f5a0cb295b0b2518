//! A provider that answers from a file: for demonstrations, tests and dry runs, through the real loop and real git,
//! without a key and without a network. `docs/scripted-provider.md` describes the file.
//!
//! It keeps no state. Which script answers follows from the task and the request's metadata, which step of it from
//! the number of answers the conversation already holds. A resumed run therefore gets the answers it would have got.

mod file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::message::newest_task;
use super::price::{Named, Prices, Pricing};
use super::{ErrorClass, LlmError, Message, Part, Request, Response, Role, Stop, meta};
use crate::config;
use crate::event::Usage;
use crate::process::Cancel;

pub use file::ScriptError;

/// A script file, read and checked.
#[derive(Debug, Clone)]
pub struct Script {
    model: Option<String>,
    prices: Prices,
    entries: Arc<Vec<Entry>>,
}

/// One script of the file: when it speaks, and what it says call by call.
#[derive(Debug)]
struct Entry {
    name: String,
    when: When,
    calls: Vec<Call>,
}

/// What must hold for a script to be chosen; what is not set always holds.
#[derive(Debug, Default)]
struct When {
    nodes: Vec<String>,
    visit: Option<u32>,
    attempt: Option<u32>,
    model: Option<String>,
    contains: Vec<String>,
}

/// One model call: what goes wrong first, then the answer. Only the last call of a script can lack one.
#[derive(Debug, Default)]
struct Call {
    faults: Vec<Fault>,
    reply: Option<Reply>,
}

#[derive(Debug)]
struct Fault {
    kind: FaultKind,
    delay: Duration,
    /// How many tries of the call it spoils.
    tries: u32,
    /// The last attempt of the node it happens in; none for every attempt.
    attempts: Option<u32>,
}

#[derive(Debug)]
enum FaultKind {
    /// The error, and the status it was written with.
    Error(LlmError, Option<u16>),
    Malformed(String),
    Hang,
}

#[derive(Debug)]
struct Reply {
    thinking: Option<String>,
    text: Option<String>,
    tools: Vec<(String, Value)>,
    usage: Usage,
    delay: Duration,
    stop: Option<Stop>,
}

/// What a script has to say to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An answer after a pause.
    Reply(Duration, Box<Response>),
    /// An error after a pause, and the status it stands for.
    Fail(Duration, LlmError, Option<u16>),
    /// Words nobody can read after a pause.
    Nonsense(Duration, String),
    /// Nothing at all.
    Hang,
}

impl Script {
    /// Reads a script file.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        file::read(text)
    }

    /// The same with prices for its models; without them nothing it says costs anything known.
    pub fn with_prices(self, prices: &BTreeMap<String, config::Price>) -> Self {
        Self { prices: Prices::alone(prices), ..self }
    }

    /// What a call would have cost, if its model was given a price.
    pub fn cost(&self, model: Named<'_>, usage: &Usage) -> Option<f64> {
        self.prices.cost(model, usage)
    }

    /// How well the price of a model is known.
    pub fn pricing(&self, model: Named<'_>) -> Pricing {
        self.prices.pricing(model)
    }

    /// Answers a request as the file says, after the pause it says.
    pub async fn complete(&self, request: &Request, cancel: &Cancel) -> Result<Response, LlmError> {
        let (pause, answer) = match self.answer(request)? {
            Answer::Reply(pause, response) => (pause, Ok(*response)),
            Answer::Fail(pause, error, _) => (pause, Err(error)),
            Answer::Nonsense(pause, said) => (pause, Err(malformed(&said))),
            Answer::Hang => {
                cancel.killed().await;
                return Err(LlmError::cancelled());
            }
        };
        tokio::select! {
            biased;
            () = cancel.killed() => Err(LlmError::cancelled()),
            () = tokio::time::sleep(pause) => answer,
        }
    }

    /// What the script has to say to a request; an error when it has nothing to say.
    pub(crate) fn answer(&self, request: &Request) -> Result<Answer, LlmError> {
        let terminal = |message: String| LlmError::new(ErrorClass::Terminal, message);
        let (task, after) = newest_task(&request.messages)
            .ok_or_else(|| terminal("the scripted provider was asked without a task in the conversation".into()))?;
        let task = task.text();
        let entry =
            self.entries.iter().find(|entry| entry.when.holds(request, &task)).ok_or_else(|| self.no_match(request))?;
        let index = after.iter().filter(|message| message.role == Role::Assistant).count();
        let ran_out = || {
            let steps = entry.calls.iter().filter(|call| call.reply.is_some()).count();
            terminal(format!(
                "script `{}` has {steps} answers and was asked for number {}: add a step to it",
                entry.name,
                index + 1
            ))
        };
        let call = entry.calls.get(index).ok_or_else(ran_out)?;
        if let Some(fault) = call.fault(number(request, meta::TRY), number(request, meta::ATTEMPT)) {
            return Ok(match &fault.kind {
                FaultKind::Error(error, status) => Answer::Fail(fault.delay, error.clone(), *status),
                FaultKind::Malformed(reply) => Answer::Nonsense(fault.delay, reply.clone()),
                FaultKind::Hang => Answer::Hang,
            });
        }
        let reply = call.reply.as_ref().ok_or_else(ran_out)?;
        let message =
            reply.message(request).map_err(|message| terminal(format!("script `{}`: {message}", entry.name)))?;
        let asks = !reply.tools.is_empty();
        let stop = reply.stop.clone().unwrap_or(if asks { Stop::ToolCalls } else { Stop::End });
        let model = match &self.model {
            Some(model) => model.clone(),
            None if request.model.is_empty() => "script".into(),
            None => request.model.clone(),
        };
        Ok(Answer::Reply(
            reply.delay,
            Box::new(Response { message, usage: reply.usage, model, stop, extra: Default::default() }),
        ))
    }

    fn no_match(&self, request: &Request) -> LlmError {
        let facts: Vec<String> = [meta::NODE, meta::VISIT, meta::ATTEMPT]
            .iter()
            .filter_map(|key| request.metadata.get(*key).map(|value| format!("{key} `{value}`")))
            .collect();
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        LlmError::new(
            ErrorClass::Terminal,
            format!(
                "no script matches {}: the file has {}; add one whose `when` matches, or one without `when`",
                if facts.is_empty() { "this task".into() } else { facts.join(", ") },
                names.join(", ")
            ),
        )
    }
}

fn malformed(reply: &str) -> LlmError {
    LlmError::new(ErrorClass::Malformed, format!("the provider's reply cannot be read: {reply:?}"))
}

/// A number of the metadata; a caller that gives none is at its first.
fn number(request: &Request, key: &str) -> u32 {
    request.metadata.get(key).and_then(|text| text.parse().ok()).unwrap_or(1)
}

impl When {
    fn holds(&self, request: &Request, task: &str) -> bool {
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

impl Call {
    /// What goes wrong at this try, if anything: each fault uses up its tries, one after the other.
    fn fault(&self, mut nth: u32, attempt: u32) -> Option<&Fault> {
        for fault in self.faults.iter().filter(|fault| fault.attempts.is_none_or(|last| attempt <= last)) {
            if nth <= fault.tries {
                return Some(fault);
            }
            nth -= fault.tries;
        }
        None
    }
}

impl Reply {
    fn message(&self, request: &Request) -> Result<Message, String> {
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

#[cfg(test)]
mod tests;
