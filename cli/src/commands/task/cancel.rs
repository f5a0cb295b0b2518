//! `pleach task cancel`

use std::time::{Duration, Instant};

use clap::Args;
use engine::landing::withdraw_task;
use engine::tree::ad_hoc::{AdHocStatus, TaskView};
use pleach_core::ids::SessionId;
use serde_json::json;

use super::ground::TaskGround;
use crate::code::Code;
use crate::commands::cancel::cancel_and_wait;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_queue, of_store};
use crate::render::Out;

/// How long a process that works on a task may take until it has a session.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often that is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Cancel a task permanently.
///
/// A process that works on it finishes the turn in flight first, as with `pleach cancel`. Its branch and its sessions
/// are kept.
#[derive(Debug, Args)]
pub struct CancelTaskArgs {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Seconds the turn in flight may take to finish.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
}

pub fn run(globals: &Globals, args: &CancelTaskArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, None)?;
    let view = ground.view(&args.task)?;
    let id = view.task.id.clone();
    refuse_landed(&view)?;
    // Noted first: whoever starts it from now on is refused.
    let noted = ground.store().cancel(&id).map_err(|error| of_store(&error))?;
    let is_new = noted.is_some_and(|(_, is_new)| is_new);
    // It must not land either, now that nobody wants it.
    let redactor = ground.settings.redactor();
    withdraw_task(&ground.place.repo, &view.task.target, &id, &redactor).map_err(|error| of_queue(&error))?;
    let session = cancel_session(globals, &ground, &view, Duration::from_secs(args.grace))?;
    let view = ground.view(id.as_str())?;
    refuse_landed(&view)?;
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"task": id, "changed": is_new, "cancelled_session": session}))?;
        return Ok(Exit::Done);
    }
    if is_new || session.is_some() {
        out.line(format!("cancelled: {id}"))?
    } else {
        out.line(format!("nothing to do: {id} is cancelled already"))?
    }
    if let Some((branch, Some(_))) = view.branch.as_ref().filter(|_| globals.verbosity >= 0) {
        out.line(format!("its work is kept on `{branch}`"))?;
    }
    Ok(Exit::Done)
}

fn refuse_landed(view: &TaskView) -> Result<(), Failure> {
    let task = &view.task;
    match view.status {
        AdHocStatus::Landed => {
            Err(Failure::new(Code::TaskLanded, format!("{} has landed on `{}`", task.id, task.target))
                .hint("a task that has landed cannot be cancelled; revert its commits to take it back"))
        }
        _ => Ok(()),
    }
}

/// Cancels the session of a task, also one that is just being started.
fn cancel_session(
    globals: &Globals,
    ground: &TaskGround,
    view: &TaskView,
    grace: Duration,
) -> Result<Option<SessionId>, Failure> {
    let begun = Instant::now();
    loop {
        let now = ground.view(view.task.id.as_str())?;
        let is_over = now.state.status.is_over() || now.status == AdHocStatus::Landed;
        if let Some(session) = now.open_session.clone().filter(|_| !is_over) {
            return match cancel_and_wait(globals, &ground.place.repo, &session.clone().into(), grace) {
                Ok(_) => Ok(Some(session)),
                // It has ended meanwhile.
                Err(failure) if failure.code == Code::SessionOver => Ok(None),
                Err(failure) => Err(failure),
            };
        }
        if now.holder.is_none() || is_over || begun.elapsed() > PATIENCE {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}
