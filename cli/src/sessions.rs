//! Finding the session a command is about.

use engine::env::SessionRepos;
use engine::view::{NoSession, SessionStatus, Summary, View, find_turn, resolve_run};
use git::Repo;
use git::record::History;
use git::remote::default_push_url;
use history::journal::RunScope;
use pleach_core::clock;
use pleach_core::event::PipelineStarted;
use pleach_core::ids::{RepoName, RunId, SessionId, TurnId};
use pleach_core::text::listed;

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_record};
use crate::next_commands::FIRST_RUN;
use crate::place::Place;
use crate::render::session::{age, title};
use crate::settings::{self, Settings};

/// The most sessions a hint names.
const NAMED: usize = 5;

/// The repository whose sessions are meant.
pub fn repository(globals: &Globals) -> Result<Repo, Failure> {
    Ok(SessionGround::find(globals)?.place.repo)
}

/// The repository whose sessions are meant, and how those they also work in are found.
#[derive(Debug)]
pub struct SessionGround {
    /// The settings of the workspace.
    pub settings: Settings,
    /// The repository that holds the records.
    pub place: Place,
}

impl SessionGround {
    /// The ground of a command.
    pub fn find(globals: &Globals) -> Result<Self, Failure> {
        let settings = settings::load_for(globals, &globals.dir)?;
        let place = Place::find(&globals.dir, None, &settings)?;
        Ok(Self { settings, place })
    }

    /// The repositories of a session, as far as they are there.
    pub fn repos(&self, started: &PipelineStarted) -> SessionRepos {
        let others = started.branches.keys().filter(|name| *name != started.record_repo());
        let others = others.filter_map(|name| match Place::named(name, &self.settings) {
            Ok(place) => Some((name.clone(), place.repo)),
            Err(failure) => {
                warning!(RepoUnavailable, "the repository `{name}` is left out: {}", failure.sentence());
                None
            }
        });
        SessionRepos::new(started.record_repo().clone(), self.place.repo.clone(), others)
    }

    /// A repository of the workspace, or the one of the records, if it is there.
    pub fn repo(&self, name: &RepoName) -> Option<Repo> {
        if self.settings.resolved.config.workspace.repos.contains_key(name) {
            Place::named(name, &self.settings).ok().map(|place| place.repo)
        } else {
            Some(self.place.repo.clone())
        }
    }

    /// The other repositories of the workspace that are there.
    pub fn others(&self) -> Vec<Place> {
        let others = self.settings.resolved.config.workspace.repos.keys().filter(|name| **name != self.place.name);
        others.filter_map(|name| Place::named(name, &self.settings).ok()).collect()
    }

    /// The repositories of a session that may be unreadable: then all of the workspace.
    pub fn repos_of(&self, id: &RunId) -> SessionRepos {
        match History::newest(&self.place.repo, id) {
            Ok(history) => self.repos(&history.started),
            Err(_) => {
                let others = self.others().into_iter().map(|place| (place.name, place.repo));
                SessionRepos::new(self.place.name.clone(), self.place.repo.clone(), others)
            }
        }
    }
}

/// The run of a session that a text names: `SID`, the beginning of it, or `SID/r1`.
pub fn resolve(repo: &Repo, given: &str) -> Result<RunId, Failure> {
    resolve_run(repo, given).map_err(|error| match error {
        NoSession::Unknown { .. } if matches!(default_push_url(repo), Ok(Some(_))) => no_session(&error).hint(
            "`pleach status` lists those that are here; `git fetch origin 'refs/pleach/*:refs/pleach/*'` brings the \
                 records of others",
        ),
        error => no_session(&error),
    })
}

/// The run an id names: that of a session (or the beginning of one), or one of its replays as `SESSION/r1`. An id alone means
/// all runs of the session.
pub fn resolve_scope(repo: &Repo, given: &str) -> Result<RunScope, NoSession> {
    let run = resolve_run(repo, given)?;
    Ok(if given.contains('/') { RunScope::Run(run) } else { RunScope::Session(run.session) })
}

/// The failure where an id names no session, or several.
pub fn no_session(error: &NoSession) -> Failure {
    let code = match error {
        NoSession::Ambiguous { .. } => Code::SessionAmbiguous,
        NoSession::Unknown { .. } | NoSession::NoRun { .. } | NoSession::Record(_) => Code::NoSuchSession,
    };
    let failure = Failure::new(code, error.to_string());
    match error {
        NoSession::Record(error) => of_record(error),
        NoSession::Ambiguous { .. } => failure.hint("give more of its id"),
        NoSession::NoRun { runs, .. } => {
            failure.hint(format!("there are: {}", listed(runs.iter().map(|run| format!("`{run}`")), NAMED)))
        }
        NoSession::Unknown { known, .. } if known.is_empty() => {
            failure.hint(format!("there is none yet; {FIRST_RUN} starts one"))
        }
        NoSession::Unknown { known, .. } => {
            let named: Vec<&str> = known.iter().take(NAMED).map(SessionId::as_str).collect();
            let more = if known.len() > NAMED { ", …" } else { "" };
            failure.hint(format!("there are: {}{more}; `pleach status` shows them", named.join(", ")))
        }
    }
}

/// The failure where an id that could be a task's or a session's names neither, or several sessions.
pub fn no_task_or_session(error: &NoSession) -> Failure {
    let failure = no_session(error);
    match error {
        NoSession::Unknown { given, .. } => {
            Failure { message: format!("there is no task and no session `{given}` in this repository"), ..failure }
        }
        NoSession::Ambiguous { .. } | NoSession::NoRun { .. } | NoSession::Record(_) => failure,
    }
}

/// Which sessions a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFilter {
    /// All.
    Any,
    /// Those `pleach resume` continues with.
    Resumable,
    /// Those that have not ended.
    Open,
    /// Those that are done, and no work on a task.
    Done,
}

impl SessionFilter {
    /// Whether a session is one of them.
    pub fn takes(self, summary: &Summary) -> bool {
        match self {
            Self::Any => true,
            Self::Resumable => summary.started.task.is_none() && summary.standing().can_resume(),
            Self::Open => matches!(
                summary.standing(),
                SessionStatus::Running | SessionStatus::Dead | SessionStatus::Paused { .. }
            ),
            Self::Done => summary.started.task.is_none() && summary.standing() == SessionStatus::Done,
        }
    }

    fn none(self) -> Failure {
        let (message, hint) = match self {
            Self::Any => ("there is no session in this repository", "`pleach run \"Fix the failing test\"` starts one"),
            Self::Resumable => {
                ("there is no session to resume", "`pleach status` lists the sessions; `pleach gardener` resumes tasks")
            }
            Self::Open => ("every session has ended", "`pleach status` lists them"),
            Self::Done => ("no session is done", "`pleach status` lists the sessions"),
        };
        Failure::new(Code::NoSuchSession, message).hint(hint)
    }
}

/// The session an id, or the beginning of one, names; without one the newest that fits, which is then said.
pub fn named_or_newest(
    globals: &Globals,
    repo: &Repo,
    given: Option<&str>,
    fit: SessionFilter,
) -> Result<RunId, Failure> {
    if let Some(given) = given {
        return resolve(repo, given);
    }
    Ok(using(globals, &newest(repo, fit)?))
}

/// Says which session was taken where none was named.
pub fn using(globals: &Globals, found: &Summary) -> RunId {
    if globals.verbosity >= 0 {
        let age = age(found.started_at, clock::now());
        say!("using session {} ({}, {}, {age} old)", found.run, title(found), found.standing().word());
    }
    found.run.clone()
}

/// The turn a text names: its number in a run, `main.17`, or a commit of a turn. With the run it belongs to.
pub fn named_turn(repos: &SessionRepos, run: &RunId, given: &str) -> Result<(RunId, TurnId), Failure> {
    let found = find_turn(repos, run, given).map_err(|error| of_record(&error))?;
    let found = found.ok_or_else(|| {
        let message = format!("`{given}` is no turn of session {run}, and no commit of one");
        Failure::new(Code::NoSuchTurn, message).hint(format!("`pleach turns {run}` lists them"))
    })?;
    check_run(repos.record(), &found.0)?;
    Ok(found)
}

/// A turn may name a run that its session does not have.
pub fn check_run(repo: &Repo, run: &RunId) -> Result<(), Failure> {
    if run.is_first() { Ok(()) } else { resolve(repo, &run.to_string()).map(drop) }
}

/// The session that was started last, of those that fit. What runs is meant before what only waits, and what pleach has
/// started itself never.
pub fn newest(repo: &Repo, fit: SessionFilter) -> Result<Summary, Failure> {
    all(repo, fit)?.into_iter().next().ok_or_else(|| fit.none())
}

/// Those that fit, in this order.
pub fn all(repo: &Repo, fit: SessionFilter) -> Result<Vec<Summary>, Failure> {
    let all = View::all(repo).map_err(|error| of_engine(&error))?;
    let fits = |summary: &Summary| fit.takes(summary) && !summary.is_own();
    let mut fitting: Vec<Summary> = all.into_iter().filter_map(|(_, summary)| summary.ok()).filter(fits).collect();
    if fit == SessionFilter::Open {
        fitting.sort_by_key(|summary| summary.standing() != SessionStatus::Running);
    }
    Ok(fitting)
}

/// The session that is named, or the newest, read whole.
pub fn load(globals: &Globals, repo: &Repo, given: Option<&str>) -> Result<View, Failure> {
    View::load(repo, &named_or_newest(globals, repo, given, SessionFilter::Any)?).map_err(|error| of_engine(&error))
}
