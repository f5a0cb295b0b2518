//! A provider that answers from a file: for demonstrations, tests and dry runs, through the real loop and real git,
//! without a key and without a network. `docs/scripted-provider.md` describes the file.
//!
//! It keeps no state. Which script answers follows from the task and the request's metadata, which step of it from the
//! number of answers the conversation already holds. A resumed run therefore gets the answers it would have got.

mod entry;
mod file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::entry::{ScriptEntry, ScriptedFaultKind};
use super::message::newest_task;
use super::price::{ModelNames, Prices, Pricing};
use super::{ErrorClass, LlmError, Request, Response, Role, Stop, meta};
use os::process::Cancel;
use pleach_core::config;
use pleach_core::event::Usage;

pub use file::ScriptError;

/// A script file, read and checked.
#[derive(Debug, Clone)]
pub struct Script {
    model: Option<String>,
    prices: Prices,
    entries: Arc<Vec<ScriptEntry>>,
}

/// What a script has to say to a request.
#[derive(Debug)]
pub(crate) enum ScriptedAnswer {
    /// An answer after a pause.
    Reply(Duration, Box<Response>),
    /// An error after a pause, and the status it stands for.
    Fail(Duration, LlmError, Option<u16>),
    /// A malformed answer after a pause.
    Nonsense(Duration, String),
    /// Nothing at all.
    Hang,
}

impl Script {
    /// Reads a script file.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let (model, entries) = file::read(text)?;
        Ok(Self { model, prices: Prices::alone(&BTreeMap::new()), entries: Arc::new(entries) })
    }

    /// The same with prices for its models; without them nothing it says costs anything known.
    pub fn with_prices(self, prices: &BTreeMap<String, config::Price>) -> Self {
        Self { prices: Prices::alone(prices), ..self }
    }

    /// What a call would have cost, if its model was given a price.
    pub fn cost(&self, model: ModelNames<'_>, usage: &Usage) -> Option<f64> {
        self.prices.cost(model, usage)
    }

    /// How well the price of a model is known.
    pub fn pricing(&self, model: ModelNames<'_>) -> Pricing {
        self.prices.pricing(model)
    }

    /// Answers a request as the file says, after the pause it says.
    pub async fn complete(&self, request: &Request, cancel: &Cancel) -> Result<Response, LlmError> {
        let (pause, answer) = match self.answer(request)? {
            ScriptedAnswer::Reply(pause, response) => (pause, Ok(*response)),
            ScriptedAnswer::Fail(pause, error, _) => (pause, Err(error)),
            ScriptedAnswer::Nonsense(pause, said) => (pause, Err(malformed(&said))),
            ScriptedAnswer::Hang => {
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
    pub(crate) fn answer(&self, request: &Request) -> Result<ScriptedAnswer, LlmError> {
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
                ScriptedFaultKind::Error(error, status) => ScriptedAnswer::Fail(fault.delay, error.clone(), *status),
                ScriptedFaultKind::Malformed(reply) => ScriptedAnswer::Nonsense(fault.delay, reply.clone()),
                ScriptedFaultKind::Hang => ScriptedAnswer::Hang,
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
        Ok(ScriptedAnswer::Reply(
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

#[cfg(test)]
mod tests;
