//! Chores of the repository: generated pages, benchmarks, tests that fail by chance, the crash sweep, the replay of merges.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "a chore that cannot tell what it found is of no use")]

mod bench;
mod cargo;
mod crash_sweep;
mod docs;
mod flaky;
mod merge_replay;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crash_sweep::Sweep;

const USAGE: &str = "\
usage: cargo xtask docs [--check]        write docs/cli.md from the program's help, or check it and rustdoc
       cargo xtask flaky [FILTER] --times N [--jobs N]   run the tests whose names contain FILTER N times each, so many
                                         at once, and say how often each failed
       cargo xtask crash-sweep           kill a run at every crash point and resume it; takes minutes
       cargo xtask crash-sweep parallel  the same with three agents at once
       cargo xtask crash-sweep jobs EVERY     one in EVERY points with three tasks of a tree at once
       cargo xtask crash-sweep queue EVERY    one in EVERY points of a merge queue of fifty branches
       cargo xtask crash-sweep workspaces EVERY   one in EVERY points of a session over several repositories, and of its
                                         landing
       cargo xtask crash-sweep tree [EVERY]   the same with a run over a tree of tasks; takes an hour, or less when
                                         only one in EVERY points is tried
       cargo xtask bench turn-commit [--sizes 1000,20000,100000] [--turns 10000] [--rounds 15] [--quick]
       cargo xtask bench gateway [--calls 2000] [--streams 100]
       cargo xtask bench nodes [--nodes 1000]
       cargo xtask bench tree [--tree-sizes 10,100,300,1000]
       cargo xtask bench parallel [--agents 50] [--quick]
       cargo xtask bench jobs [--tasks 40] [--quick]
       cargo xtask bench merge [--quick]
       cargo xtask bench push [--nodes 100] [--quick]
       cargo xtask bench validate [--nodes 2000]
       cargo xtask bench workspaces [--quick]
       cargo xtask bench worktrees [--worktree-sizes 1500,20000,100000] [--rounds 15] [--quick]
       cargo xtask bench status [--commits 100000] [--tasks 1000] [--rounds 15]
       cargo xtask merge-replay REPO [--limit N] [--derived PATTERN]…   merge the merges of a repository once more, without
                                         an agent, and compare the results with what was committed
       cargo xtask merge-replay --generate DIR N [--seed SEED]   make a history with N conflicting merges of all kinds
docs/performance.md says what the benchmarks measure.";

/// How a chore ends that did not break.
type Done = Result<ExitCode, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["docs"] => docs::write(&root()).map(|()| ExitCode::SUCCESS),
        ["docs", "--check"] => docs::check(&root()).map(|()| ExitCode::SUCCESS),
        ["crash-sweep"] => crash_sweep::run(&root(), Sweep::Pipeline),
        ["crash-sweep", "parallel"] => crash_sweep::run(&root(), Sweep::Parallel),
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
