//! `pleach record`

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use engine::env::lock_name;
use engine::mirror::{CopiedRun, CopiedRuns, MirrorComparison, MirrorError, Verified, mirror_run, report, verify};
use git::Repo;
use git::record::History;
use git::workspace::Lock;
use pleach_core::config::MirrorAddress;
use pleach_core::ids::{CommitId, RunId};
use pleach_core::text::{counted, listed};
use serde_json::json;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_record;
use crate::mirror::{approved_mirror, of_mirror};
use crate::render::Out;
use crate::render::live::Live;
use crate::runtime::single;
use crate::say;
use crate::sessions::{self, SessionFilter, SessionGround};

/// How many commits a message names.
const NAMED: usize = 3;

/// How long it may take to tell how much there is to copy.
const ASKED: Duration = Duration::from_secs(10);

/// Copy records to a CXDB server, or compare them with it.
///
/// The server is that of `record.cxdb`.
/// A run copies its records by itself while it works, and waits for the server at its end alone, for five seconds at most.
#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(subcommand)]
    command: RecordCommand,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    Mirror(MirrorArgs),
    Verify(VerifyArgs),
}

/// Copy what the CXDB server lacks.
///
/// A run that works copies its records itself and is left out.
#[derive(Debug, Args)]
struct MirrorArgs {
    /// The run, or the beginning of its id; by default the newest.
    #[arg(value_name = "RUN", conflicts_with = "all")]
    run: Option<String>,
    /// Every run of every session.
    #[arg(long)]
    all: bool,
}

/// Compare the records of a run with what the CXDB server has, object by object.
///
/// Exits with 0 if it has all of them, with 1 if it lacks some or has others, with 7 if it cannot be asked.
#[derive(Debug, Args)]
struct VerifyArgs {
    /// The run, or the beginning of its id; by default the newest.
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

pub fn run(globals: &Globals, args: RecordArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let address = approved_mirror(globals, &ground.settings, &ground.place)?;
    match args.command {
        RecordCommand::Mirror(args) => mirror(globals, &ground.place.repo, &address, &args),
        RecordCommand::Verify(args) => {
            let run = sessions::named_or_newest(globals, &ground.place.repo, args.run.as_deref(), SessionFilter::Any)?;
            compare(globals, &ground.place.repo, &address, &run)
        }
    }
}

fn mirror(globals: &Globals, repo: &Repo, address: &MirrorAddress, args: &MirrorArgs) -> Result<Exit, Failure> {
    let runs = match &args.run {
        _ if args.all => History::all_runs(repo).map_err(|error| of_record(&error))?,
        given => vec![sessions::named_or_newest(globals, repo, given.as_deref(), SessionFilter::Any)?],
    };
    let is_at_work = |run: &&RunId| Lock::is_held(repo.common_dir(), &lock_name(*run));
    let (at_work, idle): (Vec<&RunId>, Vec<&RunId>) = runs.iter().partition(is_at_work);
    if let ([run], false) = (at_work.as_slice(), args.all) {
        let message = format!("session {run} is running, and copies its records itself");
        return Err(Failure::new(Code::SessionLocked, message)
            .hint(format!("wait until it ends, then `pleach record verify {run}` compares them")));
    }
    let (mut out, mut done, mut failures) = (Out::new(), Vec::new(), Vec::new());
    let runtime = single()?;
    for run in idle {
        let shown = !globals.json && globals.verbosity >= 0 && std::io::stderr().is_terminal();
        let copied = runtime.block_on(async {
            let before = report(repo, std::slice::from_ref(run), address, ASKED).await;
            let all = before.standing.map_or(0, |standing| usize::try_from(standing.behind).unwrap_or(usize::MAX));
            let mut live = Live::of_tasks(shown && all > 0, all);
            let copied = mirror_run(repo, run, address, |copied| {
                live.count(usize::try_from(copied.records).unwrap_or(usize::MAX).min(all), all);
            });
            let copied = copied.await;
            live.finish();
            copied
        });
        let copied = match copied {
            Ok((copied, problem)) => {
                problem.iter().for_each(|problem| say::warn(&problem.of_types()));
                copied
            }
            // The next one would have to wait for it as well.
            Err(error @ MirrorError::Unreachable { .. }) => return Err(of_mirror(&error)),
            Err(error) => {
                failures.push(of_mirror(&error));
                continue;
            }
        };
        if !globals.json {
            let said = match copied.records {
                0 => "nothing to copy".to_owned(),
                records => format!("{} copied", counted(records, "record")),
            };
            out.line(format!("{run}: {said}"))?;
        }
        done.push(CopiedRun { run: run.clone(), copied });
    }
    if globals.json {
        let running = at_work.into_iter().cloned().collect();
        out.json(&json!(CopiedRuns { server: address.server(), runs: done, running }))?;
    } else {
        for run in at_work {
            out.line(format!("{run}: running, copies its records itself"))?;
        }
        if runs.is_empty() {
            out.line("there is no session to copy")?;
        }
    }
    let last = failures.pop();
    failures.iter().for_each(|failure| say!("{}", failure.sentence()));
    last.map_or(Ok(Exit::Done), Err)
}

fn compare(globals: &Globals, repo: &Repo, address: &MirrorAddress, run: &RunId) -> Result<Exit, Failure> {
    let found = single()?.block_on(verify(repo, run, address)).map_err(|error| of_mirror(&error))?;
    let (server, is_equal) = (address.server(), found.is_equal());
    if globals.json {
        Out::new().json(&json!(MirrorComparison { run: run.clone(), server, equal: is_equal, found }))?;
        return Ok(if is_equal { Exit::Done } else { Code::MirrorDiffers.exit() });
    }
    if is_equal {
        Out::new().line(format!("{run}: all {} are at CXDB at {server}", counted(found.records, "record")))?;
        return Ok(Exit::Done);
    }
    let message = format!("session {run} is not the same at CXDB at {server}: {}", differences(&found));
    Err(Failure::new(Code::MirrorDiffers, message).hint(format!("`pleach record mirror {run}` copies what it lacks")))
}

fn differences(verified: &Verified) -> String {
    let named = |commits: &[CommitId]| listed(commits.iter().map(CommitId::short), NAMED);
    let missing = format!("it lacks {} of {}", verified.missing.len(), counted(verified.records, "record"));
    let different = format!("{} differ there ({})", verified.different.len(), named(&verified.different));
    let repeated = format!("{} are there more than once", counted(verified.repeated, "event"));
    let parts = [
        (!verified.missing.is_empty(), missing),
        (!verified.different.is_empty(), different),
        (verified.repeated > 0, repeated),
    ];
    listed(parts.into_iter().filter_map(|(is_so, words)| is_so.then_some(words)), usize::MAX)
}
