//! A commit for the answer: what a merge is of, and who resolved it.

use std::collections::BTreeSet;

use git::record::Record;
use pleach_core::event::Event;
use pleach_core::ids::{ContextId, SessionId};

use super::document::WhyCommit;
use super::error::WhyError;
use super::ground::WhyGround;
use super::origin::{KnownCommit, Made};

/// A commit with what the queue or the run has recorded of it.
pub fn shown(ground: &WhyGround, known: &KnownCommit) -> Result<WhyCommit, WhyError> {
    let mut shown = known.shown();
    let Some(words) = &mut shown.merge else { return Ok(shown) };
    match &known.made {
        Made::Queue(entry) => {
            if let Some(stored) = ground.entry(entry)? {
                words.of = vec![stored.entry.name()];
                words.resolver = stored.entry.resolver;
                shown.session = stored.entry.session;
            }
        }
        Made::FanIn(session, _) => words.of = joined(ground, session, known),
        _ => {}
    }
    Ok(shown)
}

/// The contexts whose work a commit has joined.
fn joined(ground: &WhyGround, session: &SessionId, known: &KnownCommit) -> Vec<String> {
    let Some(history) = ground.session(session) else { return Vec::new() };
    let of = |record: &Record| {
        let merged = record.events.iter().filter_map(|recorded| match &recorded.event {
            Event::WorktreeMerged(merged) if merged.git_sha == known.commit.id => Some(merged.context.clone()),
            _ => None,
        });
        merged.collect::<Vec<ContextId>>()
    };
    let all: BTreeSet<ContextId> = history.records.iter().flat_map(of).collect();
    all.iter().map(ToString::to_string).collect()
}
