//! `pleach logs`

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use engine::tree::{TaskLog, logs};
use git::Repo;
use pleach_core::ids::{RepoName, TaskId};
use pleach_core::text::listed;
use serde_json::{Value, json};

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_record};
use crate::render::tree::CUT_OFF;
use crate::render::{Out, Table};
use crate::sessions::resolve_scope;
use crate::tree::overview::{BrokenTree, TreeContext, TreeHistory};

/// List the logs of tasks, or print one.
///
/// They are read from the commits of the steps that wrote them, so those of failed attempts are listed too; with
/// `tree.commit_logs: false` from the records of their sessions. A tree's file need not exist; one that is not valid is
/// reported, and makes the exit code 2. For what happened when, in all runs, see `pleach log`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Only those of this task.
    #[arg(value_name = "TASK")]
    task: Option<TaskId>,
    /// Print this log: its path, its name if that is unique, or the commit of its step.
    #[arg(long, value_name = "FILE")]
    show: Option<String>,
    /// The tree; by default all of this branch.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
}

pub fn run(globals: &Globals, args: LogsArgs) -> Result<Exit, Failure> {
    let context = TreeContext::for_task(globals, args.task.as_ref())?;
    let trees = context.worked(args.tree.as_deref(), args.task.as_ref());
    let trees = trees.map_err(|failure| or_session(&context.place.repo, args.task.as_ref(), failure))?;
    let found = collect(&context, args.task.as_ref(), &trees)?;
    let mut out = Out::new();
    if let Some(name) = &args.show {
        let (log, bytes) = find(&context, &trees, &found, name)?;
        if globals.json {
            let mut document = log.json(&context.place.name);
            document["text"] = json!(String::from_utf8_lossy(&bytes));
            out.json(&document)?;
        } else {
            out.bytes(&bytes)?
        }
        return Ok(Exit::Done);
    }
    if globals.json {
        let documents = found.iter().map(|log| log.json(&context.place.name));
        let cut_off = trees.iter().any(TreeHistory::is_cut_off);
        out.json(&json!({"logs": documents.collect::<Vec<_>>(), "cut_off": cut_off}))?;
        return Ok(warn_incomplete(&trees));
    }
    if found.is_empty() {
        out.line("No logs yet.")?;
        return Ok(warn_incomplete(&trees));
    }
    let mut table = Table::new(["task", "step", "commit", "file"]).text(1).path(3).less([2]);
    for FoundLog { task, log, .. } in &found {
        table.row([task.to_string(), log.status.clone(), log.commit.short(), format!("{}{}", log.path, gone(log))]);
    }
    out.line(table.shown())?;
    Ok(warn_incomplete(&trees))
}

/// The failure where there is no such task; a session has no logs, but something happened in it.
fn or_session(repo: &Repo, task: Option<&TaskId>, failure: Failure) -> Failure {
    match task.map(|task| resolve_scope(repo, task.as_str())) {
        Some(Ok(run)) => {
            failure.hint(format!("it is a session: `pleach log {}` lists what happened in it", run.session()))
        }
        Some(Err(_)) | None => failure,
    }
}

/// A mark for a log that is not where its step says.
pub fn gone(log: &TaskLog) -> &'static str {
    if log.there || log.path.starts_with("refs/") { "" } else { " (not in the commit)" }
}

/// A log for programs.
pub fn log_json(log: &TaskLog) -> Value {
    json!({"step": log.status, "commit": log.commit, "path": log.path, "there": log.there})
}

/// Warns of a shallow history and of invalid trees; for those the exit code is 2, as that of `status`.
pub fn warn_incomplete(trees: &[TreeHistory]) -> Exit {
    if trees.iter().any(TreeHistory::is_cut_off) {
        warning!(ShallowClone, "{CUT_OFF}");
    }
    let broken = trees.iter().filter_map(|tree| tree.broken.as_ref());
    let invalid: Vec<&BrokenTree> = broken.filter(|tree| tree.invalid).collect();
    invalid.iter().for_each(|tree| warning!(TreeUnusable, "{}: {}", tree.path, tree.why));
    if invalid.is_empty() { Exit::Done } else { Exit::Usage }
}

/// A log, the task it is of, and the repository that has it if the tree has several.
#[derive(Debug, PartialEq)]
struct FoundLog {
    task: TaskId,
    repo: Option<RepoName>,
    log: TaskLog,
}

impl FoundLog {
    /// It for programs.
    fn json(&self, own: &RepoName) -> Value {
        let mut document = log_json(&self.log);
        document["task"] = json!(self.task);
        document["repo"] = json!(self.repo.as_ref().unwrap_or(own));
        document
    }
}

/// The repository that has what was done of a task.
pub fn repo_at<'a>(context: &'a TreeContext, tree: &'a TreeHistory, task: &TaskId) -> &'a Repo {
    tree.repo_of(task).map_or(&context.place.repo, |tree_repo| &tree_repo.repo)
}

/// The logs of the trees that are meant. What names no tree counts for every tree, and is listed once.
fn collect(context: &TreeContext, task: Option<&TaskId>, trees: &[TreeHistory]) -> Result<Vec<FoundLog>, Failure> {
    let mut found = Vec::new();
    for tree in trees {
        for (id, state) in tree.tasks().filter(|(id, _)| task.is_none_or(|task| task == *id)) {
            let repo = tree.repo_of(id).map(|tree_repo| tree_repo.name.clone());
            for log in logs(repo_at(context, tree, id), state).map_err(|error| of_git(&error))? {
                let log = FoundLog { task: id.clone(), repo: repo.clone(), log };
                if !found.contains(&log) {
                    found.push(log);
                }
            }
        }
    }
    Ok(found)
}

/// The name of a log for `--show`: its path, or the commit of its step where that is the record of all logs of a
/// session.
pub fn shown_by(log: &TaskLog) -> String {
    if log.session().is_some() { log.commit.short() } else { log.path.clone() }
}

/// The log of that name, and what it holds. A path that was written again is the newest, as is the record of a session.
fn find<'a>(
    context: &TreeContext,
    trees: &[TreeHistory],
    found: &'a [FoundLog],
    name: &str,
) -> Result<(&'a FoundLog, Vec<u8>), Failure> {
    let newest =
        |named: &dyn Fn(&TaskLog) -> bool| found.iter().rev().filter(|found| named(&found.log)).collect::<Vec<_>>();
    let mut named = newest(&|log| log.path == name);
    named.truncate(1);
    if named.is_empty() {
        let is_commit = |log: &TaskLog| name.len() >= 7 && log.commit.to_string().starts_with(name);
        named = newest(&|log| is_commit(log) || log.path.rsplit('/').next() == Some(name));
    }
    let names: BTreeSet<String> = named.iter().map(|found| shown_by(&found.log)).collect();
    if names.len() > 1 {
        let names = listed(names.iter().map(|name| format!("`{name}`")), 20);
        return Err(Failure::new(Code::LogAmbiguous, format!("several logs are named `{name}`"))
            .hint(format!("pass one to --show: {names}")));
    }
    let Some(&found) = named.first() else {
        return Err(Failure::new(Code::NoSuchLog, format!("there is no log `{name}`"))
            .hint("`pleach logs` lists what there is"));
    };
    let (task, log) = (&found.task, &found.log);
    let of_tree = trees
        .iter()
        .find_map(|tree| tree.repo_of(task).filter(|tree_repo| Some(&tree_repo.name) == found.repo.as_ref()));
    match log
        .read(of_tree.map_or(&context.place.repo, |tree_repo| &tree_repo.repo))
        .map_err(|error| of_record(&error))?
    {
        Some(bytes) => Ok((found, bytes)),
        None => {
            let short = log.commit.short();
            Err(match log.session() {
                Some(session) => Failure::new(
                    Code::NoSuchLog,
                    format!("the record of session {session} has no log of commit {short}"),
                )
                .hint("it may have been removed, or never been fetched"),
                None => Failure::new(Code::NoSuchLog, format!("commit {short} does not have `{name}`"))
                    .hint("the program that named it did not commit it"),
            })
        }
    }
}
