//! `pleach diff`

use clap::Args;
use engine::env::SessionRepos;
use engine::view::Summary;
use git::record::{History, contexts};
use git::{FileStat, Repo};
use history::compare::{ComparedPoint, Difference, FileDifference, Operand, is_below};
use pleach_core::event::Snapshot;
use pleach_core::ids::{CommitId, ContextId, RepoName, RepoPath, RunId, SessionId, TurnId};
use pleach_core::text::{counted, listed};
use serde_json::{Value, json};

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_record};
use crate::render::patch::shown_patch;
use crate::render::session::{heading, plain};
use crate::render::{Out, Pages, Table, comparison};
use crate::sessions::{self, SessionFilter, SessionGround};

/// Show what a session has changed, or the code between two points.
///
/// Compares the commit the session started at with its newest recorded one, whatever happened to the branches since. Of a
/// parallel branch, the commit it was forked at is compared with its newest one.
///
/// With two points it shows the code from the first to the second, below a table of both. A point is a session or one of
/// its runs (`SID`, `SID/r1`), a parallel branch (`SID/tests`), or the code after a turn (`SID/main.4`); they may be of
/// two sessions.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The session, or the beginning of its id; by default the newest. `SID/r1` is one of its replays, `SID/tests` one of
    /// its parallel branches, `SID/main.4` the code after a turn.
    #[arg(value_name = "POINT")]
    session: Option<String>,
    /// Show the code from the first point to this one.
    #[arg(value_name = "OTHER")]
    other: Option<String>,
    /// Count the lines of each file instead of showing them.
    #[arg(long)]
    stat: bool,
    /// Only these files and what is below these directories, from the root of the repository.
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<String>,
}

pub fn run(globals: &Globals, args: DiffArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let a = point(globals, &ground, args.session.as_deref())?;
    let mut paths: Vec<RepoPath> = args.paths.iter().map(|path| repo_path(path)).collect();
    if paths.iter().any(|path| path.as_bytes().is_empty()) {
        // The root is everything.
        paths.clear();
    }
    match args.other.as_deref() {
        Some(other) => {
            let b = point(globals, &ground, Some(other))?;
            let repos = ground.repos(&b.summary.started);
            let (a, b) = (a.read(&ground)?, b.read(&ground)?);
            check_paths(&repos, &[&a.commits, &b.commits], &paths)?;
            let difference = Difference::between(&repos, a, b, &paths, !args.stat);
            show(globals, &difference.map_err(|error| of_engine(&error))?, &paths)
        }
        None => changes(globals, &ground, &a, &paths, args.stat),
    }
}

/// A path as somebody types it.
fn repo_path(given: &str) -> RepoPath {
    let path = given.strip_prefix("./").unwrap_or(given).trim_end_matches('/');
    RepoPath::from(if path == "." { "" } else { path })
}

/// A point that was named.
struct NamedPoint {
    summary: Summary,
    operand: Operand,
}

impl NamedPoint {
    fn read(&self, ground: &SessionGround) -> Result<ComparedPoint, Failure> {
        let found = ComparedPoint::read(&ground.repos(&self.summary.started), &self.operand);
        found.map_err(|error| of_engine(&error))?.ok_or_else(|| self.is_missing(ground))
    }

    /// The commits it began with, and its newest ones.
    fn code(&self, repos: &SessionRepos, ground: &SessionGround) -> Result<(Snapshot, Snapshot), Failure> {
        let found = self.operand.code(repos, &self.summary).map_err(|error| of_engine(&error))?;
        found.ok_or_else(|| self.is_missing(ground))
    }

    fn is_missing(&self, ground: &SessionGround) -> Failure {
        let name = self.operand.to_string();
        no_branch(&ground.place.repo, &self.summary.session, name.split_once('/').map_or(&*name, |(_, name)| name))
    }
}

/// The point a text names: a run, a parallel branch, or a turn.
fn point(globals: &Globals, ground: &SessionGround, given: Option<&str>) -> Result<NamedPoint, Failure> {
    let repo = &ground.place.repo;
    let read = |run: &RunId| Summary::newest(repo, run).map_err(|error| of_engine(&error));
    let (summary, operand) = match given.and_then(|given| given.split_once('/')) {
        None => {
            let run = sessions::named_or_newest(globals, repo, given, SessionFilter::Any)?;
            (read(&run)?, Operand::Run(run))
        }
        Some((session, name)) => {
            let first = sessions::resolve(repo, session)?;
            let runs = History::runs(repo, &first.session).map_err(|error| of_record(&error))?;
            if let Ok(turn) = name.parse::<TurnId>() {
                let run = RunId::of_context(&first.session, &turn.context);
                sessions::check_run(repo, &run)?;
                let repos = ground.repos(&read(&run)?.started);
                let (run, turn) = sessions::named_turn(&repos, &run, name)?;
                (read(&run)?, Operand::Turn(run, turn))
            } else if let Some(run) = runs.iter().find(|run| run.root == *name) {
                (read(run)?, Operand::Run(run.clone()))
            } else {
                let context = name.parse::<ContextId>().map_err(|_| no_branch(repo, &first.session, name))?;
                let run = RunId::of_context(&first.session, &context);
                if !runs.contains(&run) {
                    return Err(no_branch(repo, &first.session, name));
                }
                (read(&run)?, Operand::Branch(run, context))
            }
        }
    };
    Ok(NamedPoint { summary, operand })
}

fn no_branch(repo: &Repo, session: &SessionId, name: &str) -> Failure {
    let names = contexts(repo, session).unwrap_or_default();
    let names: Vec<&str> = names.iter().map(ContextId::as_str).collect();
    Failure::new(Code::NoSuchBranch, format!("session {session} has no branch `{}`", plain(name)))
        .hint(format!("there are: {}", names.join(", ")))
}

/// A path that is in none of the repositories on either side is a mistake.
fn check_paths(repos: &SessionRepos, sides: &[&Snapshot], paths: &[RepoPath]) -> Result<(), Failure> {
    let has = |path: &RepoPath| -> Result<bool, git::Error> {
        for (name, repo) in repos.iter() {
            for commit in sides.iter().filter_map(|side| side.get(name)) {
                if repo.tree_entry(repo.tree_of(*commit)?, path)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    };
    for path in paths {
        if !has(path).map_err(|error| of_git(&error))? {
            let message = format!("`{}` is on neither side", plain(&path.to_string()));
            return Err(Failure::new(Code::NoSuchFile, message)
                .hint("paths are given from the root of the repository; without one all that differs is shown"));
        }
    }
    Ok(())
}

/// What differs between two points, in these files where some are named.
fn show(globals: &Globals, difference: &Difference, paths: &[RepoPath]) -> Result<Exit, Failure> {
    if globals.json {
        Out::new().json(&serde_json::to_value(difference).unwrap_or_default())?;
        return Ok(Exit::Done);
    }
    let Difference { a, b, repos } = difference;
    let mut text = String::new();
    if globals.verbosity >= 0 {
        let rows = [(a.name.as_str(), &a.run), (b.name.as_str(), &b.run)];
        text.push_str(&format!("{}\n\n", comparison::points(&rows)));
    }
    if repos.iter().all(|repo| repo.files.is_empty()) {
        let same = match paths {
            [] => "have the same code".to_owned(),
            paths => format!(
                "do not differ in {}",
                listed(paths.iter().map(|path| format!("`{}`", plain(&path.to_string()))), usize::MAX)
            ),
        };
        text.push_str(&format!("{} and {} {same}\n", a.name, b.name));
    }
    for repo in repos.iter().filter(|repo| !repo.files.is_empty()) {
        if repos.len() > 1 {
            text.push_str(&format!("{}\n", heading(repo.repo.as_str())));
        }
        let stat = |file: &FileDifference| FileStat { path: file.path.clone(), lines: file.added.zip(file.removed) };
        match &repo.patch {
            Some(patch) => text.push_str(&shown_patch(patch)),
            None => text.push_str(&format!("{}\n", table(&repo.files.iter().map(stat).collect::<Vec<_>>()))),
        }
    }
    Pages::new(globals)?.text(&text)?;
    Ok(Exit::Done)
}

/// What a point has changed since the session began.
fn changes(
    globals: &Globals,
    ground: &SessionGround,
    a: &NamedPoint,
    paths: &[RepoPath],
    only_stat: bool,
) -> Result<Exit, Failure> {
    let repos = ground.repos(&a.summary.started);
    let (base, work) = a.code(&repos, ground)?;
    check_paths(&repos, &[&base, &work], paths)?;
    let mut changes = Vec::new();
    for (name, repo) in repos.iter() {
        if let (Some(base), Some(work)) = (base.get(name), work.get(name)) {
            let change = RepoChange { repo: name, base: *base, work: *work, patch: None, stat: Vec::new() };
            changes.push(change.read(repo, paths, only_stat, globals.json)?);
        }
    }
    if globals.json {
        let of_record = changes.iter().find(|change| change.repo == repos.record_name());
        let mut document = of_record.map(RepoChange::json).unwrap_or_default();
        document["session"] = json!(a.summary.session);
        document["repos"] = changes.iter().map(RepoChange::json).collect();
        Out::new().json(&document)?;
        return Ok(Exit::Done);
    }
    let changed: Vec<&RepoChange> = changes.iter().filter(|change| !change.is_empty()).collect();
    if changed.is_empty() && only_stat {
        return Out::new().line("no file was changed").map(|()| Exit::Done);
    }
    let mut text = String::new();
    for change in changed {
        if changes.len() > 1 {
            text.push_str(&format!("{}\n", heading(change.repo.as_str())));
        }
        match &change.patch {
            Some(patch) => text.push_str(&shown_patch(patch)),
            None => text.push_str(&format!("{}\n", table(&change.stat))),
        }
    }
    Pages::new(globals)?.text(&text)?;
    Ok(Exit::Done)
}

/// What a session has changed in a repository.
struct RepoChange<'a> {
    repo: &'a RepoName,
    base: CommitId,
    work: CommitId,
    patch: Option<String>,
    stat: Vec<FileStat>,
}

impl RepoChange<'_> {
    fn read(self, repo: &Repo, paths: &[RepoPath], only_stat: bool, json: bool) -> Result<Self, Failure> {
        let read = || {
            let (old, new) = (repo.tree_of(self.base)?, repo.tree_of(self.work)?);
            let patch = if only_stat { None } else { Some(git::diff::patch(repo, old, new, paths)?) };
            let mut stat = if only_stat || json { git::diff::stat(repo, old, new)? } else { Vec::new() };
            stat.retain(|file| is_below(&file.path, paths));
            Ok(Self { patch, stat, ..self })
        };
        read().map_err(|error| of_git(&error))
    }

    fn is_empty(&self) -> bool {
        self.stat.is_empty() && self.patch.as_ref().is_none_or(String::is_empty)
    }

    fn json(&self) -> Value {
        let files: Vec<Value> = self.stat.iter().map(file_json).collect();
        json!({"repo": self.repo, "base": self.base, "commit": self.work, "files": files, "patch": self.patch})
    }
}

/// How many lines of a file have changed.
pub fn file_json(file: &FileStat) -> Value {
    json!({"path": file.path, "added": file.lines.map(|lines| lines.0), "removed": file.lines.map(|lines| lines.1)})
}

pub fn table(stat: &[FileStat]) -> String {
    let mut table = Table::new(["file", "added", "removed"]).right(1).right(2).path(0);
    for file in stat {
        let (added, removed) = match file.lines {
            Some((added, removed)) => (added.to_string(), removed.to_string()),
            None => ("binary".to_owned(), "binary".to_owned()),
        };
        table.row([plain(&file.path.to_string()), added, removed]);
    }
    let sum = |side: fn((u64, u64)) -> u64| stat.iter().filter_map(|file| file.lines).map(side).sum::<u64>();
    let files = counted(stat.len(), "file");
    table.row([files, sum(|lines| lines.0).to_string(), sum(|lines| lines.1).to_string()]);
    table.shown()
}
