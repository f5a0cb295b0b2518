//! `pleach task new`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::tree::ad_hoc::{StoredTask, note_repository};
use engine::tree::check_target;
use engine::tree::progress::base_branch;
use git::remote::RemoteUrl;
use git::workspace::branch_ref;
use pleach_core::ids::{BranchName, TaskId};
use pleach_core::plan::ad_hoc::AdHocTask;

use super::ground::{TaskGround, task_json};
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::forge::{Forge, none_installed};
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_no_task, of_store, of_tree};
use crate::next_commands::about;
use crate::place::target;
use crate::remotes::known_remote;
use crate::render::{Out, style};
use crate::tree::{StartOptions, start_tasks};

/// Give a repository a task.
///
/// It lands on the branch that is checked out now, or on the base branch where none is. It is stored in the repository
/// (`refs/pleach/tasks/`) and worked when it is started. With -q only its id is printed.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// What is to be done; `-` reads it from standard input. The first line is its name.
    #[arg(value_name = "TEXT", required_unless_present = "from_issue")]
    text: Option<String>,
    /// Take title and text of an issue instead, with `gh` or `glab`: its number, #NUMBER or address.
    #[arg(long, value_name = "ISSUE", conflicts_with = "text")]
    from_issue: Option<String>,
    /// The repository; by default the one around the current directory.
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    /// The agent, written as `agent` in pleach.yaml.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The model.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The pipeline, from the root of the repository; it is read when the task starts.
    #[arg(long, value_name = "FILE")]
    pipeline: Option<String>,
    /// Higher goes first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// A task that must have landed before this one starts. Repeatable.
    #[arg(long, value_name = "ID")]
    depends: Vec<String>,
    /// Files it is expected to change: tasks that change the same are not worked at once if others can be. Repeatable.
    #[arg(long, value_name = "GLOB")]
    touches: Vec<String>,
    /// Start it at once.
    #[arg(long)]
    start: bool,
}

pub fn run(globals: &Globals, args: NewArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, args.repo.as_deref())?;
    let text = match (&args.text, &args.from_issue) {
        (_, Some(issue)) => issue_text(&ground, issue)?,
        (Some(text), None) if text == "-" => read_stdin()?,
        (text, None) => text.clone().unwrap_or_default(),
    };
    let target = target_of(&ground)?;
    check_target(&target).map_err(|error| of_tree(&error))?;
    let depends = dependencies(&ground, &args.depends, &target)?;
    let (place, redactor) = (&ground.place, ground.settings.redactor());
    let fill = |task: &mut AdHocTask| {
        task.priority = args.priority;
        task.depends.clone_from(&depends);
        task.touches.clone_from(&args.touches);
        task.agent.clone_from(&args.agent);
        task.model.clone_from(&args.model);
        task.pipeline.clone_from(&args.pipeline);
    };
    let created = ground.store().create(&redactor, &text, &place.name, &target, &place.branch_prefix, fill);
    let StoredTask { task, .. } = created.map_err(|error| of_store(&error))?;
    note_repository(&ground.settings.state_dir, place.repo.workdir().unwrap_or(place.repo.git_dir()));
    let mut out = Out::new();
    if globals.json {
        out.json(&task_json(&ground.view(task.id.as_str())?))?;
    } else if globals.verbosity < 0 {
        // For scripts.
        out.line(&task.id)?;
    } else {
        out.line(style::head(&format!("created: {} {}", task.id, task.name)))?;
        if !args.start {
            let start = about(globals, &ground.dir, &format!("task start {}", task.id), None);
            out.line(format!("start:   {start}"))?;
        }
    }
    if !args.start {
        return Ok(Exit::Done);
    }
    let options = StartOptions { tasks: vec![task.id.to_string()], ..StartOptions::default() };
    start_tasks(globals, ground.dir, ground.settings, ground.place, &options)
}

/// Title, text and address of an issue.
fn issue_text(ground: &TaskGround, given: &str) -> Result<String, Failure> {
    let is_number = given.strip_prefix('#').unwrap_or(given).parse::<u64>().is_ok();
    let url = RemoteUrl::new(given, Path::new("/")).ok().filter(|_| given.starts_with("https://"));
    if !is_number && url.is_none() {
        let message = format!("`{given}` is not an issue");
        return Err(Failure::new(Code::IssueMalformed, message).hint("give its number, #NUMBER or https:// address"));
    }
    let remote = known_remote(&ground.settings, &ground.place)?;
    let forge = match url {
        Some(address) => Forge::at(&ground.settings, &ground.place, &address),
        None => Forge::find(&ground.settings, &ground.place, remote.as_ref()),
    };
    let issue = forge.ok_or_else(|| none_installed("`--from-issue`"))?.issue(given)?;
    let parts = [issue.title.trim(), issue.body.trim(), issue.url.trim()];
    Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::new(Code::TaskEmpty, "standard input cannot be read").because(&error).hint("pipe UTF-8 text into it")
    })?;
    Ok(text)
}

/// The branch a task lands on: the one that is checked out, else the base branch.
fn target_of(ground: &TaskGround) -> Result<BranchName, Failure> {
    let detached = match target(&ground.place) {
        Err(failure) if failure.code == Code::DetachedHead => failure,
        target => return target,
    };
    let repo = &ground.place.repo;
    let named = ground.settings.resolved.config.tree.base_branch.as_ref();
    let base = base_branch(repo, named, None).map_err(|error| of_tree(&error.into()))?;
    let (base, _) = base.ok_or(detached)?;
    // One of a remote alone cannot be landed on.
    match repo.refs().find(&branch_ref(&base)).map_err(|error| of_git(&error))? {
        Some(_) => Ok(base),
        None => {
            Err(Failure::new(Code::NoSuchBranch, format!("HEAD is detached, and there is no branch `{base}` here"))
                .hint(format!("make it with `git switch {base}`, or switch to another branch")))
        }
    }
}

/// The tasks it depends on, which must land where it does.
fn dependencies(ground: &TaskGround, given: &[String], target: &BranchName) -> Result<Vec<TaskId>, Failure> {
    let mut depends = Vec::new();
    for given in given {
        let needed = ground.store().find(given).map_err(of_no_task)?.task;
        if needed.target != *target {
            let message = format!("{} lands on `{}`, and this task on `{target}`", needed.id, needed.target);
            return Err(Failure::new(Code::TargetDiffers, message)
                .hint("a task can only wait for tasks of its own target; switch to that branch first"));
        }
        if !depends.contains(&needed.id) {
            depends.push(needed.id);
        }
    }
    Ok(depends)
}
