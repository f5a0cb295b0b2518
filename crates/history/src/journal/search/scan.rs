//! Looks into the messages of one record.

use agents::llm::Message;
use git::Repo;
use git::record::{ChainTip, Error, RecordCommit, StoredMessage};
use jiff::Timestamp;
use pleach_core::event::{Event, Recorded};
use pleach_core::ids::{NodeId, RunId, TurnId};

use super::hit::{excerpt, texts};
use super::{SearchFilter, SearchHit, SearchPart, SearchPattern};

/// A message with the pattern in it: what of it, the excerpt.
struct Found {
    number: u64,
    message: Message,
    part: SearchPart,
    place: std::ops::Range<usize>,
    excerpt: String,
}

/// The messages of a record that have the pattern, newest first.
pub(super) fn hits(
    repo: &Repo,
    chain: &ChainTip,
    record: &RecordCommit,
    (pattern, filter): (&SearchPattern, &SearchFilter),
) -> Result<Vec<SearchHit>, Error> {
    let mut found = Vec::new();
    for stored in record.messages(repo)?.iter().rev() {
        found.extend(look(repo, stored, pattern, &filter.parts)?);
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let events = record.events(&chain.session, &record.events_text(repo)?)?;
    let run = RunId::of_context(&chain.session, &chain.context).to_string();
    let hit = |Found { number, message, part, place, excerpt }: Found| {
        let (turn, node, at) = where_said(&events, number).unwrap_or((None, None, record.at));
        let role = message.role;
        SearchHit { run: run.clone(), turn, message: number, role, part, node, at, excerpt, found: place }
    };
    Ok(found.into_iter().map(hit).collect())
}

fn look(
    repo: &Repo,
    stored: &StoredMessage,
    pattern: &SearchPattern,
    parts: &[SearchPart],
) -> Result<Option<Found>, git::Error> {
    if !may_have(repo, stored, pattern)? {
        return Ok(None);
    }
    let json = stored.text(repo)?;
    // What is no message has nobody who said it.
    let Some(Ok(message)) = stored.whole(repo, &json)?.map(serde_json::from_value::<Message>) else { return Ok(None) };
    let wanted = |part: &SearchPart| parts.is_empty() || parts.contains(part);
    let found = texts(&message).into_iter().filter(|(part, _)| wanted(part)).find_map(|(part, text)| {
        let (excerpt, place) = excerpt(text, pattern.find(text)?);
        Some((part, place, excerpt))
    });
    Ok(found.map(|(part, place, excerpt)| Found { number: stored.number, message, part, place, excerpt }))
}

/// A first look, at the bytes alone: most messages do not have it.
fn may_have(repo: &Repo, stored: &StoredMessage, pattern: &SearchPattern) -> Result<bool, git::Error> {
    let Some(in_json) = pattern.in_json() else { return Ok(true) };
    if in_json.is_match(&stored.text_at_a_glance(repo)?) {
        return Ok(true);
    }
    for text in stored.long_texts_at_a_glance(repo) {
        if pattern.find(&String::from_utf8_lossy(&text?)).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The turn and the node a message belongs to, and when.
fn where_said(events: &[Recorded], number: u64) -> Option<(Option<TurnId>, Option<NodeId>, Timestamp)> {
    events.iter().find_map(|recorded| {
        let (turn, node) = match &recorded.event {
            Event::AgentTurn(turn) => {
                turn.messages.filter(|range| (range.first..=range.last).contains(&number))?;
                (Some(turn.turn.clone()), Some(turn.node_id.clone()))
            }
            Event::ToolExecution(tool) if tool.output == Some(number) => {
                (Some(tool.turn.clone()), Some(tool.node_id.clone()))
            }
            Event::NodeExecution(node) if node.stderr == Some(number) => (None, Some(node.node_id.clone())),
            Event::StepFinished(step) if step.log == Some(number) => (None, None),
            _ => return None,
        };
        Some((turn, node, recorded.at))
    })
}
