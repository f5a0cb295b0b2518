//! Short helper programs, run to their end.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Exit, SpawnError, Stdin, env};
use crate::config::Environment;

/// A helper program for [`run_blocking`]. It inherits the environment with its credentials, unless it is given one, without
/// the variables that locate a repository, and speaks English (`LC_ALL=C`).
#[derive(Debug, Clone, Default)]
pub struct Blocking {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The directory to run in.
    pub cwd: PathBuf,
    /// The environment, in place of the one it would inherit.
    pub environment: Option<Environment>,
    /// Variables to set (`Some`) or to remove (`None`).
    pub env: Vec<(OsString, Option<OsString>)>,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may take before it is killed with all it has started; none if it is never killed.
    pub limit: Option<Duration>,
}

/// What became of a helper program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingOutput {
    /// How it ended: by itself or by a signal.
    pub exit: Exit,
    /// All it wrote to standard output.
    pub stdout: Vec<u8>,
    /// All it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl BlockingOutput {
    /// The exit code, if it was not ended by a signal.
    pub fn code(&self) -> Option<i32> {
        self.exit.code()
    }

    /// Whether it ended with code 0.
    pub fn success(&self) -> bool {
        self.exit.success()
    }
}

/// Runs a helper program to its end and returns all its output. It is never killed unless it has a limit, and in its own
/// process group a Ctrl-C at the terminal does not hit it: what it has begun in a repository it finishes.
pub fn run_blocking(command: &Blocking) -> Result<BlockingOutput, SpawnError> {
    let Blocking { program, cwd, .. } = command;
    if !cwd.is_dir() {
        let source = std::fs::metadata(cwd).err().unwrap_or_else(|| io::ErrorKind::NotADirectory.into());
        return Err(SpawnError::Directory { program: program.clone(), cwd: cwd.clone(), source });
    }
    let mut child =
        prepare(command).spawn().map_err(|source| SpawnError::Program { program: program.clone(), source })?;
    let lost = |what| move |source| SpawnError::Pipe { what, program: program.clone(), source };

    let pipe = child.stdin.take();
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (done, waited) = mpsc::channel::<()>();
    let (output, fed) = std::thread::scope(|scope| {
        if let (Some(limit), Some(group)) = (command.limit, group) {
            scope.spawn(move || {
                if waited.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // It may have ended in this very moment.
                    let _ = kill_process_group(group, Signal::KILL);
                }
            });
        }
        // Written beside the reading: a program that answers while it reads would otherwise wait for us as we for it.
        let feeder = pipe.map(|pipe| scope.spawn(move || feed(pipe, &command.stdin)));
        let output = child.wait_with_output();
        drop(done);
        (output, feeder.map_or(Ok(()), |feeder| feeder.join().unwrap_or(Ok(()))))
    });
    let output = output.map_err(lost("output"))?;
    fed.map_err(lost("standard input"))?;
    let exit = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    };
    Ok(BlockingOutput { exit, stdout: output.stdout, stderr: output.stderr })
}

#[expect(clippy::disallowed_methods, reason = "process is the door to other programs")]
fn prepare(command: &Blocking) -> std::process::Command {
    let mut prepared = std::process::Command::new(&command.program);
    prepared.args(&command.args).current_dir(&command.cwd).process_group(0);
    if let Some(environment) = &command.environment {
        prepared.env_clear().envs(environment.iter());
    }
    env::repository_locators().for_each(|name| {
        prepared.env_remove(name);
    });
    prepared.env("LC_ALL", "C");
    for (name, value) in &command.env {
        match value {
            Some(value) => prepared.env(name, value),
            None => prepared.env_remove(name),
        };
    }
    let stdin = match command.stdin {
        Stdin::Null => Stdio::null(),
        Stdin::Bytes(_) => Stdio::piped(),
    };
    prepared.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    prepared
}

fn feed(mut pipe: std::process::ChildStdin, stdin: &Stdin) -> io::Result<()> {
    let Stdin::Bytes(bytes) = stdin else { return Ok(()) };
    match pipe.write_all(bytes) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
