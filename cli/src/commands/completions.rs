//! `pleach completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::commands::Cli;
use crate::exit::{Exit, Failure};
use crate::globals::Globals;
use crate::render::Out;

/// Print a script that completes pleach's commands in your shell.
///
/// For bash, put `source <(pleach completions bash)` into ~/.bashrc; the other shells have a directory for such
/// scripts.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell to write for.
    shell: Shell,
}

pub fn run(_globals: &Globals, args: CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pleach", &mut script);
    Out::new().bytes(&script)?;
    Ok(Exit::Done)
}
