//! A file, or some of its lines.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use engine::view::can_be_of_turn;
use git::blame::{BlameRequest, blame};
use git::record::History;
use pleach_core::ids::CommitId;

use super::document::{FileWhy, LineWhy, Origin, TurnWhy, WhyCommit};
use super::error::WhyError;
use super::ground::WhyGround;
use super::origin::Made;
use super::past::past_lines;
use super::start::{FileStart, LineRange};
use super::trace::{Trace, TracedLines, TurnCommit};
use super::{checks, merge_words, reason};

/// What is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct WhyOptions {
    /// Only these lines.
    pub lines: Option<LineRange>,
    /// Changes of blanks do not count.
    pub ignores_blanks: bool,
    /// What the lines were before as well, to the end.
    pub history: bool,
    /// What the turns were asked, what they said, and what has passed since.
    pub reasons: bool,
}

/// Why the lines of a file are there.
pub fn why_file(ground: &WhyGround, start: &FileStart, options: &WhyOptions) -> Result<FileWhy, WhyError> {
    let lines = options.lines.map(|lines| lines.first..=lines.last);
    let request = BlameRequest {
        tip: start.tip,
        contents: start.contents.as_deref(),
        lines: lines.into_iter().collect(),
        ignores_blanks: options.ignores_blanks,
        ..BlameRequest::default()
    };
    let trace = Trace::new(ground, start.tip, options.ignores_blanks)?;
    let traced = trace.follow(blame(&ground.code, &start.path, &request)?)?;
    let mut named = Named { ground, reasons: options.reasons, turns: BTreeMap::new(), commits: BTreeMap::new() };
    let mut shown: Vec<LineWhy> = Vec::new();
    for lines in traced {
        for turn in lines.turn.iter().chain(&lines.sides) {
            named.turn(turn, lines.blamed.commit)?;
        }
        for commit in [lines.blamed.commit, lines.reached.commit].into_iter().flatten() {
            named.commit(commit)?;
        }
        let mut line = line_why(&lines);
        let is_edited = matches!(lines.origin, Origin::Person | Origin::OtherAgent | Origin::Uncommitted);
        if options.history || options.reasons && is_edited && options.lines.is_some() {
            let most = if options.history { usize::MAX } else { 1 };
            for (past, turn) in past_lines(ground, &trace, start, &lines, most)? {
                if let Some(turn) = turn {
                    named.turn(&turn, None)?;
                }
                named.commit(past.commit)?;
                line.before.push(past);
            }
        }
        match shown.last_mut() {
            Some(last) if is_same(last, &line) => last.last = line.last,
            _ => shown.push(line),
        }
    }
    let Named { turns, commits, .. } = named;
    let unread = ground.unread();
    Ok(FileWhy { file: start.path.clone(), rev: start.rev, lines: shown, turns, commits, unread })
}

fn line_why(lines: &TracedLines) -> LineWhy {
    LineWhy {
        first: lines.blamed.at,
        last: lines.blamed.at + lines.blamed.count - 1,
        commit: lines.blamed.commit,
        path: lines.blamed.path.clone(),
        line: lines.blamed.line,
        origin: lines.origin,
        turn: lines.turn.as_ref().map(TurnCommit::key),
        step: lines.step.clone(),
        via: lines.via,
        evidence: lines.evidence,
        agent: lines.agent.clone(),
        sides: lines.sides.iter().map(TurnCommit::key).collect(),
        before: Vec::new(),
    }
}

/// Whether lines are there for the same reason as those before them, and were next to them in the commit as well.
fn is_same(last: &LineWhy, next: &LineWhy) -> bool {
    let follows = next.first == last.last + 1 && next.line == last.line + next.first - last.first;
    let place = LineWhy { first: last.first, last: last.last, line: last.line, ..next.clone() };
    follows && *last == place
}

/// The turns and commits that lines name, each read once.
struct Named<'g> {
    ground: &'g WhyGround,
    reasons: bool,
    turns: BTreeMap<String, TurnWhy>,
    commits: BTreeMap<CommitId, WhyCommit>,
}

impl Named<'_> {
    fn turn(&mut self, turn: &TurnCommit, landed: Option<CommitId>) -> Result<(), WhyError> {
        if let Entry::Vacant(place) = self.turns.entry(turn.key()) {
            place.insert(turn_why(self.ground, turn, landed, self.reasons)?);
        }
        Ok(())
    }

    fn commit(&mut self, commit: CommitId) -> Result<(), WhyError> {
        if let Entry::Vacant(place) = self.commits.entry(commit) {
            place.insert(merge_words::shown(self.ground, &*self.ground.commit(commit)?)?);
        }
        Ok(())
    }
}

/// What is known of a turn; with the reasons also what its record says.
pub fn turn_why(
    ground: &WhyGround,
    turn: &TurnCommit,
    landed: Option<CommitId>,
    reasons: bool,
) -> Result<TurnWhy, WhyError> {
    let known = ground.commit(turn.commit)?;
    let facts = &turn.facts;
    let mut why = TurnWhy {
        node: facts.node.clone(),
        visit: None,
        attempt: None,
        agent: None,
        model: facts.model.clone(),
        provider: facts.provider.clone(),
        at: known.commit.at,
        task: None,
        prompt: None,
        reason: None,
        reason_from: None,
        checked_by: Vec::new(),
        commit: turn.commit,
        record: false,
    };
    if reasons {
        let history = ground.context(&facts.session, &facts.turn.context);
        let names_turn = matches!(known.made, Made::Turn(_));
        let is_its =
            |history: &&History| !names_turn || can_be_of_turn(&ground.code, history, &facts.turn, &known.commit);
        let history = history.as_deref().filter(is_its);
        reason::fill(ground, history, facts, &known, &mut why)?;
        why.checked_by = checks::since(ground, history, facts, landed)?;
    }
    Ok(why)
}
