//! `pleach diff`

use clap::Args;
use engine::view::Summary;
use git::record::contexts;
use git::{FileStat, Repo};
use pleach_core::event::Snapshot;
use pleach_core::ids::{CommitId, ContextId, RepoName};
use serde_json::{Value, json};

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git};
use crate::render::{Out, Table, session::plain};
use crate::sessions::{self, SessionFilter, SessionGround};

/// Show everything a session has changed.
///
/// Compares the commit the session started at with its newest recorded one, whatever happened to the branches since. Of a
/// parallel branch, the commit it was forked at is compared with its newest one.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The session, or the beginning of its id; by default the newest. `SESSION/CONTEXT` is one of its parallel branches.
    session: Option<String>,
    /// Count the lines of each file instead of showing them.
    #[arg(long)]
    stat: bool,
}

pub fn run(globals: &Globals, args: DiffArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let repo = &ground.place.repo;
    let (session, context) = match args.session.as_deref().map(|given| (given, given.split_once('/'))) {
        Some((_, Some((session, context)))) => (Some(session), Some(context)),
        Some((session, None)) => (Some(session), None),
        None => (None, None),
    };
    let id = sessions::named_or_newest(globals, repo, session, SessionFilter::Any)?;
    let summary = Summary::newest(repo, &id).map_err(|error| of_engine(&error))?;
    let (base, work) = match context {
        Some(context) => work_in(repo, &summary, context)?,
        None => (summary.state.base.clone(), summary.state.work.clone()),
    };
    let repos = ground.repos(&summary.started);
    let mut changes = Vec::new();
    for (name, repo) in repos.iter() {
        if let (Some(base), Some(work)) = (base.get(name), work.get(name)) {
            changes.push(RepoChange::read(name, repo, *base, *work, args.stat, globals.json)?);
        }
    }
    let mut out = Out::new();
    if globals.json {
        let of_record = changes.iter().find(|change| change.repo == repos.record_name());
        let mut document = of_record.map(RepoChange::json).unwrap_or_default();
        document["session"] = json!(summary.session);
        document["repos"] = changes.iter().map(RepoChange::json).collect();
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let changed: Vec<&RepoChange> = changes.iter().filter(|change| !change.is_empty()).collect();
    if changed.is_empty() && args.stat {
        out.line("no file was changed")?;
    }
    for change in changed {
        if changes.len() > 1 {
            out.line(format!("── {}", change.repo))?;
        }
        match &change.patch {
            Some(patch) => out.text(&plain_patch(patch))?,
            None => out.line(table(&change.stat))?,
        }
    }
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

impl<'a> RepoChange<'a> {
    fn read(
        name: &'a RepoName,
        repo: &Repo,
        base: CommitId,
        work: CommitId,
        only_stat: bool,
        json: bool,
    ) -> Result<Self, Failure> {
        let read = || {
            let (old, new) = (repo.tree_of(base)?, repo.tree_of(work)?);
            let patch = if only_stat { None } else { Some(git::diff::patch(repo, old, new, &[])?) };
            let stat = if only_stat || json { git::diff::stat(repo, old, new)? } else { Vec::new() };
            Ok(Self { repo: name, base, work, patch, stat })
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

/// The commits a parallel branch was forked at, and its newest ones.
fn work_in(repo: &Repo, summary: &Summary, context: &str) -> Result<(Snapshot, Snapshot), Failure> {
    let found = match context.parse::<ContextId>() {
        Ok(context) => summary.work_in(repo, &context).map_err(|error| of_engine(&error))?,
        Err(_) => None,
    };
    found.ok_or_else(|| {
        let names = contexts(repo, &summary.session).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(ContextId::as_str).collect();
        let message = format!("session {} has no branch `{}`", summary.session, plain(context));
        Failure::new(Code::NoSuchBranch, message).hint(format!("there are: {}", names.join(", ")))
    })
}

/// A patch for a terminal. Carriage returns are part of lines and stay.
pub fn plain_patch(patch: &str) -> String {
    patch
        .split_inclusive('\n')
        .map(|line| match line.strip_suffix("\r\n") {
            Some(line) => format!("{}\r\n", plain(line)),
            None => plain(line),
        })
        .collect()
}

pub fn table(stat: &[FileStat]) -> String {
    let mut table = Table::new(["file", "added", "removed"]).right(1).right(2);
    for file in stat {
        let (added, removed) = match file.lines {
            Some((added, removed)) => (added.to_string(), removed.to_string()),
            None => ("binary".to_owned(), "binary".to_owned()),
        };
        table.row([plain(&file.path.to_string()), added, removed]);
    }
    let sum = |side: fn((u64, u64)) -> u64| stat.iter().filter_map(|file| file.lines).map(side).sum::<u64>();
    let files = format!("{} files", stat.len());
    table.row([files, sum(|lines| lines.0).to_string(), sum(|lines| lines.1).to_string()]);
    table.to_string()
}
