//! Short helper programs, run to their end.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::env;
use super::error::SpawnError;
use super::exit::Exit;
use super::stdio::Stdin;
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
    /// What it keeps open to its end, also where this process is killed: a lock, as its standard input.
    pub keeps: Option<Arc<File>>,
    /// A [`sink`] for its standard error that somebody looks into meanwhile.
    pub stderr: Option<Arc<File>>,
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
/// process group a Ctrl-C at the terminal does not hit it: what it has begun in a repository it finishes, also where this
/// process is killed meanwhile.
pub fn run_blocking(command: &Blocking) -> Result<BlockingOutput, SpawnError> {
    let Blocking { program, cwd, .. } = command;
    if !cwd.is_dir() {
        let source = std::fs::metadata(cwd).err().unwrap_or_else(|| io::ErrorKind::NotADirectory.into());
        return Err(SpawnError::Directory { program: program.clone(), cwd: cwd.clone(), source });
    }
    let lost = |what| move |source| SpawnError::Pipe { what, program: program.clone(), source };
    let stderr = match &command.stderr {
        Some(given) => given.try_clone(),
        None => sink(),
    };
    let (stdout, stderr) = (sink().map_err(lost("output"))?, stderr.map_err(lost("output"))?);
    let mut prepared = prepare(command, [&stdout, &stderr]).map_err(lost("output"))?;
    let mut child = prepared.spawn().map_err(|source| SpawnError::Program { program: program.clone(), source })?;

    let pipe = child.stdin.take();
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (done, waited) = mpsc::channel::<()>();
    let (status, fed) = std::thread::scope(|scope| {
        if let (Some(limit), Some(group)) = (command.limit, group) {
            scope.spawn(move || {
                if waited.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                    // It may have ended in this very moment.
                    let _ = kill_process_group(group, Signal::KILL);
                }
            });
        }
        let fed = pipe.map_or(Ok(()), |pipe| feed(pipe, &command.stdin));
        if let (Some(_), Some(group)) = (command.limit, group) {
            // What it has left would go on without a limit. Looked at before it is reaped, so that the number is still its own.
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            if rustix::io::retry_on_intr(|| waitid(WaitId::Pid(group), end)).is_ok() {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        let status = child.wait();
        drop(done);
        (status, fed)
    });
    let status = status.map_err(lost("end"))?;
    fed.map_err(lost("standard input"))?;
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    };
    let [stdout, stderr] = [stdout, stderr].map(|file| written(file).map_err(lost("output")));
    Ok(BlockingOutput { exit, stdout: stdout?, stderr: stderr? })
}

/// A file without a name for a program to write to. A pipe would end it with this process: nobody can write to one that
/// nobody reads, and a git that is about to change files shows how far it has come, as filters of the user's may.
#[cfg(target_os = "linux")]
pub(crate) fn sink() -> io::Result<File> {
    let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?;
    // Where somebody opens it anew, as `/dev/stderr`, what comes after that still follows what is there.
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
    Ok(file.into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn sink() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = std::env::temp_dir().join(format!("pleach-output-{:016x}", fastrand::u64(..)));
    let file = File::options().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// All that was written to a sink.
fn written(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[expect(clippy::disallowed_methods, reason = "process is the door to other programs")]
fn prepare(command: &Blocking, [stdout, stderr]: [&File; 2]) -> io::Result<std::process::Command> {
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
        Stdin::Null => command.keeps.as_ref().map_or(Ok(Stdio::null()), |file| file.try_clone().map(Stdio::from))?,
        Stdin::Bytes(_) => Stdio::piped(),
    };
    prepared.stdin(stdin).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    Ok(prepared)
}

fn feed(mut pipe: std::process::ChildStdin, stdin: &Stdin) -> io::Result<()> {
    let Stdin::Bytes(bytes) = stdin else { return Ok(()) };
    match pipe.write_all(bytes) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
