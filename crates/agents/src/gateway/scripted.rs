//! Answers from a script, in the format and with the tools of the client: so a real program can run offline.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::path::SideRequestKind;
use super::tools;
use crate::llm::script::ScriptedAnswer;
use crate::llm::wire::Format;
use crate::llm::{ErrorClass, LlmError, Message, Part, Request, Response, Role, Script, Stop, meta, newest_task};
use pleach_core::event::Usage;

/// What is known of the agent, for a script that answers it.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Facts about the call, by the names of [`crate::llm::meta`].
    pub metadata: BTreeMap<String, String>,
    /// Where the agent works: some want whole paths from their model.
    pub cwd: PathBuf,
    /// Whether it works with tools: a call without any is then a side call.
    pub has_tools: bool,
    /// The prompts that tell it to continue after an interruption.
    pub interruptions: &'static [&'static str],
    /// How many answers to its task are on record, where it is resumed.
    pub answered: Option<usize>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { metadata: BTreeMap::new(), cwd: PathBuf::new(), has_tools: true, interruptions: &[], answered: None }
    }
}

/// What a script says to a call.
#[derive(Debug)]
pub(super) enum Scripted {
    /// An answer.
    Answer(Box<Response>),
    /// An error.
    Fail {
        /// Its status.
        status: u16,
        /// What happened.
        message: String,
        /// How long to wait before the next try.
        retry_after: Option<Duration>,
    },
    /// A malformed answer.
    Malformed(String),
}

/// Asks the script, and waits as long as it says. A script that hangs is waited for until the client goes.
pub(super) async fn call(script: &Script, facts: &Facts, request: &Request, format: Format, tries: u32) -> Scripted {
    let acts = |message: &Message| message.tool_calls().next().is_some();
    if facts.has_tools && request.tools.is_empty() && !request.messages.iter().any(acts) {
        return Scripted::Answer(Box::new(aside_reply(request)));
    }
    let mut asked = Request { messages: mark_remarks(&request.messages, facts), ..request.clone() };
    asked.metadata.clone_from(&facts.metadata);
    asked.metadata.insert(meta::TRY.into(), tries.to_string());
    let answer = match script.answer(&asked) {
        Ok(answer) => answer,
        Err(error) => return failed(&error, None),
    };
    match answer {
        ScriptedAnswer::Reply(pause, mut response) => {
            tokio::time::sleep(pause).await;
            for part in &mut response.message.content {
                tools::fit(part, request, format, &facts.cwd);
            }
            Scripted::Answer(response)
        }
        ScriptedAnswer::Fail(pause, error, status) => {
            tokio::time::sleep(pause).await;
            failed(&error, status)
        }
        ScriptedAnswer::Nonsense(pause, text) => {
            tokio::time::sleep(pause).await;
            Scripted::Malformed(text)
        }
        ScriptedAnswer::Hang => std::future::pending().await,
    }
}

fn failed(error: &LlmError, status: Option<u16>) -> Scripted {
    let status = status.unwrap_or(match error.class {
        ErrorClass::Transient | ErrorClass::Cut | ErrorClass::Malformed | ErrorClass::Cancelled => 503,
        ErrorClass::Auth => 401,
        ErrorClass::Unavailable => 404,
        ErrorClass::ContextLength => 413,
        ErrorClass::Terminal => 400,
    });
    Scripted::Fail { status, message: error.message.clone(), retry_after: error.retry_after }
}

/// The conversation, with the tagged texts that agents add to tool results marked as remarks: no task starts there. Nor
/// does one start at a prompt to continue a task: the answers before it are those on record, whatever the agent has
/// made of them.
fn mark_remarks(messages: &[Message], facts: &Facts) -> Vec<Message> {
    let remark = |message: &Message| Message { content: message.content.clone(), ..Message::steering("") };
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let beside = all.last().is_some_and(|last| last.role == Role::Tool || last.is_steering());
        let said = message.text();
        let said = said.trim_start();
        let is_user = message.role == Role::User;
        let task = all.iter().rposition(Message::is_prompt);
        match task.filter(|_| is_user && facts.interruptions.iter().any(|words| said.contains(words))) {
            Some(task) => {
                if let Some(known) = facts.answered {
                    let mut answers = all[task..].iter_mut().filter(|message| message.role == Role::Assistant);
                    let kept = answers.by_ref().take(known).count();
                    answers.for_each(|other| *other = remark(other));
                    all.extend((kept..known).map(|_| Message::assistant("")));
                }
                all.push(remark(message));
            }
            None if is_user && beside && said.starts_with('<') => all.push(remark(message)),
            None => all.push(message.clone()),
        }
    }
    all
}

/// How many answers a conversation on record holds to its newest task.
pub(crate) fn answers_on_record(history: &[Message], interruptions: &'static [&'static str]) -> usize {
    let marked = mark_remarks(history, &Facts { interruptions, ..Facts::default() });
    let after = newest_task(&marked).map(|(_, after)| after).unwrap_or_default();
    after.iter().filter(|message| message.role == Role::Assistant).count()
}

/// What is noted of an answer the script was not asked for.
const BESIDE: &str = "beside_the_script";

/// Whether the script was not asked for an answer.
pub(crate) fn is_beside_the_script(response: &Response) -> bool {
    response.extra.contains_key(BESIDE)
}

/// The answer to a side call, such as one for a title: a short text, or what a schema asks for.
fn aside_reply(request: &Request) -> Response {
    let text = match schema(request) {
        Some(schema) => sample(schema, 0).to_string(),
        None => "A scripted answer".to_owned(),
    };
    Response {
        message: Message::assistant(text),
        usage: Usage::default(),
        model: request.model.clone(),
        stop: Stop::End,
        extra: [(BESIDE.to_owned(), true.into())].into_iter().collect(),
    }
}

/// The schema a request wants its answer in.
fn schema(request: &Request) -> Option<&Value> {
    let known = request.extra.values().next()?;
    [
        "/output_config/format/schema",
        "/output_format/schema",
        "/text/format/schema",
        "/response_format/json_schema/schema",
        "/generationConfig/responseJsonSchema",
        "/generationConfig/responseSchema",
    ]
    .iter()
    .find_map(|path| known.pointer(path))
}

/// Something that fits a schema.
fn sample(schema: &Value, depth: u32) -> Value {
    if let Some(first) = schema.get("enum").and_then(|all| all.get(0)) {
        return first.clone();
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("object").to_ascii_lowercase();
    match kind.as_str() {
        "string" => "scripted".into(),
        "number" | "integer" => 1.into(),
        "boolean" => false.into(),
        "array" => json!([]),
        "null" => Value::Null,
        _ if depth > 4 => json!({}),
        _ => {
            let fields = schema.get("properties").and_then(Value::as_object);
            fields.into_iter().flatten().map(|(name, schema)| (name.clone(), sample(schema, depth + 1))).collect()
        }
    }
}

/// The answer to a request around model calls.
pub(super) fn aside(format: Format, kind: SideRequestKind, length: usize) -> Value {
    let tokens = (length / 4).max(1);
    match (kind, format) {
        (SideRequestKind::Count, Format::Gemini) => json!({"totalTokens": tokens}),
        (SideRequestKind::Count, _) => json!({"input_tokens": tokens}),
        (SideRequestKind::Models, Format::Gemini) => json!({"models": [{"name": "models/script"}]}),
        (SideRequestKind::Models, _) => {
            let model = json!({"id": "script", "object": "model", "type": "model", "created": 0, "owned_by": "pleach"});
            json!({"object": "list", "data": [model], "has_more": false})
        }
        (SideRequestKind::Other, _) => json!({}),
    }
}

/// The response with the ids and numbers its format expects of a server.
pub(super) fn with_server_fields(format: Format, mut response: Response) -> Response {
    let id = format!("{:016x}", fastrand::u64(..));
    let known = response.extra.entry(format.name()).or_insert_with(|| json!({}));
    let mut add = |key: &str, value: Value| {
        if let Some(known) = known.as_object_mut() {
            known.entry(key).or_insert(value);
        }
    };
    let now = pleach_core::clock::now().as_second();
    match format {
        Format::Anthropic => {
            add("id", format!("msg_{id}").into());
            add("stop_sequence", Value::Null);
        }
        Format::Responses => {
            add("id", format!("resp_{id}").into());
            add("created_at", now.into());
            add("error", Value::Null);
            add("metadata", json!({}));
        }
        Format::Chat => {
            add("id", format!("chatcmpl-{id}").into());
            add("created", now.into());
        }
        Format::Gemini => add("responseId", id.clone().into()),
    }
    if format == Format::Responses {
        for (index, part) in response.message.content.iter_mut().enumerate() {
            add_item_fields(part, &format!("{id}_{index}"));
        }
    }
    response
}

/// Items have ids of their own here.
fn add_item_fields(part: &mut Part, id: &str) {
    let own = |extra: &mut Map<String, Value>, key: &str, fields: Value| {
        let known = extra.entry(Format::Responses.name()).or_insert_with(|| json!({}));
        if let Some(known) = known.as_object_mut() {
            let object = if key.is_empty() {
                Some(known)
            } else {
                known.entry(key).or_insert_with(|| json!({})).as_object_mut()
            };
            let Some(object) = object else { return };
            for (name, value) in fields.as_object().into_iter().flatten() {
                object.entry(name).or_insert_with(|| value.clone());
            }
        }
    };
    match part {
        Part::Text { extra, .. } => {
            own(extra, "item", json!({"id": format!("msg_{id}"), "status": "completed"}));
            own(extra, "", json!({"annotations": []}));
        }
        Part::ToolCall { extra, .. } => own(extra, "", json!({"id": format!("fc_{id}"), "status": "completed"})),
        Part::ToolResult { .. } | Part::Thinking { .. } | Part::Unknown(_) => {}
    }
}

#[cfg(test)]
mod tests;
