//! `pleach task show`

use clap::Args;
use engine::tree::ad_hoc::{TaskView, feedback_of, spent_on};
use pleach_core::clock;
use pleach_core::step::Feedback;
use pleach_core::text::listed;
use serde_json::{Value, json};

use super::ground::{TaskGround, task_json};
use super::list::state;
use crate::commands::inspect::what_failed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_tree};
use crate::render::session::{age, fields, plain};
use crate::render::{Out, spent};

/// Show a task: what is to be done, where it is, and what its last attempt failed with.
///
/// `pleach inspect ID` shows its steps, `pleach logs ID` their output.
#[derive(Debug, Args)]
pub struct ShowTaskArgs {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
}

pub fn run(globals: &Globals, args: &ShowTaskArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, None)?;
    let view = ground.view(&args.task)?;
    show(globals, &ground, &view)?;
    Ok(Exit::Done)
}

/// Shows a task.
pub fn show(globals: &Globals, ground: &TaskGround, view: &TaskView) -> Result<(), Failure> {
    let repo = &ground.place.repo;
    let worktree = ground.worktree(view)?.map(|found| found.path);
    let cost = spent_on(repo, &view.task.id).map_err(|error| of_engine(&error))?;
    let base = ground.settings.resolved.config.tree.base_branch.as_ref();
    let feedback = feedback_of(repo, view, &ground.settings.redactor(), &ground.place.branch_prefix, base);
    let feedback = feedback.map_err(|error| of_tree(&error))?;
    let mut out = Out::new();
    if globals.json {
        let mut document = task_json(view);
        document["worktree"] = json!(worktree);
        document["tokens"] = json!(cost.tokens);
        document["cost_usd"] = json!(cost.known_usd());
        document["feedback"] = json!(feedback);
        document["why_failed"] = view.state.why_failed().map_or(Value::Null, Value::String);
        return out.json(&document);
    }
    let task = &view.task;
    let path = repo.workdir().unwrap_or(repo.git_dir());
    let mut lines = vec![
        ("task", format!("{} {}", task.id, task.name)),
        ("state", state(repo, view)),
        ("repo", format!("{} ({})", task.repo, path.display())),
        ("target", task.target.to_string()),
        ("priority", task.priority.to_string()),
        ("attempts", view.state.attempts.to_string()),
    ];
    lines.extend(view.state.why_failed().map(|why| ("failed", why)));
    if !task.depends.is_empty() {
        lines.push(("depends on", listed(&task.depends, 20)));
    }
    if !task.touches.is_empty() {
        lines.push(("touches", listed(&task.touches, 20)));
    }
    for (key, value) in [("agent", &task.agent), ("model", &task.model), ("pipeline", &task.pipeline)] {
        lines.extend(value.clone().map(|value| (key, value)));
    }
    if let Some((branch, Some(tip))) = &view.branch {
        lines.push(("branch", format!("{branch} at {}", tip.short())));
    }
    lines.extend(worktree.map(|path| ("worktree", path.display().to_string())));
    lines.extend(view.session.as_ref().map(|session| ("session", session.to_string())));
    lines.extend(view.holder.as_ref().map(|holder| ("worked by", holder.text.clone())));
    lines.push(("spent", spent(&cost)));
    lines.push(("created", format!("{} ({} ago)", task.created, age(task.created, clock::now()))));
    lines.extend(task.cancelled.map(|at| ("cancelled", at.to_string())));
    lines.push(("description", task.description.clone()));
    out.line(fields(&lines))?;
    feedback.iter().try_for_each(|feedback| out.line(format!("\n{}", words(feedback))))
}

fn words(feedback: &Feedback) -> String {
    let text = plain(feedback.text.trim_end());
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}").trim_end().to_owned()).collect();
    format!("Feedback for the next attempt: {}\n{}", what_failed(feedback), lines.join("\n"))
}
