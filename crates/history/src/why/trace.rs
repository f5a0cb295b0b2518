//! Following lines from commit to commit, to those they were written in.

use std::collections::BTreeMap;

use git::blame::{BlameRequest, BlamedLines, blame};
use git::{ChangeKind, Repo};
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::{LineMap, MergeOrigin, Tier};
use pleach_core::trailer::TurnFacts;

use super::ai_note::AiNotes;
use super::at_once::at_once;
use super::document::{Evidence, Origin, Via};
use super::error::WhyError;
use super::ground::WhyGround;
use super::memo::{FoundLines, Memo};
use super::origin::{KnownCommit, Made};
use super::own_commits::OwnCommits;
use super::sources::Sources;
use super::squash::Squashes;
use super::work_source::WorkSource;

/// How many commits lines are followed over.
const HOPS: usize = 8;

/// A turn by name: what its trailers say, and its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnCommit {
    /// What the trailers say.
    pub facts: TurnFacts,
    /// The commit.
    pub commit: CommitId,
}

impl TurnCommit {
    /// `SESSION/main.4`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.facts.session, self.facts.turn)
    }
}

/// Lines, and where they are from as far as is known.
#[derive(Debug, Clone)]
pub struct TracedLines {
    /// Those git blames in the file that was asked about.
    pub blamed: BlamedLines,
    /// The commit they were followed to, and the lines there.
    pub reached: BlamedLines,
    /// Who they are of.
    pub origin: Origin,
    /// The turn.
    pub turn: Option<TurnCommit>,
    /// The subject of the newest step they came by.
    pub step: Option<String>,
    /// How they came into the commit that git blames.
    pub via: Option<Via>,
    /// How that is known.
    pub evidence: Option<Evidence>,
    /// The agent, where pleach did not run it.
    pub agent: Option<String>,
    /// The turns of both sides of a merge.
    pub sides: Vec<TurnCommit>,
}

/// What is needed to follow lines.
#[derive(Debug)]
pub struct Trace<'g> {
    ground: &'g WhyGround,
    ignores_blanks: bool,
    notes: AiNotes,
    squashes: Squashes,
    own_commits: OwnCommits,
    memo: Memo,
}

/// The lines of a file in a commit that are to be followed.
type Pending = BTreeMap<(CommitId, RepoPath), Vec<TracedLines>>;

/// What `git blame` is asked: a commit, where to stop, and the file.
type BlameKey = (CommitId, Option<CommitId>, RepoPath);

impl<'g> Trace<'g> {
    /// For lines of what `tip` has in its history.
    pub fn new(ground: &'g WhyGround, tip: Option<CommitId>, ignores_blanks: bool) -> Result<Self, WhyError> {
        Ok(Self {
            ground,
            ignores_blanks,
            notes: AiNotes::find(&ground.code)?,
            squashes: Squashes::default(),
            own_commits: OwnCommits::new(tip),
            memo: Memo::new(ground.code.common_dir(), ignores_blanks),
        })
    }

    /// Follows lines that git blames on commits.
    pub fn follow(&self, lines: Vec<BlamedLines>) -> Result<Vec<TracedLines>, WhyError> {
        let begun = |blamed: BlamedLines| TracedLines {
            reached: blamed.clone(),
            blamed,
            origin: Origin::Uncommitted,
            turn: None,
            step: None,
            via: None,
            evidence: None,
            agent: None,
            sides: Vec::new(),
        };
        let mut done = self.follow_all(lines.into_iter().map(begun).collect())?;
        self.add_sides(&mut done)?;
        done.sort_by_key(|lines| lines.blamed.at);
        Ok(done)
    }

    /// Whether a run has made a commit, or pleach from what runs have made.
    pub fn is_of_pleach(&self, known: &KnownCommit) -> Result<bool, WhyError> {
        if !matches!(known.made, Made::Plain(..)) {
            return Ok(true);
        }
        self.own_commits.prepare(self.ground, known.commit.at)?;
        Ok(self.own_commits.joined_by(known.commit.id).is_some())
    }

    fn follow_all(&self, begun: Vec<TracedLines>) -> Result<Vec<TracedLines>, WhyError> {
        let (mut done, mut open) = (Vec::new(), begun);
        for hop in 0..=HOPS {
            self.prepare(&open)?;
            let mut pending = Pending::new();
            for mut lines in std::mem::take(&mut open) {
                let Some(commit) = lines.reached.commit else {
                    done.push(lines);
                    continue;
                };
                let known = self.ground.commit(commit)?;
                if self.is_settled(&mut lines, &known)? {
                    done.push(lines);
                    continue;
                }
                pending.entry((commit, lines.reached.path.clone())).or_default().push(lines);
            }
            if pending.is_empty() {
                break;
            }
            let found = if hop < HOPS { self.find(&pending)? } else { BTreeMap::new() };
            for (key, all) in pending {
                let known = self.ground.commit(key.0)?;
                let found = found.get(&key).map_or(&[][..], |found| found);
                for lines in all {
                    for (lines, is_found) in split(lines, found) {
                        if is_found {
                            open.push(lines);
                        } else {
                            done.extend(self.left(lines, &known)?);
                        }
                    }
                }
            }
        }
        Ok(done)
    }

    /// Looks for the turns that joined commits of agents, as far back as there are commits that may be such.
    fn prepare(&self, open: &[TracedLines]) -> Result<(), WhyError> {
        let mut oldest = None;
        for commit in open.iter().filter_map(|lines| lines.reached.commit) {
            let known = self.ground.commit(commit)?;
            if matches!(&known.made, Made::Plain(named, _) if named.is_empty()) {
                oldest = Some(oldest.map_or(known.commit.at, |at: jiff::Timestamp| at.min(known.commit.at)));
            }
        }
        oldest.map_or(Ok(()), |since| self.own_commits.prepare(self.ground, since))
    }

    /// Whether the commit itself says who its lines are of.
    fn is_settled(&self, lines: &mut TracedLines, known: &KnownCommit) -> Result<bool, WhyError> {
        if known.is_cut_off {
            lines.origin = Origin::Before;
            return Ok(true);
        }
        match &known.made {
            Made::Turn(facts) => {
                lines.origin = Origin::Turn;
                lines.turn = Some(TurnCommit { facts: facts.clone(), commit: known.commit.id });
                return Ok(true);
            }
            Made::Step(_) => lines.step = lines.step.take().or_else(|| Some(known.message.subject.clone())),
            Made::Plain(named, _) if named.is_empty() => {
                if let Some((commit, facts)) = self.own_commits.joined_by(known.commit.id) {
                    lines.origin = Origin::Turn;
                    lines.turn = Some(TurnCommit { facts, commit });
                    return Ok(true);
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// Lines that lead nowhere else: they are of who made the commit.
    fn left(&self, mut lines: TracedLines, known: &KnownCommit) -> Result<Vec<TracedLines>, WhyError> {
        lines.origin = match &known.made {
            Made::Turn(_) => Origin::Turn,
            Made::Step(_) => Origin::Step,
            Made::Queue(_) => match MergeOrigin::read(&known.message).map(|origin| origin.tier) {
                Some(Tier::Person) => Origin::Person,
                _ => Origin::Merge,
            },
            Made::FanIn(..) => Origin::Merge,
            Made::Undo(_) | Made::Return(..) | Made::Restart => Origin::Restored,
            Made::Plain(_, agent) => {
                lines.agent.clone_from(agent);
                let notes = self.notes.of(&self.ground.code, known.commit.id)?;
                let path = lines.reached.path.clone();
                let mut parts = vec![lines];
                for noted in notes.iter().filter(|noted| noted.path == path) {
                    parts = parts.into_iter().flat_map(|part| cut(part, &noted.lines)).collect();
                    for part in parts.iter_mut().filter(|part| noted.lines.contains(&part.reached.line)) {
                        part.agent = Some(noted.agent.clone());
                    }
                }
                for part in &mut parts {
                    part.origin = if part.agent.is_some() { Origin::OtherAgent } else { Origin::Person };
                }
                return Ok(parts);
            }
        };
        Ok(vec![lines])
    }

    /// For each file of a commit the lines in it that are those of other commits.
    fn find(&self, pending: &Pending) -> Result<BTreeMap<(CommitId, RepoPath), Vec<FoundLines>>, WhyError> {
        let (mut found, mut open) = (BTreeMap::new(), Vec::new());
        for key in pending.keys() {
            found.extend(self.kept(key).map(|kept| (key.clone(), kept)));
        }
        let unknown: Vec<&(CommitId, RepoPath)> = pending.keys().filter(|key| !found.contains_key(*key)).collect();
        self.read_ahead(&unknown)?;
        for key in unknown {
            let known = self.ground.commit(key.0)?;
            let sources = Sources::find(self.ground, &self.squashes, &known, &key.1)?;
            if sources.all.is_empty() {
                continue;
            }
            let Some(content) = self.ground.content(key.0, &key.1)? else { continue };
            let mut files = Vec::new();
            for source in &sources.all {
                files.extend(self.file_in(source, &key.1, &content)?.map(|(path, old)| (source.clone(), path, old)));
            }
            open.push((key.clone(), sources, content, files));
        }
        let asked = open.iter().flat_map(|(.., files)| files);
        let blamed =
            self.blame_all(asked.map(|(source, path, _)| (source.tip, source.base, path.clone())).collect())?;
        for (key, sources, content, files) in open {
            let mut lines = Vec::new();
            for (source, path, old) in &files {
                let blamed = &blamed[&(source.tip, source.base, path.clone())];
                add_found(&mut lines, source, &LineMap::new(old, &content), blamed);
            }
            lines.sort_by_key(|lines: &FoundLines| lines.at);
            if sources.is_final {
                self.memo.save(key.0, &key.1, sources.sessions, &lines);
            }
            found.insert(key, lines);
        }
        Ok(found)
    }

    /// Reads the sessions of steps, which are many in a tree.
    fn read_ahead(&self, keys: &[&(CommitId, RepoPath)]) -> Result<(), WhyError> {
        let mut sessions = Vec::new();
        for (commit, _) in keys {
            if let Made::Step(Some(session)) = &self.ground.commit(*commit)?.made {
                sessions.push(session.clone());
            }
        }
        self.ground.read_ahead(sessions);
        Ok(())
    }

    /// What was found before, where what it was found by is still there.
    fn kept(&self, key: &(CommitId, RepoPath)) -> Option<Vec<FoundLines>> {
        let kept = self.memo.load(key.0, &key.1)?;
        let refs = self.ground.records.refs();
        let is_there = |session| matches!(refs.find(&git::record::root_ref(session)), Ok(Some(_)));
        let has_entry = match &self.ground.commit(key.0).ok()?.made {
            Made::Queue(entry) | Made::Undo(entry) => matches!(self.ground.entry(entry), Ok(Some(_))),
            _ => true,
        };
        let has_all = || kept.lines.iter().all(|lines| self.ground.commit(lines.commit).is_ok());
        (has_entry && kept.sessions.iter().all(is_there) && has_all()).then_some(kept.lines)
    }

    /// The file in a source: under the same name, or that of the changed file with the most lines in common.
    fn file_in(
        &self,
        source: &WorkSource,
        path: &RepoPath,
        content: &[u8],
    ) -> Result<Option<(RepoPath, Vec<u8>)>, WhyError> {
        if let Some(old) = self.ground.content(source.tip, path)? {
            return Ok(Some((path.clone(), old)));
        }
        let Some(base) = source.base else { return Ok(None) };
        let mut best: Option<(u32, RepoPath, Vec<u8>)> = None;
        for change in git::diff::changes(&self.ground.code, self.ground.tree(base)?, self.ground.tree(source.tip)?)? {
            if matches!(change.kind, ChangeKind::Removed(..)) {
                continue;
            }
            let Some(old) = self.ground.content(source.tip, &change.path)? else { continue };
            let common = LineMap::new(&old, content).equal().iter().map(|(.., count)| count).sum();
            if common > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((common, change.path, old));
            }
        }
        Ok(best.map(|(_, path, old)| (path, old)))
    }

    /// Blames several files, a few at once.
    fn blame_all(&self, mut asked: Vec<BlameKey>) -> Result<BTreeMap<BlameKey, Vec<BlamedLines>>, WhyError> {
        asked.sort();
        asked.dedup();
        let (repo, ignores_blanks) = (&self.ground.code, self.ignores_blanks);
        let answers = at_once(&asked, |key| blame_below(repo, key, ignores_blanks));
        Ok(asked.into_iter().zip(answers).map(|(key, answer)| Ok((key, answer?))).collect::<Result<_, git::Error>>()?)
    }

    /// Adds the turns of both sides to lines that neither of them has.
    fn add_sides(&self, done: &mut [TracedLines]) -> Result<(), WhyError> {
        for lines in done.iter_mut().filter(|lines| lines.origin == Origin::Merge) {
            let Some(commit) = lines.reached.commit else { continue };
            let known = self.ground.commit(commit)?;
            let Some(content) = self.ground.content(commit, &lines.reached.path)? else { continue };
            for side in Sources::sides(self.ground, &known)? {
                let Some(old) = self.ground.content(side, &lines.reached.path)? else { continue };
                let map = LineMap::new(&old, &content);
                let Some((before, _)) = map.replaced(lines.reached.line - 1).filter(|(old, _)| !old.is_empty()) else {
                    continue;
                };
                let request = BlameRequest {
                    tip: Some(side),
                    lines: vec![before.start + 1..=before.end],
                    ignores_blanks: self.ignores_blanks,
                    ..BlameRequest::default()
                };
                let of_side = blame(&self.ground.code, &lines.reached.path, &request)?;
                let of_side = of_side.into_iter().map(|blamed| TracedLines {
                    reached: blamed.clone(),
                    blamed,
                    origin: Origin::Uncommitted,
                    sides: Vec::new(),
                    ..lines.clone()
                });
                for turn in self.follow_all(of_side.collect())?.into_iter().filter_map(|of_side| of_side.turn) {
                    if !lines.sides.contains(&turn) {
                        lines.sides.push(turn);
                    }
                }
            }
        }
        Ok(())
    }
}

fn blame_below(repo: &Repo, key: &BlameKey, ignores_blanks: bool) -> Result<Vec<BlamedLines>, git::Error> {
    let (tip, base, path) = key;
    let request =
        BlameRequest { tip: Some(*tip), below: *base, ignores_blanks, ignores_none: true, ..BlameRequest::default() };
    blame(repo, path, &request)
}

/// Adds the lines that are in a source and were written there, where none was found before.
fn add_found(found: &mut Vec<FoundLines>, source: &WorkSource, map: &LineMap, blamed: &[BlamedLines]) {
    let mut runs = Vec::new();
    for (old, new, count) in map.equal() {
        for lines in blamed.iter().filter(|lines| !lines.is_below && lines.commit != source.base) {
            let (first, last) = ((old + 1).max(lines.at), (old + count).min(lines.at + lines.count - 1));
            if let Some(commit) = lines.commit.filter(|_| first <= last) {
                runs.push(FoundLines {
                    at: new + first - old,
                    count: last - first + 1,
                    commit,
                    path: lines.path.clone(),
                    line: lines.line + first - lines.at,
                    previous: lines.previous.clone(),
                    via: source.via,
                    evidence: source.evidence,
                });
            }
        }
    }
    let before = found.clone();
    for run in runs {
        let mut free = vec![run];
        for taken in &before {
            free = free.into_iter().flat_map(|run| without(run, taken)).collect();
        }
        found.extend(free);
    }
}

/// What of some lines others have not taken.
fn without(run: FoundLines, taken: &FoundLines) -> Vec<FoundLines> {
    let (end, taken_end) = (run.at + run.count, taken.at + taken.count);
    if taken.at >= end || taken_end <= run.at {
        return vec![run];
    }
    let mut parts = Vec::new();
    if run.at < taken.at {
        parts.push(FoundLines { count: taken.at - run.at, ..run.clone() });
    }
    if taken_end < end {
        let (count, line) = (end - taken_end, run.line + taken_end - run.at);
        parts.push(FoundLines { at: taken_end, count, line, ..run });
    }
    parts
}

/// Lines of a file divided where others begin and end: each with whether it was found elsewhere.
fn split(lines: TracedLines, found: &[FoundLines]) -> Vec<(TracedLines, bool)> {
    let mut parts = Vec::new();
    let (mut at, end) = (lines.reached.line, lines.reached.line + lines.reached.count);
    let from = found.partition_point(|found| found.at + found.count <= at);
    for of in found[from..].iter().take_while(|of| of.at < end) {
        if at < of.at {
            parts.push((part(&lines, at, of.at), false));
        }
        let (start, stop) = (at.max(of.at), end.min(of.at + of.count));
        let mut piece = part(&lines, start, stop);
        piece.reached = BlamedLines {
            commit: Some(of.commit),
            path: of.path.clone(),
            line: of.line + start - of.at,
            previous: of.previous.clone(),
            ..piece.reached
        };
        piece.via = piece.via.or(Some(of.via));
        piece.evidence = piece.evidence.or(Some(of.evidence));
        parts.push((piece, true));
        at = stop;
    }
    if at < end {
        parts.push((part(&lines, at, end), false));
    }
    parts
}

/// Lines divided where a range begins and ends.
fn cut(lines: TracedLines, range: &std::ops::RangeInclusive<u32>) -> Vec<TracedLines> {
    let (start, end) = (lines.reached.line, lines.reached.line + lines.reached.count);
    let mut edges = vec![start, (*range.start()).clamp(start, end), (range.end() + 1).clamp(start, end), end];
    edges.dedup();
    edges.windows(2).map(|edge| part(&lines, edge[0], edge[1])).collect()
}

/// Some of the lines, as they are counted in the commit they were followed to.
fn part(lines: &TracedLines, start: u32, end: u32) -> TracedLines {
    let by = start - lines.reached.line;
    let shift = |of: &BlamedLines| BlamedLines { line: of.line + by, at: of.at + by, count: end - start, ..of.clone() };
    TracedLines { blamed: shift(&lines.blamed), reached: shift(&lines.reached), ..lines.clone() }
}
