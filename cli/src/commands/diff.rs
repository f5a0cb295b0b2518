//! `pleach diff`

use clap::Args;
use pleach::engine::Summary;
use pleach::git::{self, FileStat, Repo};
use pleach::ids::{CommitId, ContextId};
use pleach::record::contexts;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git};
use crate::render::{Out, Table, session::plain};
use crate::sessions::{self, SessionFilter};

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
    let repo = sessions::repository(globals)?;
    let (session, context) = match args.session.as_deref().map(|given| (given, given.split_once('/'))) {
        Some((_, Some((session, context)))) => (Some(session), Some(context)),
        Some((session, None)) => (Some(session), None),
        None => (None, None),
    };
    let id = sessions::named_or_newest(globals, &repo, session, SessionFilter::Any)?;
    let summary = Summary::newest(&repo, &id).map_err(|error| of_engine(&error))?;
    let (base, work) = match context {
        Some(context) => work_in(&repo, &summary, context)?,
        None => match summary.base().zip(summary.work()) {
            Some(both) => both,
            None => return Ok(Exit::Done),
        },
    };
    let compare = || {
        let (old, new) = (repo.tree_of(base)?, repo.tree_of(work)?);
        let patch = if args.stat { None } else { Some(git::diff::patch(&repo, old, new, &[])?) };
        let stat = if args.stat || globals.json { git::diff::stat(&repo, old, new)? } else { Vec::new() };
        Ok((patch, stat))
    };
    let (patch, stat) = compare().map_err(|error| of_git(&error))?;
    let mut out = Out::new();
    if globals.json {
        let file = |file: &FileStat| json!({"path": file.path, "added": file.lines.map(|lines| lines.0), "removed": file.lines.map(|lines| lines.1)});
        let files: Vec<_> = stat.iter().map(file).collect();
        let session = &summary.session;
        out.json(&json!({"session": session, "base": base, "commit": work, "files": files, "patch": patch}))?;
    } else if let Some(patch) = patch {
        out.text(&plain_patch(&patch))?;
    } else if stat.is_empty() {
        out.line("no file was changed")?;
    } else {
        out.line(table(&stat))?;
    }
    Ok(Exit::Done)
}

/// The commit a parallel branch was forked at, and its newest one.
fn work_in(repo: &Repo, summary: &Summary, context: &str) -> Result<(CommitId, CommitId), Failure> {
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

fn table(stat: &[FileStat]) -> String {
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
