//! A commit: what it is, and the turns in it.

use std::collections::BTreeMap;

use git::blame::{BlameRequest, BlamedLines, blame};
use git::{ChangeKind, EntryKind, TreeChange};
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::LineMap;
use pleach_core::trailer::TurnFacts;

use super::answer::turn_why;
use super::document::{CommitLines, CommitWhy, Origin};
use super::error::WhyError;
use super::ground::WhyGround;
use super::merge_words;
use super::origin::KnownCommit;
use super::start::is_text;
use super::trace::{Trace, TurnCommit};

/// A file, whose lines, and of which turn.
type LinesOf = (RepoPath, Origin, Option<String>);

/// Why what a commit has brought is there.
pub fn why_commit(ground: &WhyGround, id: CommitId, ignores_blanks: bool) -> Result<CommitWhy, WhyError> {
    let known = ground.commit(id)?;
    let trace = Trace::new(ground, Some(id), ignores_blanks)?;
    let mut grouped: BTreeMap<LinesOf, Vec<(u32, u32)>> = BTreeMap::new();
    let mut turns: BTreeMap<String, TurnCommit> = BTreeMap::new();
    if let Some(parent) = known.commit.parents.first().filter(|_| !known.is_cut_off) {
        for change in git::diff::changes(&ground.code, ground.tree(*parent)?, known.commit.tree)? {
            let request = BlameRequest { ignores_blanks, ..BlameRequest::default() };
            let lines = brought(ground, *parent, &known, &change, request)?;
            for traced in trace.follow(lines)? {
                let key = (change.path.clone(), traced.origin, traced.turn.as_ref().map(TurnCommit::key));
                let (first, last) = (traced.blamed.at, traced.blamed.at + traced.blamed.count - 1);
                grouped.entry(key).or_default().push((first, last));
                turns.extend(traced.turn.into_iter().chain(traced.sides).map(|turn| (turn.key(), turn)));
            }
        }
    }
    let whys = turns.iter().map(|(key, turn)| Ok((key.clone(), turn_why(ground, turn, Some(id), turns.len() == 1)?)));
    let turns = whys.collect::<Result<_, WhyError>>()?;
    let lines = grouped.into_iter().map(|((file, origin, turn), mut ranges)| {
        ranges.sort_unstable();
        let count = ranges.iter().map(|(first, last)| last - first + 1).sum();
        CommitLines { file, origin, turn, ranges: joined(&ranges), count }
    });
    Ok(CommitWhy {
        commit: id,
        what: merge_words::shown(ground, &known)?,
        body: known.message.body.clone(),
        lines: lines.collect(),
        turns,
        unread: ground.unread(),
    })
}

/// Lines of a file, the first and the last, with the turn that wrote them.
pub(crate) type TurnLines = (RepoPath, TurnFacts, (u32, u32));

/// The lines of turns that a commit of pleach has and none of its parents: file by file, each with the turn and where it is in
/// the file of the commit. None where somebody else has made the commit.
pub(crate) fn lines_of_its_own(
    ground: &WhyGround,
    trace: &Trace<'_>,
    id: CommitId,
) -> Result<Vec<TurnLines>, WhyError> {
    let known = ground.commit(id)?;
    let Some((parent, others)) = known.commit.parents.split_first().filter(|_| !known.is_cut_off) else {
        return Ok(Vec::new());
    };
    if !trace.is_of_pleach(&known)? {
        return Ok(Vec::new());
    }
    let mut own = Vec::new();
    for change in git::diff::changes(&ground.code, ground.tree(*parent)?, known.commit.tree)? {
        let content =
            |commit: &CommitId| Ok::<_, WhyError>(ground.code.tree_entry(ground.tree(*commit)?, &change.path)?);
        let here = content(&id)?;
        // What another parent has as it is was written there.
        if others.iter().map(content).any(|there| there.is_ok_and(|there| there == here)) {
            continue;
        }
        let request = BlameRequest { ignores_none: true, ..BlameRequest::default() };
        let mut lines = brought(ground, *parent, &known, &change, request)?;
        lines.retain(|lines| lines.commit == Some(id));
        for traced in trace.follow(lines)? {
            let BlamedLines { at, count, .. } = traced.blamed;
            own.extend(traced.turn.map(|turn| (change.path.clone(), turn.facts, (at, at + count - 1))));
        }
    }
    Ok(own)
}

/// The lines of a file that a commit has and its first parent has not.
fn brought(
    ground: &WhyGround,
    parent: CommitId,
    known: &KnownCommit,
    change: &TreeChange,
    request: BlameRequest<'_>,
) -> Result<Vec<BlamedLines>, WhyError> {
    let is_file = |kind| matches!(kind, EntryKind::File | EntryKind::Executable);
    let (old, new) = match change.kind {
        ChangeKind::Added(kind, blob) if is_file(kind) => (None, blob),
        ChangeKind::Modified((_, old), (kind, blob)) if is_file(kind) && old != blob => (Some(old), blob),
        _ => return Ok(Vec::new()),
    };
    let new = ground.code.blob(new)?;
    if !is_text(&new) {
        return Ok(Vec::new());
    }
    if known.commit.parents.len() > 1 {
        let request = BlameRequest { tip: Some(known.commit.id), below: Some(parent), ..request };
        let lines = blame(&ground.code, &change.path, &request)?;
        return Ok(lines.into_iter().filter(|lines| !lines.is_below).collect());
    }
    let old = old.map(|old| ground.code.blob(old)).transpose()?.unwrap_or_default();
    let lines = LineMap::new(&old, &new).new_lines().into_iter().map(|lines| BlamedLines {
        commit: Some(known.commit.id),
        path: change.path.clone(),
        line: lines.start + 1,
        at: lines.start + 1,
        count: lines.end - lines.start,
        previous: Some((parent, change.path.clone())),
        is_below: false,
    });
    Ok(lines.collect())
}

/// Ranges that touch, as one.
pub(crate) fn joined(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for (first, last) in ranges {
        match all.last_mut() {
            Some(before) if before.1 + 1 == *first => before.1 = *last,
            _ => all.push((*first, *last)),
        }
    }
    all
}
