//! Cargo, called from within a chore.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::usage::Done;

/// Cargo with these arguments, in the repository.
pub fn command(root: &Path, args: &[&str]) -> Command {
    let mut command = program(root, Path::new("cargo"));
    command.args(args);
    command
}

/// A program, in the repository.
#[expect(clippy::disallowed_methods, reason = "a chore of the repository, not a part of pleach")]
pub fn program(root: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// Runs cargo with the terminal as its own and passes its exit code on.
pub fn pass_through(root: &Path, args: &[&str], variables: &[(&str, &str)]) -> Done {
    passed_on(command(root, args).envs(variables.iter().copied()))
}

/// Runs a program with the terminal as its own and passes its exit code on.
pub fn passed_on(command: &mut Command) -> Done {
    let status = command.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
