//! What a line was before.

use git::blame::{BlameRequest, BlamedLines, blame};
use pleach_core::merge::LineMap;

use super::document::PastLine;
use super::error::WhyError;
use super::ground::WhyGround;
use super::start::FileStart;
use super::trace::{Trace, TracedLines, TurnCommit};

/// The versions of the first of some lines, newest first. A line that was put in where none was has none before.
pub fn past_lines(
    ground: &WhyGround,
    trace: &Trace<'_>,
    start: &FileStart,
    lines: &TracedLines,
    most: usize,
) -> Result<Vec<(PastLine, Option<TurnCommit>)>, WhyError> {
    let (mut found, mut at) = (Vec::new(), lines.reached.clone());
    while found.len() < most {
        let Some(before) = before(ground, trace, start, &at)? else { break };
        let Some(commit) = before.reached.commit else { break };
        let content = ground.content(commit, &before.reached.path)?.unwrap_or_default();
        let text = content.split(|byte| *byte == b'\n').nth(before.reached.line as usize - 1).unwrap_or_default();
        let past = PastLine {
            commit,
            path: before.reached.path.clone(),
            line: before.reached.line,
            text: String::from_utf8_lossy(text).into_owned(),
            origin: before.origin,
            turn: before.turn.as_ref().map(TurnCommit::key),
        };
        at = before.reached;
        found.push((past, before.turn));
    }
    Ok(found)
}

/// The line that a commit has replaced with this one, followed to where it is from.
fn before(
    ground: &WhyGround,
    trace: &Trace<'_>,
    start: &FileStart,
    at: &BlamedLines,
) -> Result<Option<TracedLines>, WhyError> {
    let Some((commit, path)) = at.previous.as_ref().filter(|(commit, _)| ground.has(*commit)) else { return Ok(None) };
    let new = match at.commit {
        Some(commit) => ground.content(commit, &at.path)?.unwrap_or_default(),
        None => start.content.clone(),
    };
    let old = ground.content(*commit, path)?.unwrap_or_default();
    let Some((old, new)) = LineMap::new(&old, &new).replaced(at.line - 1).filter(|(old, _)| !old.is_empty()) else {
        return Ok(None);
    };
    // The line in the same place, or the last where fewer were replaced.
    let line = (old.start + at.line - 1 - new.start).min(old.end - 1) + 1;
    let request = BlameRequest { tip: Some(*commit), lines: vec![line..=line], ..BlameRequest::default() };
    Ok(trace.follow(blame(&ground.code, path, &request)?)?.into_iter().next())
}
