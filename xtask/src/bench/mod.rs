//! Benchmarks. Contenders of one run take turns, so that what else the machine does hits all of them; what counts are
//! the ratios between them. `docs/performance.md` says what is measured and how to read it.

mod cost;
mod cpu;
mod files;
mod gateway;
mod nodes;
mod options;
mod porcelain;
mod samples;
mod scan;
mod session;
mod status;
mod tree;
mod turn_commit;
mod validate;
mod verdict;
mod world;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use options::Options;
use verdict::Verdicts;

use crate::{Done, cargo};

/// Runs a benchmark. Its exit code says whether all targets were met.
pub fn run(root: &Path, args: &[&str]) -> Done {
    if let [gateway::AGENT, rest @ ..] = args {
        return gateway::agent(rest).map(|()| ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        // What is measured is the library as it is shipped, so the chore starts itself over.
        let again = ["run", "--release", "--quiet", "--package", "xtask", "--", "bench"];
        return cargo::pass_through(root, &[&again, args].concat(), &[]);
    }
    let (name, options) = match args {
        [name, rest @ ..] => (*name, Options::read(rest)?),
        [] => return Err(crate::USAGE.into()),
    };
    let verdicts = match name {
        "turn-commit" => turn_commit::run(&options)?,
        "gateway" => gateway::run(&pleach(root)?, &options)?,
        "nodes" => nodes::run(&pleach(root)?, &options)?,
        "status" => status::run(&options)?,
        "tree" => tree::run(&pleach(root)?, &options)?,
        "validate" => validate::run(&pleach(root)?, &options)?,
        _ => return Err(crate::USAGE.into()),
    };
    Ok(conclude(&verdicts))
}

fn conclude(verdicts: &Verdicts) -> ExitCode {
    println!("\n{verdicts}");
    if verdicts.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Builds the program as it is shipped and says where it is: beside this one.
fn pleach(root: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let built = cargo::command(root, &["build", "--release", "--quiet", "--package", "pleach-cli"]).status()?;
    if !built.success() {
        return Err("pleach does not build".into());
    }
    Ok(std::env::current_exe()?.with_file_name("pleach"))
}
