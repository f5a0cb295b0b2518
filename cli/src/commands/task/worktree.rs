//! `pleach task worktree`

use clap::Args;
use pleach_core::clock;
use serde_json::json;

use super::ground::TaskGround;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::Out;
use crate::render::session::{age, fields};

/// Show where a task is worked: the path of its worktree, its branch and its repository.
#[derive(Debug, Args)]
pub struct TaskWorktreeArgs {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
}

pub fn run(globals: &Globals, args: &TaskWorktreeArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, None)?;
    let view = ground.view(&args.task)?;
    let (task, repo) = (&view.task, &ground.place.repo);
    let found = ground.worktree(&view)?;
    let branch = view.branch.as_ref().filter(|(_, tip)| tip.is_some()).map(|(name, _)| name);
    let path = repo.workdir().unwrap_or(repo.git_dir());
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({
            "task": task.id, "worktree": found.as_ref().map(|found| &found.path), "branch": branch,
            "repo": task.repo, "repo_path": path, "state": found.as_ref().map(|found| found.word()),
            "created": found.as_ref().and_then(|found| found.created),
        }))?;
        return Ok(Exit::Done);
    }
    let mut lines = vec![("task", format!("{} {}", task.id, task.name))];
    match &found {
        Some(found) => {
            lines.push(("worktree", found.path.display().to_string()));
            lines.push(("state", found.word().to_owned()));
            lines.extend(found.created.map(|at| ("created", format!("{at} ({} ago)", age(at, clock::now())))));
        }
        None => lines.push(("worktree", "none: a task has one from its start until it lands".to_owned())),
    }
    lines.push(("branch", branch.map_or_else(|| "none".to_owned(), ToString::to_string)));
    lines.push(("repo", format!("{} ({})", task.repo, path.display())));
    out.line(fields(&lines))?;
    Ok(Exit::Done)
}
