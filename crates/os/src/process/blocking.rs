//! Runs short helper programs to completion.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::cancel::Cancel;
use super::env;
use super::error::SpawnError;
use super::exit::{Exit, Timeout};
use super::stdio::Stdin;
use crate::deadline::Deadline;
use pleach_core::config::Environment;

/// A helper program for [`run_blocking`]. It inherits the environment with its credentials, unless `environment` is
/// given, but without the variables that locate a repository, and runs with `LC_ALL=C`.
#[derive(Debug, Clone, Default)]
pub struct Blocking {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The directory to run in.
    pub cwd: PathBuf,
    /// The environment, instead of the inherited one.
    pub environment: Option<Environment>,
    /// Variables to set (`Some`) or to remove (`None`).
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// The time after which it is killed with everything it started; `None` if it is never killed.
    pub limit: Option<Duration>,
    /// When it is given up, if it talks to another machine.
    pub guard: Option<StallGuard>,
    /// A lock that it holds to its end as its standard input, even if this process is killed.
    pub keeps: Option<Arc<File>>,
    /// A [`sink`] for its standard error that the caller reads meanwhile.
    pub stderr: Option<Arc<File>>,
}

/// When a program that talks to another machine is given up: then its process group is killed. What it leaves behind at
/// its own end runs on, such as a helper of the user that caches credentials.
#[derive(Debug, Clone)]
pub struct StallGuard {
    /// It has written nothing for this long.
    pub silence: Duration,
    /// It has run for this long.
    pub total: Duration,
    /// A kill is requested.
    pub cancel: Cancel,
}

/// How often a guard looks.
const LOOK: Duration = Duration::from_millis(25);

impl StallGuard {
    /// Waits until the program has ended, which closes `ended`, or is to be given up, and returns why then.
    fn watch(&self, ended: &mpsc::Receiver<Pid>, outputs: [&File; 2]) -> Option<Exit> {
        let (total, mut written, mut silence) = (Deadline::after(self.total), 0, Deadline::after(self.silence));
        while ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
            let now = outputs.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>();
            if now != written {
                (written, silence) = (now, Deadline::after(self.silence));
            }
            if self.cancel.is_killed() {
                return Some(Exit::Cancelled);
            }
            if silence.is_over() {
                return Some(Exit::TimedOut(Timeout::Idle(self.silence)));
            }
            if total.is_over() {
                return Some(Exit::TimedOut(Timeout::Wall(self.total)));
            }
        }
        None
    }
}

/// Waits until a program has ended, which closes `ended`, or has used up its limit, and returns how it is ended then.
fn outlasts(limit: Duration, ended: &mpsc::Receiver<Pid>) -> Option<Exit> {
    let deadline = Deadline::after(limit);
    while ended.recv_timeout(deadline.left()) == Err(mpsc::RecvTimeoutError::Timeout) {
        if deadline.is_over() {
            return Some(Exit::Signal(Signal::KILL.as_raw()));
        }
    }
    None
}

/// The result of a helper program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingOutput {
    /// How it ended: by itself, by a signal, or by its guard.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
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

/// Runs a helper program to completion and returns all its output. It is never killed unless it has a limit or a guard, and a
/// Ctrl-C at the terminal does not reach its own process group: it finishes its changes to a repository even if this
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
    let not_started = |source| SpawnError::Program { program: program.clone(), source };
    let (begun, running) = mpsc::channel::<Pid>();
    let outputs = [&stdout, &stderr];
    let (status, fed, given_up) = std::thread::scope(|scope| {
        // It is there before the program: without it nothing is started that could not be ended.
        let watch = move || {
            let group = running.recv().ok()?;
            let given_up = match (&command.guard, command.limit) {
                (Some(guard), _) => guard.watch(&running, outputs),
                (None, limit) => outlasts(limit?, &running),
            };
            if given_up.is_some() {
                // It may have just ended.
                let _ = kill_process_group(group, Signal::KILL);
            }
            given_up
        };
        let is_watched = command.guard.is_some() || command.limit.is_some();
        let watcher = is_watched.then(|| std::thread::Builder::new().name("guard".into()).spawn_scoped(scope, watch));
        let watcher = watcher.transpose().map_err(not_started)?;
        let mut child = prepared.spawn().map_err(not_started)?;
        let pipe = child.stdin.take();
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // Without a watcher nobody listens.
        let _ = group.map(|group| begun.send(group));
        let fed = pipe.map_or(Ok(()), |pipe| feed(pipe, &command.stdin));
        if let (Some(_), Some(group)) = (command.limit, group) {
            // Processes it left would run on without a limit. Checked before it is reaped, so that the group id is
            // still its own.
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            if rustix::io::retry_on_intr(|| waitid(WaitId::Pid(group), end)).is_ok() {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        let status = child.wait();
        drop(begun);
        Ok((status, fed, watcher.and_then(|watcher| watcher.join().ok().flatten())))
    })?;
    let status = status.map_err(lost("end"))?;
    fed.map_err(lost("standard input"))?;
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, _) if given_up.is_some() => given_up.unwrap_or(Exit::Cancelled),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    };
    let [stdout, stderr] = [stdout, stderr].map(|file| written(file).map_err(lost("output")));
    Ok(BlockingOutput { exit, stdout: stdout?, stderr: stderr? })
}

/// An unnamed file for a program to write to. A pipe would tie the program to this process: writing to a pipe without a
/// reader fails, and git reports its progress while it changes files, as filters of the user may.
#[cfg(target_os = "linux")]
pub fn sink() -> io::Result<File> {
    let file = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?;
    // If the program reopens it, as `/dev/stderr`, later output is still appended.
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
    Ok(file.into())
}

#[cfg(not(target_os = "linux"))]
pub fn sink() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = std::env::temp_dir().join(format!("pleach-output-{:016x}", fastrand::u64(..)));
    let file = File::options().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// All output written to a sink.
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
