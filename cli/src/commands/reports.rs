//! `pleach reports`

use std::path::PathBuf;

use clap::Args;
use git::Repo;
use pleach_core::ids::TaskId;
use pleach_core::progress::{StepCommit, TaskState};
use serde_json::{Value, json};

use crate::commands::logs::{repo_at, warn_incomplete};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_record;
use crate::render::{Out, Table};
use crate::tree::overview::{TreeContext, TreeHistory};

/// List the reports of completed tasks.
///
/// A tree's file need not exist; one that is not valid is reported, and makes the exit code 2.
#[derive(Debug, Args)]
pub struct ReportsArgs {
    /// Only those of this task.
    #[arg(value_name = "TASK")]
    task: Option<TaskId>,
    /// The tree; by default all of this branch.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
}

pub fn run(globals: &Globals, args: ReportsArgs) -> Result<Exit, Failure> {
    let context = TreeContext::for_task(globals, args.task.as_ref())?;
    let mut reports = Vec::new();
    let trees = context.worked(args.tree.as_deref(), args.task.as_ref())?;
    let is_meant = |(id, _): &(&TaskId, &TaskState)| args.task.as_ref().is_none_or(|task| task == *id);
    for tree in &trees {
        for (id, state) in tree.tasks().filter(is_meant) {
            for found in &state.steps {
                let Some(path) = &found.step.report else { continue };
                let mut report = report(repo_at(&context, tree, id), id, found, path)?;
                report["repo"] = json!(tree.repo_of(id).map_or(&context.place.name, |tree_repo| &tree_repo.name));
                if !reports.contains(&report) {
                    reports.push(report);
                }
            }
        }
    }
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"reports": reports, "cut_off": trees.iter().any(TreeHistory::is_cut_off)}))?;
        return Ok(warn_incomplete(&trees));
    }
    if reports.is_empty() {
        out.line("No reports yet.")?;
        return Ok(warn_incomplete(&trees));
    }
    let mut table = Table::new(["task", "result", "attempts", "tests", "commit", "file"]).right(2).path(5).less([4]);
    for report in &reports {
        let holds = &report["report"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tests = match (holds["tested"].as_bool(), holds["tests"].as_object()) {
            (Some(false), _) => "untested".to_owned(),
            (_, Some(counts)) => {
                let count = |what: &str| counts.get(what).and_then(Value::as_u64).unwrap_or_default();
                let failed = Some(count("failed")).filter(|failed| *failed > 0);
                format!("{} passed", count("passed"))
                    + &failed.map(|failed| format!(", {failed} failed")).unwrap_or_default()
            }
            _ => String::new(),
        };
        let commit: String = text(&report["commit"]).chars().take(10).collect();
        let attempts = holds["retries"].as_u64().map(|retries| (retries + 1).to_string()).unwrap_or_default();
        table.row([text(&report["task"]), text(&holds["result"]), attempts, tests, commit, text(&report["path"])]);
    }
    out.line(table.shown())?;
    Ok(warn_incomplete(&trees))
}

/// A report with what it holds; nothing when neither the commit nor the session's record has it.
fn report(repo: &Repo, task: &TaskId, found: &StepCommit, path: &str) -> Result<Value, Failure> {
    let holds = match engine::tree::report(repo, found) {
        // What is there is listed also where the remote that has the rest cannot be reached.
        Err(error) if repo.is_partial() => {
            warning!(ReportUnreadable, "cannot read the report of {task}: {error}");
            None
        }
        holds => holds.map_err(|error| of_record(&error))?,
    };
    Ok(json!({"task": task, "commit": found.commit, "at": found.at, "path": path, "report": holds}))
}
