//! `pleach skip`

use std::path::PathBuf;

use clap::Args;
use engine::tree::{self, Mark, PreparedMark};
use git::workspace::LockError;
use pleach_core::ids::TaskId;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_tree;
use crate::render::Out;
use crate::tree::overview::TreeContext;

/// Count a task as complete without doing it.
///
/// Tasks that depend on it may start then. The decision is a commit on the branch that is checked out, which changes no
/// file; `pleach reset` undoes it. While a run works on the tree, the decision is queued, and the run writes it.
#[derive(Debug, Args)]
pub struct SkipArgs {
    #[command(flatten)]
    task: MarkArgs,
}

/// The arguments of `skip` and `reset`.
#[derive(Debug, Args)]
pub struct MarkArgs {
    /// The task.
    #[arg(value_name = "TASK")]
    task: TaskId,
    /// The tree, if several have the task.
    #[arg(long, value_name = "FILE")]
    tree: Option<PathBuf>,
    /// Show what would be committed, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(globals: &Globals, args: SkipArgs) -> Result<Exit, Failure> {
    mark(globals, &args.task, Mark::Skip)
}

/// Writes a decision about a task.
pub fn mark(globals: &Globals, args: &MarkArgs, mark: Mark) -> Result<Exit, Failure> {
    let context = TreeContext::to_decide(globals, &args.task, args.dry_run)?;
    let tree = context.tree_of(args.tree.as_deref(), &args.task)?;
    let (context, tree) = context.at_task(&tree, &args.task).unwrap_or((context, tree));
    let marking = context.marking(&tree.file);
    let task = &args.task;
    if !tree.node(task).is_leaf() {
        return Err(Failure::new(Code::TaskIsGroup, format!("`{task}` is a group of tasks"))
            .hint("name one of its tasks; `pleach status -v` lists them"));
    }
    let (done, already) = match mark {
        Mark::Skip => ("skipped", "complete"),
        Mark::Reset => ("reset", "pending"),
    };
    let on = match tree.repo_of(task) {
        Some(repo) => format!("`{}` of {repo}", context.target),
        None => format!("`{}`", context.target),
    };
    let mut out = Out::new();
    let nothing = |out: &mut Out| {
        if globals.json {
            out.json(&json!({"task": task, "changed": false, "commit": null, "repo": context.place.name}))
        } else {
            out.line(format!("nothing to do: {task} is {already} already"))
        }
    };
    let redactor = context.settings.redactor();
    if args.dry_run {
        match marking.prepare(task, mark, &redactor).map_err(|error| of_tree(&error))? {
            None => nothing(&mut out)?,
            Some(PreparedMark { run_start, message, session, removed }) if globals.json => {
                let run_start = run_start.map(|message| message.write());
                out.json(&json!({
                    "task": task, "changed": false, "dry_run": true, "run_start": run_start, "message": message.write(), "repo": context.place.name,
                    "cancelled_session": session, "removed_branch": removed,
                }))?;
            }
            Some(PreparedMark { run_start, message, session, removed }) => {
                out.line(format!("would commit on {on}:\n"))?;
                if let Some(run_start) = run_start {
                    out.text(&run_start.write())?;
                    out.line("\nand then:\n")?;
                }
                out.text(&message.write())?;
                if let Some(session) = session {
                    out.line(format!("\nand cancel session {session}, which works on it"))?;
                }
                if let Some(branch) = removed {
                    out.line(format!("\nand remove branch `{branch}`, which cannot be read"))?;
                }
            }
        }
        return Ok(Exit::Done);
    }
    let written = match marking.write(task, mark, &redactor) {
        Err(tree::Error::Lock(LockError::Held { holder, .. })) => {
            let entry = marking.queue(task, mark, &redactor).map_err(|error| of_tree(&error))?;
            if globals.json {
                out.json(&json!({"task": task, "changed": false, "queued": entry.id, "target": context.target, "repo": context.place.name}))?
            } else {
                out.line(format!("queued: {}; the run that works on {on} writes it ({holder})", entry.name()))?
            }
            return Ok(Exit::Done);
        }
        other => other.map_err(|error| of_tree(&error))?,
    };
    match written {
        None => nothing(&mut out)?,
        Some(marked) if globals.json => {
            out.json(&json!({
                "task": task, "changed": true, "commit": marked.commit, "target": context.target, "repo": context.place.name,
                "cancelled_session": marked.session,
                "removed_branch": marked.removed.as_ref().map(|(branch, _)| branch),
            }))?;
        }
        Some(marked) => {
            out.line(format!("{done}: {task} on {on} ({})", marked.commit.short()))?;
            if let Some(session) = marked.session {
                out.line(format!("cancelled: session {session}, which worked on it"))?;
            }
            if let Some((branch, at)) = marked.removed {
                out.line(format!("removed: branch `{branch}`, which could not be read (it was at {at})"))?;
            }
        }
    }
    Ok(Exit::Done)
}
