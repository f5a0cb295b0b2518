//! `pleach cancel`

use std::time::Duration;

use clap::Args;
use engine::session::cancel_session;
use git::Repo;
use pleach_core::clock;
use pleach_core::event::Recorded;
use pleach_core::ids::RunId;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::next_commands::about;
use crate::render::Out;
use crate::render::session::{age, title};
use crate::sessions::{self, SessionFilter};
use crate::trust::confirm;
use crate::{settings, stdin_lines};

/// Cancel a session permanently.
///
/// Its process, if it runs, finishes the turn in flight, records the end and exits with code 1. After the grace period
/// it kills its agents. Everything recorded stays: the turns, the branch and the worktree. `pleach rm` removes them.
///
/// Without a session you are asked about the newest that runs, or else about the newest that has not ended.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The session, or the beginning of its id.
    session: Option<String>,
    /// Seconds the turn in flight may take to finish.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
}

pub fn run(globals: &Globals, args: CancelArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    let id = match args.session.as_deref() {
        None if !globals.yes => agreed_newest(globals, &repo)?,
        given => sessions::named_or_newest(globals, &repo, given, SessionFilter::Open)?,
    };
    let (cancelled, interrupted) = cancel_and_wait(globals, &repo, &id, Duration::from_secs(args.grace))?;
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"session": id.session, "run": id, "cancelled_at": cancelled.at, "interrupted": interrupted}))?;
    } else {
        out.line(format!("cancelled: session {id}"))?;
        if globals.verbosity >= 0 {
            let about = |command: &str| about(globals, &globals.dir, &format!("{command} {id}"), None);
            out.line(format!("look:    {}\nremove:  {}", about("status"), about("rm")))?;
        }
    }
    Ok(Exit::Done)
}

/// The session that is meant where none is named, once the user agrees: what is cancelled does not come back.
fn agreed_newest(globals: &Globals, repo: &Repo) -> Result<RunId, Failure> {
    let found = sessions::newest(repo, SessionFilter::Open)?;
    let age = age(found.started_at, clock::now());
    let shown = format!("{} ({}, {}, {age} old)", found.run, title(&found), found.standing().word());
    let command = about(globals, &globals.dir, &format!("cancel {}", found.run), None);
    if !stdin_lines::is_possible() {
        let hint = format!("`{command}` cancels the newest: {shown}");
        return Err(Failure::new(Code::CommandLine, "name the session to cancel").hint(hint));
    }
    let unread = |error: std::io::Error| {
        Failure::new(Code::TrustUnanswered, "the answer cannot be read").because(&error).hint(format!("`{command}`"))
    };
    if confirm(&format!("Cancel session {shown} permanently? [y/N] ")).map_err(unread)? {
        return Ok(found.run);
    }
    Err(Failure::new(Code::NotConfirmed, "nothing was cancelled").hint("`pleach status` lists the sessions"))
}

/// Cancels a session, and reports the process that is interrupted for it. Says whether there was one.
pub fn cancel_and_wait(
    globals: &Globals,
    repo: &Repo,
    id: &RunId,
    grace: Duration,
) -> Result<(Recorded, bool), Failure> {
    let mut interrupted = false;
    let redactor = settings::load_for(globals, &globals.dir)?.redactor();
    let cancelled = cancel_session(repo, &redactor, id, grace, &mut |holder| {
        if globals.verbosity >= 0 {
            let more = if interrupted { "killing the agents of" } else { "interrupting" };
            say!("{more} {}", holder.text);
        }
        interrupted = true;
    });
    let cancelled = cancelled.map_err(|error| match of_engine(&error) {
        held if held.exit() == Exit::Locked => {
            held.hint("it did not stop when asked, or runs on another machine or as another user; stop it there")
        }
        failure => failure,
    })?;
    Ok((cancelled, interrupted))
}
