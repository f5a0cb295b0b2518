//! Chores of the repository: generated pages, benchmarks, tests that fail by chance, the crash sweep, the replay of merges.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "a chore that cannot tell what it found is of no use")]

mod bench;
mod cargo;
mod crash_sweep;
mod docs;
mod flaky;
mod merge_replay;
mod usage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crash_sweep::Sweep;
use usage::USAGE;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["docs"] => docs::write(&root()).map(|()| ExitCode::SUCCESS),
        ["docs", "--check"] => docs::check(&root()).map(|()| ExitCode::SUCCESS),
        ["crash-sweep"] => crash_sweep::run(&root(), Sweep::Pipeline),
        ["crash-sweep", "parallel"] => crash_sweep::run(&root(), Sweep::Parallel),
        ["crash-sweep", "return"] => crash_sweep::run(&root(), Sweep::Return),
        ["crash-sweep", "replay"] => crash_sweep::run(&root(), Sweep::Replay),
        ["crash-sweep", "jobs", every] if every.parse::<u16>().is_ok_and(|every| every > 0) => {
            crash_sweep::run(&root(), Sweep::Jobs { every })
        }
        ["crash-sweep", "queue", every] if every.parse::<u16>().is_ok_and(|every| every > 0) => {
            crash_sweep::run(&root(), Sweep::Queue { every })
        }
        ["crash-sweep", "workspaces", every] if every.parse::<u16>().is_ok_and(|every| every > 0) => {
            crash_sweep::run(&root(), Sweep::Workspaces { every })
        }
        ["crash-sweep", "tree"] => crash_sweep::run(&root(), Sweep::Tree { every: "1" }),
        ["crash-sweep", "tree", every] if every.parse::<u16>().is_ok_and(|every| every > 0) => {
            crash_sweep::run(&root(), Sweep::Tree { every })
        }
        ["flaky", ref rest @ ..] => flaky::run(&root(), rest),
        ["bench", ref rest @ ..] => bench::run(&root(), rest),
        ["merge-replay", ref rest @ ..] => merge_replay::run(rest),
        _ => Err(USAGE.into()),
    };
    done.unwrap_or_else(|message| {
        eprintln!("{message}");
        ExitCode::FAILURE
    })
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_owned()
}
