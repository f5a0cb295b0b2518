//! The script file: YAML in, checked scripts out. Unknown keys are refused, every error names its place.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::entry::{ScriptCondition, ScriptEntry, ScriptedCall, ScriptedFault, ScriptedFaultKind, ScriptedReply};
use crate::llm::{ErrorClass, LlmError, Stop};
use pleach_core::event::Usage;

/// A script file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ScriptError {
    /// The line, from 1; 0 when the whole file is meant.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Option<String>,
    scripts: Vec<Spanned<ScriptYaml>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptYaml {
    name: String,
    #[serde(default)]
    when: WhenYaml,
    steps: Vec<Spanned<StepYaml>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WhenYaml {
    node: Option<OneOrMore>,
    visit: Option<u32>,
    attempt: Option<u32>,
    model: Option<String>,
    contains: Option<OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepYaml {
    thinking: Option<String>,
    text: Option<String>,
    tools: Option<Vec<Spanned<BTreeMap<String, Value>>>>,
    usage: Option<UsageYaml>,
    stop: Option<StopYaml>,
    error: Option<ErrorYaml>,
    malformed: Option<String>,
    hang: Option<bool>,
    delay: Option<Spanned<String>>,
    tries: Option<u32>,
    attempts: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct UsageYaml {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StopYaml {
    End,
    ToolCalls,
    Length,
    ContentFilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorYaml {
    status: Option<u16>,
    message: Option<String>,
    transient: Option<bool>,
    retry_after: Option<Spanned<String>>,
}

/// The model the file names for all scripts, and the scripts.
pub(super) fn read(text: &str) -> Result<(Option<String>, Vec<ScriptEntry>), ScriptError> {
    // `yes`, `no`, `y` and `on` are words here: they stand in texts and tool arguments.
    let options = serde_saphyr::options! { strict_booleans: true };
    let file: File = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().unwrap_or(Location::UNKNOWN);
        // The error's own text repeats the place and adds an excerpt; the first line without its place is the message.
        let text = error.without_snippet().to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = message.split(" at line ").next().unwrap_or(message);
        fault_at(&at, message.trim_end_matches(':'))
    })?;
    let mut names = BTreeSet::new();
    let mut entries = Vec::new();
    for script in file.scripts {
        if !names.insert(script.value.name.clone()) {
            return Err(fault_at(&script.referenced, format!("a second script is called `{}`", script.value.name)));
        }
        entries.push(entry(script)?);
    }
    if entries.is_empty() {
        return Err(fault_at(&Location::UNKNOWN, "the file has no scripts"));
    }
    Ok((file.model, entries))
}

fn fault_at(at: &Location, message: impl Into<String>) -> ScriptError {
    ScriptError { line: at.line(), column: at.column(), message: message.into() }
}

fn entry(script: Spanned<ScriptYaml>) -> Result<ScriptEntry, ScriptError> {
    let ScriptYaml { name, when, steps } = script.value;
    let mut calls = vec![ScriptedCall::default()];
    for step in steps {
        let call = calls.last_mut().expect("there is always a call being filled");
        match read_step(step)? {
            ScriptStep::Fault(fault) => call.faults.push(fault),
            ScriptStep::Reply(reply) => {
                call.reply = Some(reply);
                calls.push(ScriptedCall::default());
            }
        }
    }
    if calls.last().is_some_and(|call| call.faults.is_empty()) {
        calls.pop();
    }
    if calls.is_empty() {
        return Err(fault_at(&script.referenced, format!("script `{name}` has no steps")));
    }
    let list = |value: Option<OneOrMore>| match value {
        None => Vec::new(),
        Some(OneOrMore::One(text)) => vec![text],
        Some(OneOrMore::More(list)) => list,
    };
    let WhenYaml { node, visit, attempt, model, contains } = when;
    let when = ScriptCondition { nodes: list(node), visit, attempt, model, contains: list(contains) };
    Ok(ScriptEntry { name, when, calls })
}

enum ScriptStep {
    Fault(ScriptedFault),
    Reply(ScriptedReply),
}

fn read_step(step: Spanned<StepYaml>) -> Result<ScriptStep, ScriptError> {
    let at = step.referenced;
    let step = step.value;
    let replies = step.text.is_some() || step.tools.is_some() || step.thinking.is_some();
    let kinds = [replies, step.error.is_some(), step.malformed.is_some(), step.hang.is_some()];
    if kinds.iter().filter(|set| **set).count() != 1 {
        return Err(fault_at(
            &at,
            "a step is exactly one of an answer (`text`, `thinking`, `tools`), `error`, `malformed` and `hang: true`",
        ));
    }
    if step.hang == Some(false) {
        return Err(fault_at(&at, "`hang: false` is not a step; remove it"));
    }
    let delay = step.delay.as_ref().map(duration).transpose()?.unwrap_or_default();
    if replies {
        if step.tries.is_some() || step.attempts.is_some() {
            return Err(fault_at(
                &at,
                "`tries` and `attempts` belong to `error`, `malformed` and `hang`, not to an answer",
            ));
        }
        return reply(step, delay).map(ScriptStep::Reply);
    }
    if step.usage.is_some() || step.stop.is_some() {
        return Err(fault_at(&at, "`usage` and `stop` belong to an answer"));
    }
    let tries = step.tries.unwrap_or(1);
    if tries == 0 || step.attempts == Some(0) {
        return Err(fault_at(&at, "`tries` and `attempts` count from 1"));
    }
    let kind = match (step.error, step.malformed) {
        (Some(error), _) => {
            let status = error.status;
            ScriptedFaultKind::Error(scripted_error(error, &at)?, status)
        }
        (None, Some(reply)) => ScriptedFaultKind::Malformed(reply),
        (None, None) => ScriptedFaultKind::Hang,
    };
    Ok(ScriptStep::Fault(ScriptedFault { kind, delay, tries, attempts: step.attempts }))
}

fn reply(step: StepYaml, delay: Duration) -> Result<ScriptedReply, ScriptError> {
    let mut tools = Vec::new();
    for tool in step.tools.unwrap_or_default() {
        let Spanned { value, referenced, .. } = tool;
        let mut pairs = value.into_iter();
        match (pairs.next(), pairs.next()) {
            (Some((name, arguments)), None) => {
                let arguments = if arguments.is_null() { Value::Object(Default::default()) } else { arguments };
                tools.push((name, arguments));
            }
            _ => return Err(fault_at(&referenced, "a tool is written as `name: {argument: value}`, one per item")),
        }
    }
    let usage = step.usage.unwrap_or_default();
    let UsageYaml { input, cache_read, cache_write, output, reasoning } = usage;
    let stop = step.stop.map(|stop| match stop {
        StopYaml::End => Stop::End,
        StopYaml::ToolCalls => Stop::ToolCalls,
        StopYaml::Length => Stop::Length,
        StopYaml::ContentFilter => Stop::ContentFilter,
    });
    let usage = Usage { input, cache_read, cache_write, output, reasoning, ..Usage::default() };
    Ok(ScriptedReply { thinking: step.thinking, text: step.text, tools, usage, delay, stop })
}

fn scripted_error(error: ErrorYaml, at: &Location) -> Result<LlmError, ScriptError> {
    let message = error.message.as_deref().unwrap_or("an error of the script");
    let mut result = match (error.status, error.transient) {
        (Some(status), _) => LlmError::from_status(status, message),
        (None, Some(_)) => LlmError::new(ErrorClass::Terminal, message),
        (None, None) => return Err(fault_at(at, "an `error` says its `status` or whether it is `transient`")),
    };
    if let Some(transient) = error.transient {
        result.class = if transient { ErrorClass::Transient } else { ErrorClass::Terminal };
    }
    result.retry_after = error.retry_after.as_ref().map(duration).transpose()?;
    Ok(result)
}

/// `250ms`, `3s`, `2m`.
fn duration(text: &Spanned<String>) -> Result<Duration, ScriptError> {
    let digits = text.value.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.value.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let millis = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    millis.map(Duration::from_millis).ok_or_else(|| {
        fault_at(&text.referenced, format!("`{}` is not a duration; write `250ms`, `3s` or `2m`", text.value))
    })
}
