//! `pleach task list`

use clap::Args;
use engine::tree::ad_hoc::{AdHocStatus, TaskView};
use engine::view::{SessionStatus, Summary};
use git::Repo;
use pleach_core::step::name_line;
use pleach_core::text::listed;
use serde_json::json;

use super::ground::{TaskGround, marked_task_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::forecast_marks::{FORECAST_HINT, ForecastMarks, marked};
use crate::globals::Globals;
use crate::render::session::{doing, why_paused};
use crate::render::{Out, Table};

/// List the tasks of this repository: by default those that have neither landed nor been cancelled.
///
/// A task is ready, blocked (waits for others), running, stopped (begun, and nobody works on it), finished (waits to
/// land), failed, landed or cancelled. A conflict or an overlap with another branch that is expected when it is merged is told
/// behind that; `pleach forecast` has more.
#[derive(Debug, Args)]
pub struct ListTasksArgs {
    /// Only those that `pleach task start` would work on now.
    #[arg(long, conflicts_with_all = ["blocked", "all"])]
    ready: bool,
    /// Only those that wait for others.
    #[arg(long, conflicts_with = "all")]
    blocked: bool,
    /// Also those that have landed or were cancelled.
    #[arg(long)]
    all: bool,
}

pub fn run(globals: &Globals, args: &ListTasksArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, None)?;
    let is_meant = |view: &TaskView| match view.status {
        status if args.ready => status.can_start(),
        status if args.blocked => status == AdHocStatus::Blocked,
        status => args.all || status.is_open(),
    };
    let (views, unreadable) = ground.readable_views()?;
    unreadable.iter().for_each(|error| warning!(TaskUnreadable, "{error}"));
    let marks = ForecastMarks::find(&ground.place.repo, &views, std::iter::empty());
    let views: Vec<TaskView> = views.into_iter().filter(is_meant).collect();
    let mut out = Out::new();
    if globals.json {
        let tasks = views.iter().map(|view| marked_task_json(view, &marks));
        out.json(&json!({"tasks": tasks.collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    if views.is_empty() {
        out.line("No tasks; `pleach task new TEXT` makes one.")?
    } else {
        out.line(table(&ground.place.repo, &views, &marks).shown())?
    }
    if views.iter().any(|view| marks.task(view).is_some()) {
        out.line(format!("\n{FORECAST_HINT}"))?;
    }
    Ok(Exit::Done)
}

/// The tasks in columns.
pub fn table(repo: &Repo, views: &[TaskView], marks: &ForecastMarks) -> Table {
    let mut table = Table::new(["task", "state", "priority", "name", "target"]).right(2).text(1).text(3).less([4, 2]);
    for view in views {
        let task = &view.task;
        table.row([
            task.id.to_string(),
            marked(state(repo, view), marks.task(view)),
            task.priority.to_string(),
            name_line(&task.name),
            task.target.to_string(),
        ]);
    }
    table
}

/// Where a task is, and what it waits for.
pub fn state(repo: &Repo, view: &TaskView) -> String {
    let session = || Summary::newest(repo, view.open_session.as_ref()?).ok();
    match view.status {
        _ if view.is_astray => format!("{}, its target is gone", view.status),
        AdHocStatus::Blocked => format!("blocked by {}", listed(&view.blockers, 3)),
        // A session that cannot be read is reported by the commands on sessions.
        AdHocStatus::Running => session().map_or_else(|| view.status.to_string(), |it| doing(&it)),
        AdHocStatus::Stopped => session().and_then(|it| why_stopped(&it)).unwrap_or_else(|| view.status.to_string()),
        status => status.to_string(),
    }
}

/// Why nobody works on a task, where its session knows.
fn why_stopped(session: &Summary) -> Option<String> {
    match session.standing() {
        _ if !session.questions().is_empty() => Some("waiting for you".to_owned()),
        SessionStatus::Paused { reason, why } => Some(format!("stopped: {}", why_paused(reason, why.as_deref()))),
        _ => None,
    }
}
