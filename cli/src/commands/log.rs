//! `pleach log`

use std::num::NonZeroUsize;

use clap::Args;
use engine::landing::QueueError;
use engine::view::NoSession;
use git::Repo;
use history::journal::{Log, LogError, LogFilter, RunScope};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use pleach_core::clock;
use pleach_core::ids::{NodeId, TaskId};
use pleach_core::plan::dot::read_duration;
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git, of_queue};
use crate::render::journal::LogLines;
use crate::render::{Out, Pages, columns};
use crate::sessions::{self, resolve_scope};

/// List what happened, newest first: runs, steps, landings, turns.
///
/// Read from the records, the commits of the checked-out branch and the merge queue, as far back as is shown. Times are in
/// UTC. At a terminal it goes through the pager git uses. For what the tests and reviews of tasks printed, see `pleach logs`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Only this session, or the beginning of its id, SESSION/r1 for one of its replays; or this task.
    #[arg(value_name = "RUN|TASK")]
    id: Option<String>,
    /// Only this task.
    #[arg(long, value_name = "TASK")]
    task: Option<TaskId>,
    /// Only turns and pauses at this node, and what failed there.
    #[arg(long, value_name = "NODE")]
    node: Option<NodeId>,
    /// Only turns of models with this in their names.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only what did not go well.
    #[arg(long)]
    failed: bool,
    /// Nothing before: a day, a time, or how long ago, as in 2026-11-15, 2026-11-15T01:02:03Z, 2d, 3h.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<Timestamp>,
    /// Nothing after; a day counts to its end.
    #[arg(long, value_name = "WHEN", value_parser = until)]
    until: Option<Timestamp>,
    /// Every turn, and every attempt at a node that failed.
    #[arg(long)]
    turns: bool,
    /// So many lines at most.
    #[arg(short = 'n', value_name = "N")]
    most: Option<NonZeroUsize>,
}

/// `2026-11-15`, `2026-11-15T01:02:03Z`, `2d`.
pub fn when(text: &str) -> Result<Timestamp, String> {
    point_in_time(text, false)
}

fn until(text: &str) -> Result<Timestamp, String> {
    point_in_time(text, true)
}

fn point_in_time(text: &str, is_end: bool) -> Result<Timestamp, String> {
    if let Some(ago) = read_duration(text) {
        return Ok(clock::now().checked_sub(ago).unwrap_or(Timestamp::MIN));
    }
    if let Ok(day) = text.parse::<Date>() {
        let day = if is_end { day.tomorrow().unwrap_or(day) } else { day };
        let begin = day.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?.timestamp();
        return Ok(if is_end { begin - jiff::SignedDuration::from_millis(1) } else { begin });
    }
    text.parse()
        .map_err(|_| "write a day (2026-11-15), a time (2026-11-15T01:02:03Z), or how long ago (2d, 3h)".to_owned())
}

pub fn run(globals: &Globals, args: LogArgs) -> Result<Exit, Failure> {
    let repo = sessions::repository(globals)?;
    let mut filter = LogFilter {
        run: None,
        task: args.task,
        node: args.node,
        model: args.model,
        failed: args.failed,
        since: args.since,
        until: args.until,
        turns: args.turns,
    };
    match args.id.as_deref().map(|given| meant(&repo, given)).transpose()? {
        Some(Meant::Run(run)) => filter.run = Some(run),
        Some(Meant::Task(task)) if filter.task.as_ref().is_some_and(|named| *named != task) => {
            let message = format!("`{task}` and --task name two tasks");
            return Err(Failure::new(Code::OptionConflict, message).hint("leave one of them out"));
        }
        Some(Meant::Task(task)) => filter.task = Some(task),
        None => {}
    }
    let turns = filter.has_turns();
    let log = Log::open(&repo, filter).map_err(|error| of_git(&error))?;
    let mut shown = 0;
    let mut lines = LogLines::new(columns(), turns);
    let mut pages = None;
    for entry in log {
        if args.most.is_some_and(|most| shown >= most.get()) {
            break;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                leave_out(error)?;
                continue;
            }
        };
        shown += 1;
        let pages = match &mut pages {
            Some(pages) => pages,
            none => none.insert(Pages::new(globals)?),
        };
        if globals.json { pages.line(json!(entry))? } else { pages.line(lines.show(&entry))? }
    }
    if shown == 0 && !globals.json {
        Out::new().line("Nothing has happened that would be listed.")?;
    }
    Ok(Exit::Done)
}

/// What an operand names.
enum Meant {
    Run(RunScope),
    Task(TaskId),
}

/// The run or the task an operand names.
fn meant(repo: &Repo, given: &str) -> Result<Meant, Failure> {
    let unknown = match resolve_scope(repo, given) {
        Ok(run) => return Ok(Meant::Run(run)),
        Err(error @ NoSession::Unknown { .. }) => error,
        Err(error) => return Err(sessions::no_session(&error)),
    };
    if let Ok(task) = given.parse::<TaskId>() {
        let filter = LogFilter { task: Some(task.clone()), ..LogFilter::default() };
        let mut log = Log::open(repo, filter).map_err(|error| of_git(&error))?;
        if log.any(|entry| entry.is_ok()) {
            return Ok(Meant::Task(task));
        }
    }
    let failure = sessions::no_task_or_session(&unknown);
    // What `pleach logs` lists are files.
    let is_file = given.ends_with(".log");
    Err(if is_file { failure.hint(format!("`pleach logs --show {given}` prints the log of a step")) } else { failure })
}

/// Says what is left out; what is no single session's is an error.
fn leave_out(error: LogError) -> Result<(), Failure> {
    match error {
        LogError::Session { session, source } => {
            let why = of_engine(&(*source).into()).sentence();
            warning!(SessionUnreadable, "session {session} is left out from here on: {why}");
            Ok(())
        }
        LogError::Entry(error) => Err(of_queue(&QueueError::from(error))),
        LogError::Git(error) => Err(of_git(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_days_moments_or_ago() {
        let day = |text, is_end| point_in_time(text, is_end).unwrap().to_string();
        assert_eq!(day("2026-11-15", false), "2026-11-15T00:00:00Z");
        assert_eq!(day("2026-11-15", true), "2026-11-15T23:59:59.999Z");
        assert_eq!(day("2026-11-15T01:02:03Z", true), "2026-11-15T01:02:03Z");
        assert!(when("2d").unwrap() < when("3h").unwrap());
        assert!(when("yesterday").is_err() && when("").is_err());
    }
}
