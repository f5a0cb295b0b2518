//! The code between two points: of a run, of one of its parallel branches, or after a turn.

use std::fmt;

use engine::env::{Error, SessionRepos};
use engine::session::RunPoint;
use engine::view::{Deed, Summary, View};
use git::record::{CutTarget, NoCut};
use jiff::Timestamp;
use pleach_core::budget::Amount;
use pleach_core::event::Snapshot;
use pleach_core::ids::{CommitId, ContextId, RepoName, RepoPath, RunId, TurnId};
use serde::Serialize;

use super::row::{ChangedLines, ComparedRun};

/// A point that somebody names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// The newest code of a run.
    Run(RunId),
    /// That of one of its parallel branches.
    Branch(RunId, ContextId),
    /// The code after a turn.
    Turn(RunId, TurnId),
}

/// A point with its run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedPoint {
    /// How it is written: `abcdefgh/r1`, `abcdefgh/main.4`.
    pub name: String,
    /// Its run, up to there.
    #[serde(flatten)]
    pub run: ComparedRun,
    /// Its newest commits.
    pub commits: Snapshot,
}

/// The code between two points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// From here.
    pub a: ComparedPoint,
    /// To here.
    pub b: ComparedPoint,
    /// What differs in each repository.
    pub repos: Vec<RepoDifference>,
}

/// The code between two commits of a repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepoDifference {
    /// The repository.
    pub repo: RepoName,
    /// From this commit.
    pub from: CommitId,
    /// To this one.
    pub to: CommitId,
    /// The files that differ.
    pub files: Vec<FileDifference>,
    /// The lines that differ, unless they were only to be counted.
    pub patch: Option<String>,
}

/// How much of a file differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDifference {
    /// Which one.
    pub path: RepoPath,
    /// The lines that were added; none of a binary file.
    pub added: Option<u64>,
    /// The lines that were removed.
    pub removed: Option<u64>,
}

impl Operand {
    /// Its run.
    pub fn run(&self) -> &RunId {
        let (Self::Run(run) | Self::Branch(run, _) | Self::Turn(run, _)) = self;
        run
    }

    /// The commits it began with, and its newest ones. None if the run has no such branch.
    pub fn code(&self, repos: &SessionRepos, summary: &Summary) -> Result<Option<(Snapshot, Snapshot)>, Error> {
        let base = || summary.state.base.clone();
        match self {
            Self::Run(_) => Ok(Some((base(), summary.state.work.clone()))),
            Self::Branch(_, context) => summary.work_in(repos.record(), context),
            Self::Turn(run, turn) => {
                let point = RunPoint::read(repos, run, &CutTarget::Turn(turn.clone()))?;
                let then = point.states.get(&turn.context).ok_or_else(|| NoCut::NoTurn { turn: turn.clone() })?;
                Ok(Some((base(), then.work.clone())))
            }
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "{run}"),
            Self::Branch(run, context) => write!(f, "{}/{context}", run.session),
            Self::Turn(run, turn) => write!(f, "{}/{turn}", run.session),
        }
    }
}

impl ComparedPoint {
    /// Reads a point. None if the run has no such branch.
    pub fn read(repos: &SessionRepos, operand: &Operand) -> Result<Option<Self>, Error> {
        let view = View::load(repos.record(), operand.run())?;
        let Some((base, commits)) = operand.code(repos, &view.summary)? else { return Ok(None) };
        let row = ComparedRun::read(repos, &view)?;
        let row = match operand {
            Operand::Run(_) => row,
            Operand::Branch(_, context) => up_to(&view, row, context, None),
            Operand::Turn(_, turn) => up_to(&view, row, &turn.context, Some(turn)),
        };
        let lines = ChangedLines::between(repos, &base, &commits)?;
        let run = ComparedRun { files: lines.files, added: lines.added, removed: lines.removed, ..row };
        Ok(Some(Self { name: operand.to_string(), run, commits }))
    }
}

/// A row with the turns of one context alone, up to the last that counts.
fn up_to(view: &View, row: ComparedRun, context: &ContextId, last: Option<&TurnId>) -> ComparedRun {
    let is_own = |turn: &TurnId| turn.context == *context && last.is_none_or(|last| turn.number <= last.number);
    let (mut spent, mut turns, mut at) = (Amount::default(), 0, Vec::<Timestamp>::new());
    let (mut agents, mut models) = (Vec::new(), Vec::new());
    for turn in view.turns().into_iter().filter(|turn| is_own(&turn.turn)) {
        turns += 1;
        at.push(turn.at);
        if let Deed::Agent { agent, model, tokens, cost_usd, .. } = turn.deed {
            spent += Amount::of_call(tokens, cost_usd);
            agents.push(agent);
            models.push(model);
        }
    }
    for names in [&mut agents, &mut models] {
        names.sort();
        names.dedup();
    }
    let begun = if *context == row.run.root { Some(view.summary.started_at) } else { at.first().copied() };
    let took = begun.zip(at.last()).map(|(begun, end)| end.duration_since(begun).as_secs_f64());
    let (tokens, cost_usd, seconds) = (spent.tokens, spent.known_usd(), took.unwrap_or_default());
    ComparedRun { agents, models, turns, tokens, cost_usd, seconds, ..row }
}

impl Difference {
    /// The code from one point to another, as far as both are in the same repositories: with `paths` of these files and of
    /// what lies below them, and with `lines` the lines as well.
    pub fn between(
        repos: &SessionRepos,
        a: ComparedPoint,
        b: ComparedPoint,
        paths: &[RepoPath],
        lines: bool,
    ) -> Result<Self, Error> {
        let mut differences = Vec::new();
        for (name, repo) in repos.iter() {
            let (Some(from), Some(to)) = (a.commits.get(name), b.commits.get(name)) else { continue };
            let (old, new) = (repo.tree_of(*from)?, repo.tree_of(*to)?);
            let files = git::diff::stat(repo, old, new)?.into_iter().filter(|file| is_below(&file.path, paths));
            let files = files.map(|file| FileDifference {
                path: file.path,
                added: file.lines.map(|lines| lines.0),
                removed: file.lines.map(|lines| lines.1),
            });
            differences.push(RepoDifference {
                repo: name.clone(),
                from: *from,
                to: *to,
                files: files.collect(),
                patch: if lines { Some(git::diff::patch(repo, old, new, paths)?) } else { None },
            });
        }
        Ok(Self { a, b, repos: differences })
    }
}

/// Whether a file is one of these paths or lies below one, or any file is meant.
pub fn is_below(file: &RepoPath, paths: &[RepoPath]) -> bool {
    let within = |path: &RepoPath| {
        let rest = file.as_bytes().strip_prefix(path.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    paths.is_empty() || paths.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_or_a_directory() {
        let of = |file: &str, path: &str| is_below(&file.into(), &[path.into()]);
        assert!(of("src/a.rs", "src") && of("src/a.rs", "src/a.rs") && is_below(&"x".into(), &[]));
        assert!(!of("src2/a.rs", "src") && !of("src", "src/a.rs"));
    }
}
