//! The supervisor as a program of its own, and a parent that can be killed, for the tests of `process`.
//!
//! - `exec-shim __exec`: the supervisor, what `pleach __exec` is.
//! - `exec-shim parent SCRIPT [LOCK]`: runs a shell script below a supervisor in the current directory, as pleach would;
//!   with LOCK, that file is locked and handed on.
//! - `exec-shim blocking PROGRAM ARG…`: runs a helper program and prints what it wrote.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use os::process::{Blocking, Cancel, CommandSpec, Spawner, exec_main, run_blocking};
use pleach_core::config::Environment;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_ref().and_then(|mode| mode.to_str()) {
        Some("__exec") => exec_main(args),
        Some("parent") => parent(args),
        Some("blocking") => blocking(args),
        _ => ExitCode::from(2),
    }
}

fn parent(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let script = args.next().and_then(|script| script.into_string().ok()).expect("a script");
    let cwd = std::env::current_dir().expect("a current directory");
    let mut command = CommandSpec::shell(&script, &cwd);
    let locked = |path| {
        let file = File::create(path).expect("a lock file");
        file.lock().expect("the lock");
        Arc::new(file)
    };
    command.locks = args.map(locked).collect();
    let spawner = Spawner::new(vec!["/proc/self/exe".into(), "__exec".into()], &Environment::capture());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let output = runtime.block_on(spawner.run(command, &Cancel::never(), &mut |_, _| {})).expect("it runs");
    ExitCode::from(output.exit.code().map_or(1, |code| code as u8))
}

fn blocking(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let program = args.next().expect("a program");
    let cwd = std::env::current_dir().expect("a current directory");
    let output =
        run_blocking(&Blocking { program, args: args.collect(), cwd, ..Blocking::default() }).expect("it runs");
    std::io::stdout().write_all(&output.stdout).expect("printed");
    ExitCode::from(output.code().map_or(1, |code| code as u8))
}
