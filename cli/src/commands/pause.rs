//! `pleach pause`

use std::time::Duration;

use clap::Args;
use engine::session::pause_session;
use engine::view::{SessionStatus, Summary};
use git::workspace::LockHolder;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::next_commands::{about, resume_task};
use crate::render::{Out, session as show};
use crate::sessions::{self, SessionFilter};

/// Pause a session that runs in another terminal.
///
/// Its process finishes the turn in flight, records it and exits with code 3, as with Ctrl-C there. This command waits
/// for that. `pleach resume` continues the session.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The session, or the beginning of its id; by default the newest that runs.
    session: Option<String>,
    /// Stop the turn in flight after this many seconds and lose it; by default it may take as long as it needs.
    #[arg(long, value_name = "SECONDS")]
    grace: Option<u64>,
}

pub fn run(globals: &Globals, args: PauseArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    let id = sessions::named_or_newest(globals, &repo, args.session.as_deref(), SessionFilter::Open)?;
    let mut signals = 0;
    let asked = &mut |holder: &LockHolder| {
        signals += 1;
        if globals.verbosity >= 0 {
            let what = if signals > 1 { "stopping the turn in flight of" } else { "pausing after the turn in flight:" };
            say!("{what} {}", holder.text);
        }
    };
    let interrupted = pause_session(&repo, &id, args.grace.map(Duration::from_secs), asked);
    let interrupted = interrupted.map_err(|error| match of_engine(&error) {
        held if held.exit() == Exit::Locked => {
            held.hint("it did not pause when asked, or runs on another machine or as another user; stop it there")
        }
        failure => failure,
    })?;
    let summary = Summary::newest(&repo, &id).map_err(|error| of_engine(&error))?;
    let standing = summary.standing();
    let is_paused = matches!(standing, SessionStatus::Paused { .. });
    if !interrupted && !is_paused {
        let message = format!("session {id} is not running: {}", show::standing(&standing));
        return Err(
            Failure::new(Code::SessionNotRunning, message).hint(format!("`pleach status {id}` shows where it stands"))
        );
    }
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"session": id.session, "run": id, "standing": standing, "node": summary.node(), "interrupted": interrupted}))?;
        return Ok(Exit::Done);
    }
    // It may have reached its end with the turn in flight.
    let at = summary.node().filter(|_| is_paused).map(|node| format!(" at `{node}`")).unwrap_or_default();
    out.line(format!("{}: session {id}{at}", standing.word()))?;
    let command = summary.started.task.as_ref().map_or_else(|| format!("resume {id}"), |task| resume_task(task).0);
    if globals.verbosity >= 0 && standing.can_resume() {
        out.line(format!("resume:  {}", about(globals, &globals.dir, &command, None)))?;
    }
    Ok(Exit::Done)
}
