//! What a turn was asked, and what it said, in the words that were recorded.

use engine::session::asked_of;
use engine::view::recorded_pipeline;
use git::Repo;
use git::record::History;
use pleach_core::event::{AgentTurn, Event, MessageRange};
use pleach_core::ids::TaskId;
use pleach_core::trailer::TurnFacts;
use serde_json::Value;

use super::document::{ReasonSource, TurnWhy};
use super::error::WhyError;
use super::ground::WhyGround;
use super::origin::KnownCommit;

/// Adds what the record of a turn says. Without the record the commit's own words count.
pub fn fill(
    ground: &WhyGround,
    history: Option<&History>,
    facts: &TurnFacts,
    known: &KnownCommit,
    why: &mut TurnWhy,
) -> Result<(), WhyError> {
    if let Some(history) = history {
        let turns = || history.events().map(|recorded| &recorded.event);
        if let Some(task) = &history.started.task {
            why.task = Some(format!("{} {}", task.id, task.name));
        }
        let agents: Vec<&AgentTurn> = turns()
            .filter_map(|event| match event {
                Event::AgentTurn(turn) => Some(turn),
                _ => None,
            })
            .collect();
        if let Some(place) = agents.iter().rposition(|turn| turn.turn == facts.turn) {
            let turn = agents[place];
            (why.visit, why.attempt) = (Some(turn.visit), Some(turn.attempt));
            (why.agent, why.record) = (Some(turn.agent.clone()), true);
            let is_of_visit = |other: &&&AgentTurn| other.node_id == turn.node_id && other.visit == turn.visit;
            let visit: Vec<&AgentTurn> = agents[..=place].iter().rev().take_while(is_of_visit).copied().collect();
            for said in &visit {
                why.reason = words(&ground.records, history, said.messages, "assistant", true)?;
                if why.reason.is_some() {
                    why.reason_from = Some(ReasonSource::Words);
                    break;
                }
            }
            let asked = visit.last().and_then(|first| first.messages);
            why.prompt = match &history.started.task {
                Some(task) => description(&ground.records, history, &task.id)?.or_else(|| Some(task.name.clone())),
                None => words(&ground.records, history, asked, "user", false)?,
            };
            // A pipeline that cannot be read any more tells no node's prompt from the story before it.
            let pipeline = recorded_pipeline(&history.started).ok().filter(|_| history.started.task.is_none());
            if let Some(node) = pipeline.as_ref().and_then(|pipeline| pipeline.node(&turn.node_id)) {
                why.prompt = why.prompt.take().map(|prompt| asked_of(node, &prompt).to_owned());
            }
        }
        let tool = turns().find_map(|event| match event {
            Event::ToolExecution(tool) if tool.turn == facts.turn => Some(tool),
            _ => None,
        });
        if let Some(tool) = tool {
            (why.visit, why.attempt, why.record) = (Some(tool.visit), Some(tool.attempt), true);
            why.prompt = Some(tool.command.clone());
        }
    }
    let body = known.message.body.trim();
    if why.reason.is_none() && !body.is_empty() {
        (why.reason, why.reason_from) = (Some(body.to_owned()), Some(ReasonSource::Message));
    }
    Ok(())
}

/// What somebody said in some messages: the first or the last that has words.
fn words(
    records: &Repo,
    history: &History,
    range: Option<MessageRange>,
    role: &str,
    last: bool,
) -> Result<Option<String>, WhyError> {
    let Some(range) = range else { return Ok(None) };
    let messages = history.messages(records, range)?;
    let text = |message: &Value| {
        let parts = message["content"].as_array()?.iter();
        let texts: Vec<&str> =
            parts.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str()).collect();
        let text = texts.join("\n").trim().to_owned();
        (message["role"] == role && !text.is_empty()).then_some(text)
    };
    let mut texts = messages.iter().filter_map(text);
    Ok(if last { texts.next_back() } else { texts.next() })
}

/// What a task is to do, as the tree said when the session was started.
fn description(records: &Repo, history: &History, task: &TaskId) -> Result<Option<String>, WhyError> {
    let Some(text) = history.opening_file(records, "task-tree.json")? else { return Ok(None) };
    let tree: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(of_task(&tree, task.as_str()))
}

fn of_task(value: &Value, task: &str) -> Option<String> {
    match value {
        Value::Object(fields) if fields.get("id").is_some_and(|id| id == task) => {
            fields.get("description")?.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        }
        Value::Object(fields) => fields.iter().find_map(|(key, field)| match field {
            Value::Object(own) if key == task && !own.contains_key("id") => {
                own.get("description")?.as_str().map(str::to_owned)
            }
            field => of_task(field, task),
        }),
        Value::Array(items) => items.iter().find_map(|item| of_task(item, task)),
        _ => None,
    }
}
