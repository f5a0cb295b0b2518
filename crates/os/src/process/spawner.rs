//! Runs a command below a supervisor, within limits.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

use super::capture::Keeper;
use super::limits::given_open_files;
use super::sandbox::to_words;
use super::wire::{self, CommandEnd, Descriptors, SpawnRequest, SupervisorReport};
use super::{Cancel, CommandLimits, CommandSpec, Exit, Output, OutputStream, SpawnError, Stdin, Timeout, env, tree};
use crate::deadline::{Deadline, reached, within};
use pleach_core::config::Environment;

/// How long the supervisor may take to read its request.
const HANDOVER: Duration = Duration::from_secs(10);
/// How long the supervisor may take to kill everything after the grace period.
const KILLING: Duration = Duration::from_secs(30);
/// How long a pipe may stay open after the supervisor is gone: a process outside its tree may hold it.
const DRAIN: Duration = Duration::from_secs(1);
/// How long to look for strays of a killed supervisor.
const STRAYS: Duration = Duration::from_secs(5);
/// The variable that identifies strays of a killed supervisor.
const MARK: &str = "_PLEACH_EXEC";
/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// Runs commands, each below its own supervisor. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Spawner {
    shim: Arc<[OsString]>,
    env: Arc<BTreeMap<OsString, OsString>>,
}

impl Spawner {
    /// A spawner whose supervisor is the program (and arguments) `shim`, which must call
    /// [`exec_main`](super::exec_main). Commands inherit `environment` without secrets and without the variables that
    /// locate a repository.
    pub fn new(shim: Vec<OsString>, environment: &Environment) -> Self {
        Self::passing(shim, environment, &[])
    }

    /// Like [`Spawner::new`], but commands also inherit the secrets named in `passed`.
    pub fn passing(shim: Vec<OsString>, environment: &Environment, passed: &[String]) -> Self {
        Self { shim: shim.into(), env: Arc::new(env::inherited(environment, passed)) }
    }

    /// The value of a variable that commands inherit.
    pub fn inherited(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Runs a command until it and everything it started is gone. A kill through `cancel` ends it, and so does dropping
    /// the future; a mere stop does not. `on_output` sees every byte as it arrives; the returned output is limited.
    /// Needs a tokio runtime with io and time.
    pub async fn run(
        &self,
        command: CommandSpec,
        cancel: &Cancel,
        on_output: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
    ) -> Result<Output, SpawnError> {
        self.follow(command, None, cancel, on_output).await
    }

    /// Like [`Spawner::run`], but after its `stdin` the command reads from `input` while it runs, until the channel
    /// closes.
    pub async fn talk(
        &self,
        command: CommandSpec,
        input: UnboundedReceiver<Vec<u8>>,
        cancel: &Cancel,
        on_output: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
    ) -> Result<Output, SpawnError> {
        self.follow(command, Some(input), cancel, on_output).await
    }

    async fn follow(
        &self,
        command: CommandSpec,
        input: Option<UnboundedReceiver<Vec<u8>>>,
        cancel: &Cancel,
        on_output: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
    ) -> Result<Output, SpawnError> {
        let program = command.argv.first().cloned().ok_or(SpawnError::Empty)?;
        let begun = Instant::now();
        if cancel.is_killed() {
            let (stdout, stderr) = Default::default();
            return Ok(Output { exit: Exit::Cancelled, stdout, stderr, duration: Duration::ZERO });
        }
        let Supervised { mut child, mut socket, stdin, mark } = self.launch(&command, &program, input.is_some())?;
        let supervisor = child.id();
        let mut streams = Streams::of(&mut child, command.limits.output, on_output);
        let lost = |(what, source)| SpawnError::Pipe { what, program: program.clone(), source };

        let mut watchdog = Watchdog::new(&command.limits);
        let mut feeding = pin!(feed(stdin, &command.stdin, input));
        let mut fed = false;
        let mut kill_asked = pin!(cancel.killed());
        let status = loop {
            tokio::select! {
                more = streams.next(), if streams.open() => {
                    more.map_err(lost)?;
                    watchdog.sign_of_life(Duration::ZERO);
                }
                written = &mut feeding, if !fed => {
                    written.map_err(|e| lost(("standard input", e)))?;
                    fed = true;
                }
                status = child.wait() => break status.map_err(|e| self.broken(&program, e.to_string()))?,
                () = &mut kill_asked, if watchdog.killed.is_none() => watchdog.kill(Exit::Cancelled, &socket),
                expired = watchdog.expired() => match expired {
                    Some(timeout @ Timeout::Idle(limit)) => {
                        // How old a sign is says another clock, for which the time of a stop passes too.
                        let stopped = watchdog.idle.map(|idle| idle.stopped()).unwrap_or_default();
                        let sign = match &command.signs {
                            Some(signs) => signs.within(limit.saturating_add(stopped)).await,
                            None => None,
                        };
                        match sign {
                            Some(ago) => watchdog.sign_of_life(ago.saturating_sub(stopped)),
                            None => watchdog.kill(Exit::TimedOut(timeout), &socket),
                        }
                    }
                    Some(timeout) => watchdog.kill(Exit::TimedOut(timeout), &socket),
                    None => return Err(SpawnError::Unkillable { program }),
                }
            }
        };

        let report = SupervisorReport::receive(&mut socket).map_err(|e| self.broken(&program, e.to_string()))?;
        if let (None, Some(supervisor)) = (report, supervisor) {
            end_strays(supervisor, mark.as_bytes()).await;
        }
        streams.drain().await.map_err(lost)?;
        let [stdout, stderr] = streams.keepers.map(Keeper::finish);
        let killed = watchdog.killed.map(|(exit, _)| exit);
        let exit = match report {
            Some(SupervisorReport::NotStarted(errno)) => {
                return Err(SpawnError::Program { program, source: io::Error::from_raw_os_error(errno) });
            }
            Some(SupervisorReport::Unkillable) => return Err(SpawnError::Unkillable { program }),
            Some(SupervisorReport::Ended(status)) => exit_of(status),
            Some(SupervisorReport::Killed(status)) => killed.unwrap_or(exit_of(status)),
            None => match without_report(status, killed) {
                Some(exit) => exit,
                None => return Err(self.broken(&program, format!("{status}; {}", stderr.to_text().trim()))),
            },
        };
        Ok(Output { exit, stdout, stderr, duration: begun.elapsed() })
    }

    /// Starts the supervisor and sends its request, with an open input if it `talks`.
    fn launch(&self, command: &CommandSpec, program: &OsString, talks: bool) -> Result<Supervised, SpawnError> {
        let not_a_directory =
            |source| SpawnError::Directory { program: program.clone(), cwd: command.cwd.clone(), source };
        let there = std::fs::metadata(&command.cwd).map_err(not_a_directory)?;
        if !there.is_dir() {
            return Err(not_a_directory(io::ErrorKind::NotADirectory.into()));
        }
        let bounds = command.sandbox.iter().flat_map(|sandbox| to_words(sandbox));
        if !command.argv.iter().cloned().chain(bounds).all(|word| wire::is_passable(&word)) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "an argument or a path holds a NUL byte");
            return Err(SpawnError::Program { program: program.clone(), source });
        }
        self.start(command, talks).map_err(|e| self.broken(program, e.to_string()))
    }

    #[expect(clippy::disallowed_methods, reason = "process is the door to other programs")]
    fn start(&self, command: &CommandSpec, talks: bool) -> io::Result<Supervised> {
        let (shim, shim_args) = self.shim.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (ours, theirs) = UnixStream::pair()?;
        let (stdin_reader, stdin) = match &command.stdin {
            Stdin::Null if !talks => (None, None),
            Stdin::Null | Stdin::Bytes(_) => {
                let (reader, writer) = io::pipe()?;
                (Some(OwnedFd::from(reader)), Some(ChildStdin::from_std(OwnedFd::from(writer).into())?))
            }
        };
        let (argv, sandbox) = (command.argv.clone(), command.sandbox.clone());
        let open_files = given_open_files();
        let body = SpawnRequest { argv, grace: command.limits.grace, open_files, sandbox }.to_bytes();
        let descriptors = Descriptors {
            stdin: stdin_reader.as_ref().map(AsFd::as_fd),
            locks: command.locks.iter().map(|lock| lock.as_fd()).collect(),
        };
        wire::send_header(&ours, body.len(), &descriptors)?;

        let mark = format!("{:016x}", fastrand::u64(..));
        let mut supervisor = std::process::Command::new(shim);
        supervisor
            // Not the name of pleach, so that `pkill -9 -f pleach` leaves the guard alive to clean up.
            .arg0("exec-guard")
            .args(shim_args)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(env::with_changes(&self.env, &command.env))
            .env(MARK, &mark)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = tokio::process::Command::from(supervisor).spawn()?;
        // The supervisor reads at once, so this blocks only until it has started; one that never reads is an error.
        ours.set_write_timeout(Some(HANDOVER))?;
        match (&ours).write_all(&body) {
            // It is already gone; its exit status says more than the broken pipe.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok(Supervised { child, socket: ours, stdin, mark: format!("{MARK}={mark}") })
    }

    fn broken(&self, program: &OsString, why: String) -> SpawnError {
        let supervisor = self.shim.first().cloned().unwrap_or_default();
        SpawnError::Supervisor { supervisor, program: program.clone(), why }
    }
}

/// A running supervisor. Dropping the socket ends it and everything below it.
struct Supervised {
    child: Child,
    socket: UnixStream,
    stdin: Option<ChildStdin>,
    /// A variable unique to its environment.
    mark: String,
}

/// Writes the input and closes it. A command need not read all of it.
async fn feed(pipe: Option<ChildStdin>, stdin: &Stdin, input: Option<UnboundedReceiver<Vec<u8>>>) -> io::Result<()> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let write = async {
        if let Stdin::Bytes(bytes) = stdin {
            pipe.write_all(bytes).await?;
        }
        if let Some(mut input) = input {
            while let Some(bytes) = input.recv().await {
                pipe.write_all(&bytes).await?;
            }
        }
        io::Result::Ok(())
    };
    match write.await {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// When a command must end, and whether it was told to.
struct Watchdog<'a> {
    limits: &'a CommandLimits,
    wall: Option<Deadline>,
    idle: Option<Deadline>,
    /// Why it was killed, and when that should be complete.
    killed: Option<(Exit, Deadline)>,
}

impl<'a> Watchdog<'a> {
    fn new(limits: &'a CommandLimits) -> Self {
        let [wall, idle] = [limits.wall, limits.idle].map(|limit| limit.map(Deadline::after));
        Self { limits, wall, idle, killed: None }
    }

    /// The command showed so long ago that it lives.
    fn sign_of_life(&mut self, ago: Duration) {
        self.idle = self.limits.idle.map(|limit| Deadline::after(limit.saturating_sub(ago)));
    }

    /// Waits until a limit is exceeded; none is that of a kill which takes too long.
    async fn expired(&self) -> Option<Timeout> {
        if let Some((_, deadline)) = &self.killed {
            deadline.reached().await;
            return None;
        }
        tokio::select! {
            () = reached(self.wall) => self.limits.wall.map(Timeout::Wall),
            () = reached(self.idle) => self.limits.idle.map(Timeout::Idle),
        }
    }

    /// Tells the supervisor to end everything; its report can still arrive.
    fn kill(&mut self, exit: Exit, socket: &UnixStream) {
        self.killed = Some((exit, Deadline::after(self.limits.grace.saturating_add(KILLING))));
        // Fails only if the supervisor is already gone.
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// The two output streams and their kept parts.
struct Streams<'a> {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    buffers: [Vec<u8>; 2],
    keepers: [Keeper; 2],
    on_output: &'a mut (dyn FnMut(OutputStream, &[u8]) + Send),
}

impl<'a> Streams<'a> {
    fn of(child: &mut Child, limit: usize, on_output: &'a mut (dyn FnMut(OutputStream, &[u8]) + Send)) -> Self {
        Self {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            buffers: [vec![0; CHUNK], vec![0; CHUNK]],
            keepers: [Keeper::new(limit), Keeper::new(limit)],
            on_output,
        }
    }

    fn open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads the next piece of output, or the end of a stream. Cancel-safe: nothing is lost if it is dropped while
    /// waiting.
    async fn next(&mut self) -> Result<(), (&'static str, io::Error)> {
        let [out, err] = &mut self.buffers;
        let (stream, read) = tokio::select! {
            read = read(&mut self.stdout, out) => (OutputStream::Stdout, read),
            read = read(&mut self.stderr, err) => (OutputStream::Stderr, read),
        };
        let index = stream as usize;
        match (stream, read) {
            (OutputStream::Stdout, Ok(0)) => self.stdout = None,
            (OutputStream::Stderr, Ok(0)) => self.stderr = None,
            (OutputStream::Stdout, Err(e)) => return Err(("standard output", e)),
            (OutputStream::Stderr, Err(e)) => return Err(("standard error", e)),
            (_, Ok(length)) => {
                let chunk = &self.buffers[index][..length];
                self.keepers[index].push(chunk);
                (self.on_output)(stream, chunk);
            }
        }
        Ok(())
    }

    /// Reads what is left in the pipes of a command that is gone.
    async fn drain(&mut self) -> Result<(), (&'static str, io::Error)> {
        let rest = async {
            while self.open() {
                self.next().await?;
            }
            Ok(())
        };
        within(DRAIN, rest).await.unwrap_or(Ok(()))
    }
}

/// Reads from a pipe; a closed pipe stays pending forever.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// Kills the processes left by a killed supervisor.
async fn end_strays(supervisor: u32, mark: &[u8]) {
    let Ok(supervisor) = i32::try_from(supervisor) else { return };
    let deadline = Instant::now() + STRAYS;
    loop {
        let found = tree::strays(supervisor, mark);
        if found.is_empty() || Instant::now() > deadline {
            return;
        }
        tree::signal_each(&found, Signal::KILL);
        sleep(Duration::from_millis(2)).await;
    }
}

fn exit_of(status: CommandEnd) -> Exit {
    match status {
        CommandEnd::Code(code) => Exit::Code(code),
        CommandEnd::Signal(signal) => Exit::Signal(signal),
    }
}

/// The exit for a supervisor that ended without a report; `None` if it ended by itself.
fn without_report(status: ExitStatus, killed: Option<Exit>) -> Option<Exit> {
    let signal = status.signal()?;
    // Ctrl-C in the instant before the supervisor has its own session, hence before it started anything.
    let from_terminal = [Signal::INT, Signal::QUIT, Signal::HUP].map(Signal::as_raw).contains(&signal);
    Some(killed.unwrap_or(if from_terminal { Exit::Cancelled } else { Exit::Signal(signal) }))
}
