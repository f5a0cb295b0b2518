//! Benchmarks. Contenders of one run take turns, so that what else the machine does hits all of them; what counts are
//! the ratios between them. `docs/performance.md` says what is measured and how to read it.

mod cost;
mod cpu;
mod files;
mod gateway;
mod history;
mod jobs;
mod memory;
mod merge;
mod mirror;
mod nodes;
mod options;
mod parallel;
mod porcelain;
mod push;
mod samples;
mod scan;
mod session;
mod status;
mod tree;
mod turn_commit;
mod validate;
mod verdict;
mod why;
mod workspaces;
mod worktrees;
mod world;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use options::Options;
use verdict::Verdicts;

use crate::cargo;
use crate::usage::{Done, USAGE};

/// Runs a benchmark. Its exit code says whether all targets were met.
pub fn run(root: &Path, args: &[&str]) -> Done {
    if let [gateway::AGENT, rest @ ..] = args {
        return gateway::agent(rest).map(|()| ExitCode::SUCCESS);
    }
    if !is_release()? {
        return again(root, args);
    }
    let (name, options) = match args {
        [name, rest @ ..] => (*name, Options::read(rest)?),
        [] => return Err(USAGE.into()),
    };
    let verdicts = match name {
        "turn-commit" if options.cxdb => mirror::run_bench(&options)?,
        "turn-commit" => turn_commit::run(&options)?,
        "gateway" => gateway::run(&pleach()?, &options)?,
        "history" => history::run(&pleach()?, &options)?,
        "jobs" => jobs::run(&pleach()?, &options)?,
        "merge" => merge::run(&pleach()?, &options)?,
        "nodes" => nodes::run(&pleach()?, &options)?,
        "parallel" => parallel::run(&pleach()?, &options)?,
        "push" => push::run(&pleach()?, &options)?,
        "status" => status::run(&options)?,
        "tree" => tree::run(&pleach()?, &options)?,
        "validate" => validate::run(&pleach()?, &options)?,
        "why" => why::run(&pleach()?, &options)?,
        "workspaces" => workspaces::run(&pleach()?, &options)?,
        "worktrees" => worktrees::run(&pleach()?, &options)?,
        _ => return Err(USAGE.into()),
    };
    Ok(conclude(&verdicts))
}

fn conclude(verdicts: &Verdicts) -> ExitCode {
    println!("\n{verdicts}");
    if verdicts.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether this is what is measured: cargo builds each profile into a directory of its name.
fn is_release() -> Result<bool, Box<dyn Error>> {
    Ok(std::env::current_exe()?.parent().is_some_and(|dir| dir.ends_with("release")))
}

/// Starts the chore over in release mode, which is what is measured. It and the program are built in one go: each for
/// itself, what they are built on would be built twice.
fn again(root: &Path, args: &[&str]) -> Done {
    let packages = ["build", "--release", "--quiet", "--package", "xtask", "--package", "pleach-cli"];
    if !cargo::command(root, &packages).status()?.success() {
        return Err("pleach does not build".into());
    }
    let built = beside("../release/xtask")?;
    cargo::passed_on(cargo::program(root, &built).arg("bench").args(args))
}

/// The program that was built with this one.
fn pleach() -> Result<PathBuf, Box<dyn Error>> {
    beside("pleach")
}

fn beside(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    Ok(std::env::current_exe()?.with_file_name(name))
}
