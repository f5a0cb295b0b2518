//! A run for programs: its events, a line for each, as `--json` prints them while it happens, with what was said and changed.

use std::collections::BTreeMap;

use agents::llm::Message;
use engine::env::Error;
use engine::view::View;
use git::Repo;
use jiff::Timestamp;
use pleach_core::event::{Event, MessageRange, to_the_millisecond};
use pleach_core::ids::{ContextId, RepoName, SessionId};
use serde::Serialize;

use super::Diffs;

/// An event of a run that is over, or as far as it has come.
#[derive(Debug, Serialize)]
pub struct ExportLine<'a> {
    /// The version of these lines.
    pub v: u32,
    /// Counts them.
    pub seq: usize,
    /// When it happened.
    #[serde(serialize_with = "to_the_millisecond")]
    pub at: Timestamp,
    /// The session.
    pub session: &'a SessionId,
    /// The context.
    pub context: &'a ContextId,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Its fields.
    pub data: &'a Event,
    /// The messages that are new with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// What it has changed, by repository.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub patch: BTreeMap<RepoName, &'a str>,
}

/// The events of all contexts of a session, in order of time.
pub fn lines<'a>(
    view: &'a View,
    repo: &'a Repo,
    diffs: &'a Diffs,
) -> impl Iterator<Item = Result<ExportLine<'a>, Error>> {
    view.all_events().into_iter().enumerate().map(move |(before, (record, recorded))| {
        let event = &recorded.event;
        let said = said(event).map(|range| range.first..=range.last).into_iter().flatten();
        let messages = said.map(|number| view.message_in(repo, &record.context, number));
        let made = match event {
            Event::AgentTurn(turn) => turn.git_sha.as_ref(),
            Event::ToolExecution(tool) => tool.git_sha.as_ref(),
            _ => None,
        };
        Ok(ExportLine {
            v: 1,
            seq: before + 1,
            at: recorded.at,
            session: &view.summary.session,
            context: &record.context,
            kind: event.kind(),
            data: event,
            messages: messages.collect::<Result<_, _>>()?,
            patch: made.map(|commits| diffs.of(commits)).unwrap_or_default(),
        })
    })
}

/// The messages that are recorded with an event.
fn said(event: &Event) -> Option<MessageRange> {
    let one = |number| MessageRange { first: number, last: number };
    match event {
        Event::AgentTurn(turn) => turn.messages,
        Event::ToolExecution(tool) => tool.output.map(one),
        Event::NodeExecution(node) => node.stderr.map(one),
        Event::StepFinished(step) => step.log.map(one),
        _ => None,
    }
}
