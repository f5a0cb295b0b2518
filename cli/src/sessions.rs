//! Finding the session a command is about.

use pleach::engine::{NoSession, Summary, View, resolve_session};
use pleach::git::Repo;
use pleach::ids::SessionId;

use crate::exit::{Exit, Failure};
use crate::failure::{of_engine, of_record};
use crate::globals::Globals;
use crate::session::Place;
use crate::settings;

/// How many sessions a hint names.
const NAMED: usize = 5;

/// The repository whose sessions are meant.
pub fn repository(globals: &Globals) -> Result<Repo, Failure> {
    let settings = settings::below(globals, &globals.dir)?;
    Ok(Place::find(&globals.dir, None, &settings)?.repo)
}

/// The session an id, or the beginning of one, names.
pub fn resolve(repo: &Repo, given: &str) -> Result<SessionId, Failure> {
    resolve_session(repo, given).map_err(|error| {
        let failure = Failure::new(Exit::Usage, error.to_string());
        match &error {
            NoSession::Record(error) => of_record(error),
            NoSession::Ambiguous { .. } => failure.hint("give more of its id"),
            NoSession::Unknown { known, .. } if known.is_empty() => {
                failure.hint("there is none yet; `pleach run FILE.dot` starts one")
            }
            NoSession::Unknown { known, .. } => {
                let named: Vec<&str> = known.iter().take(NAMED).map(SessionId::as_str).collect();
                let more = if known.len() > NAMED { ", …" } else { "" };
                failure.hint(format!("there are: {}{more}; `pleach status` shows them", named.join(", ")))
            }
        }
    })
}

/// The session an id, or the beginning of one, names, read whole.
pub fn load(repo: &Repo, given: &str) -> Result<View, Failure> {
    View::load(repo, &resolve(repo, given)?).map_err(|error| of_engine(&error))
}

/// The session that was started last.
pub fn newest(repo: &Repo) -> Result<Summary, Failure> {
    let all = View::all(repo).map_err(|error| of_engine(&error))?;
    let readable = all.into_iter().find_map(|(_, summary)| summary.ok());
    readable.ok_or_else(|| {
        Failure::new(Exit::Usage, "there is no session in this repository").hint("`pleach run FILE.dot` starts one")
    })
}
