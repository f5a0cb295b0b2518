//! `pleach cancel`

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pleach::agent::Roster;
use pleach::config::Config;
use pleach::engine::{Engine, Nobody, Session};
use pleach::process::{Cancel, Spawner};
use serde_json::json;

use crate::commands::Globals;
use crate::commands::run::load_settings;
use crate::exit::{Exit, Failure};
use crate::failure::of_engine;
use crate::render::Out;
use crate::session::Place;
use crate::sessions;

/// Call a session off, for good.
///
/// A process that works on it is interrupted, as with Ctrl-C, and after the grace period once more, which kills its
/// agents. Everything recorded stays: the turns, the branch and the working copy. `pleach rm` removes them.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The session, or the beginning of its id.
    session: String,
    /// How many seconds the turn in flight may take to finish.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
}

pub fn run(globals: &Globals, args: CancelArgs) -> Result<Exit, Failure> {
    let settings = load_settings(globals, &globals.dir)?;
    let repo = Place::find(&globals.dir, None, &settings)?.repo;
    let id = sessions::resolve(&repo, &args.session)?;
    // Nothing is run, so nothing is needed to run it.
    let spawner = Spawner::new(Vec::new(), &globals.environment);
    let engine = Arc::new(Engine {
        agents: Roster::new(&Config::default(), None, spawner.clone()),
        spawner,
        state_dir: settings.state_dir.clone(),
        worktrees: Default::default(),
        interviewer: Box::new(Nobody),
        handlers: Default::default(),
        redactor: settings.redactor(),
        cancel: Cancel::never(),
    });
    let mut interrupted = false;
    let grace = Duration::from_secs(args.grace);
    let cancelled = Session::call_off(&engine, &repo, &id, grace, &mut |holder| {
        if globals.verbosity >= 0 {
            let more = if interrupted { "killing the agents of" } else { "interrupting" };
            anstream::eprintln!("{more} {}", holder.text);
        }
        interrupted = true;
    });
    let cancelled = cancelled.map_err(|error| match of_engine(&error) {
        held @ Failure { exit: Exit::Locked, .. } => {
            held.hint("it did not let go when asked, or runs on another machine or for another user; end it there")
        }
        failure => failure,
    })?;
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"session": id, "cancelled_at": cancelled.at, "interrupted": interrupted}))?;
    } else {
        out.line(format!("cancelled: session {id}"))?;
        if globals.verbosity >= 0 {
            out.line(format!("look:    pleach status {id}\nremove:  pleach rm {id}"))?;
        }
    }
    Ok(Exit::Done)
}
