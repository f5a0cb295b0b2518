//! The supervisor: a process between pleach and a command that lives until everything the command started has ended.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, waitid};
use tokio::signal::unix::{Signal as Incoming, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::limits::LimitedCommand;
use super::sandbox::{self, NotStarted};
use super::tree;
use super::wire::{self, CommandEnd, Descriptors, SpawnRequest, SupervisorReport};
use crate::deadline::Deadline;

/// How long orphans of a command may take to finish by themselves: the `tee` of a pipeline still has to write its last
/// lines after the shell that started it has exited.
const LINGER: Duration = Duration::from_millis(250);
/// How long to wait for processes that were sent TERM before looking for new ones.
const TERM_ROUND: Duration = Duration::from_millis(50);
/// How long to wait for killed processes before looking for new ones, at first and at most.
const KILL_ROUND: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));
/// How long killing may make no progress before the supervisor gives up.
const GIVE_UP: Duration = Duration::from_secs(10);
/// The exit code of a supervisor that failed.
const BROKEN: u8 = 125;

/// The main function of the supervisor (`pleach __exec`). Its standard input must be the socket of a spawner, which
/// sends the request; there are no arguments. It reports over the socket how the command ended and exits with the
/// command's code, or 128 plus the number of the signal that ended it.
///
/// Other systems than Linux have no subreaper: the command's process group is killed, but not a process that left it.
pub fn exec_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let outcome = match args.count() {
        0 => supervise(),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it takes no arguments")),
    };
    match outcome {
        Ok(code) => code,
        Err(e) => {
            // The spawner shows it.
            let _ = writeln!(io::stderr(), "the supervisor is started by pleach itself and cannot go on: {e}");
            ExitCode::from(BROKEN)
        }
    }
}

fn supervise() -> io::Result<ExitCode> {
    // The command must not get descriptors that pleach inherited beyond the usual three: the sandbox only restricts
    // what the command opens itself. Descriptors opened from here on are close-on-exec anyway.
    close_fds::set_fds_cloexec(3, &[]);
    // A new session: no signals from the terminal, and no process below can block on it asking for a password. The call
    // fails only for the leader of a group, which already has what matters.
    let _ = rustix::process::setsid();
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (request, descriptors) = match wire::receive(&mut socket) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(ExitCode::SUCCESS), // the spawner is gone
        received => received?,
    };
    become_guard()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(run(request, descriptors, socket.try_clone()?))?;
    // Without a receiver the report is not needed.
    let _ = report.send(&mut socket);
    Ok(match report {
        SupervisorReport::NotStarted(_) | SupervisorReport::Unkillable => ExitCode::from(BROKEN),
        SupervisorReport::Ended(status) | SupervisorReport::Killed(status) => ExitCode::from(match status {
            CommandEnd::Code(code) => code as u8,
            CommandEnd::Signal(number) => 128 + number as u8,
        }),
    })
}

/// Makes this process the parent of every orphan below it. It takes its own name, so that `killall` with the name of
/// pleach or of the command does not hit it and leave the command without a guard.
#[cfg(target_os = "linux")]
fn become_guard() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::thread::set_name(c"exec-guard")?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn become_guard() -> io::Result<()> {
    Ok(())
}

/// Runs the command and returns once nothing of it is left, or nothing that can be killed. `descriptors.locks` are held
/// until then.
async fn run(
    request: SpawnRequest,
    descriptors: Descriptors<OwnedFd>,
    socket: UnixStream,
) -> io::Result<SupervisorReport> {
    let Descriptors { stdin, locks } = descriptors;
    let mut wishes = EndRequests::listen(socket)?;
    let mut deaths = ChildExits::listen()?;
    let main = match start(&request, stdin) {
        Ok(pid) => pid,
        Err(NotStarted::Program(e)) => return Ok(SupervisorReport::NotStarted(e.raw_os_error().unwrap_or_default())),
        Err(NotStarted::Unbound(e)) => return Err(io::Error::other(format!("the sandbox cannot be set up: {e}"))),
    };
    deaths.begin();
    let mut family = ProcessTree { main, status: None, gone: false };
    let by_itself = loop {
        family.reap();
        if family.status.is_some() {
            break true;
        }
        tokio::select! {
            () = deaths.next() => {}
            () = wishes.end() => {
                // It may have ended first, and both be noticed at once.
                family.reap();
                break family.status.is_some();
            }
        }
    };

    if by_itself {
        family.wait(LINGER.min(request.grace), &mut deaths).await;
    }
    family.terminate(request.grace, &mut deaths).await;
    family.kill(&mut deaths).await;
    drop(locks);
    Ok(match family.status {
        Some(status) if family.gone && by_itself => SupervisorReport::Ended(status),
        Some(status) if family.gone => SupervisorReport::Killed(status),
        _ => SupervisorReport::Unkillable,
    })
}

/// Starts the command, in its sandbox if it has one. Only the command is restricted: the supervisor must reach
/// everything below it.
fn start(request: &SpawnRequest, stdin: Option<OwnedFd>) -> Result<Pid, NotStarted> {
    let prepare = |argv: &[OsString]| Ok(LimitedCommand::new(prepare(argv, stdin)?, request.open_files));
    let child = match &request.sandbox {
        None => prepare(&request.argv).and_then(|mut command| command.spawn()).map_err(NotStarted::Program),
        Some(sandbox) => sandbox::spawn(sandbox, &request.argv, prepare),
    };
    // Dropping the handle leaves the child running; it is reaped with all others.
    Ok(Pid::from_child(&child?))
}

#[expect(clippy::disallowed_methods, reason = "process is the door to other programs")]
fn prepare(argv: &[OsString], stdin: Option<OwnedFd>) -> io::Result<std::process::Command> {
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = std::process::Command::new(program);
    // Its own group, so that a `kill 0` in a script does not hit the supervisor.
    command.args(args).stdin(stdin.map_or_else(Stdio::null, Stdio::from)).process_group(0);
    Ok(command)
}

/// Requests to end: the spawner closes its side or dies, or a signal arrives.
struct EndRequests {
    lifeline: oneshot::Receiver<()>,
    signals: [Incoming; 4],
}

impl EndRequests {
    fn listen(mut socket: UnixStream) -> io::Result<Self> {
        let (ended, lifeline) = oneshot::channel();
        std::thread::Builder::new().name("lifeline".into()).spawn(move || {
            let _ = io::copy(&mut socket, &mut io::sink());
            let _ = ended.send(());
        })?;
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
        let [terminate, interrupt, hangup, quit] = kinds.map(signal);
        Ok(Self { lifeline, signals: [terminate?, interrupt?, hangup?, quit?] })
    }

    async fn end(&mut self) {
        let [terminate, interrupt, hangup, quit] = &mut self.signals;
        tokio::select! {
            _ = &mut self.lifeline => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// Reports that a process below has died. A thread waits for that, because pleach's parent may have blocked the signal.
/// It does not reap, so that the dead keep their pids until they are reaped.
struct ChildExits {
    begin: Option<oneshot::Sender<()>>,
    died: mpsc::Receiver<()>,
}

impl ChildExits {
    fn listen() -> io::Result<Self> {
        // pleach may have been started with SIGCHLD ignored, which makes waiting impossible; a handler undoes that.
        drop(signal(SignalKind::child())?);
        let (begin, begun) = oneshot::channel();
        let (report, died) = mpsc::channel(1);
        std::thread::Builder::new().name("deaths".into()).spawn(move || {
            let dead = || waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            if begun.blocking_recv().is_err() {
                return;
            }
            while rustix::io::retry_on_intr(dead).is_ok() && report.blocking_send(()).is_ok() {}
        })?;
        Ok(Self { begin: Some(begin), died })
    }

    /// Called once there are processes below.
    fn begin(&mut self) {
        if let Some(begin) = self.begin.take() {
            let _ = begin.send(());
        }
    }

    /// Waits for the next one, forever if there is none left.
    async fn next(&mut self) {
        if self.died.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// The command and everything it started.
struct ProcessTree {
    main: Pid,
    /// How the command itself ended.
    status: Option<CommandEnd>,
    /// Nothing is left.
    gone: bool,
}

impl ProcessTree {
    /// Reaps dead processes. Everything below ends up as a child of the supervisor, so without a child nothing is left.
    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.status = status_of(status).or(self.status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return,
                Err(_) => {
                    self.gone = self.group_is_gone();
                    return;
                }
            }
        }
    }

    /// Waits until nothing is left, for at most `limit`.
    async fn wait(&mut self, limit: Duration, deaths: &mut ChildExits) {
        let deadline = Instant::now() + limit;
        loop {
            self.reap();
            if self.gone || timeout_at(deadline, deaths.next()).await.is_err() {
                return;
            }
        }
    }

    /// Sends TERM to all processes and gives them time to end. A process forked at the same instant gets it later, but
    /// none gets it twice: many programs take a second TERM as a request to abort at once.
    async fn terminate(&mut self, grace: Duration, deaths: &mut ChildExits) {
        if self.gone {
            return;
        }
        let deadline = Deadline::after(grace);
        let mut asked = BTreeSet::new();
        while !self.gone && !deadline.is_over() {
            // A stopped process acts on TERM only after CONT.
            asked.extend(self.signal(&[Signal::TERM, Signal::CONT], &asked));
            self.wait(TERM_ROUND.min(deadline.left()), deaths).await;
        }
    }

    /// Kills until nothing is left, in rounds, because processes may fork faster than the process table can be read.
    /// Only if a round finds the same processes as the one before does it wait longer, and finally give up: they hang
    /// in the kernel, or belong to another user.
    async fn kill(&mut self, deaths: &mut ChildExits) {
        if self.gone {
            return;
        }
        let (shortest, longest) = KILL_ROUND;
        let (mut round, mut before, mut hopeless) = (shortest, BTreeSet::new(), Deadline::after(GIVE_UP));
        while !self.gone && !hopeless.is_over() {
            let found = self.signal(&[Signal::KILL], &BTreeSet::new());
            if found == before {
                round = longest.min(round * 2);
            } else {
                (round, before, hopeless) = (shortest, found, Deadline::after(GIVE_UP));
            }
            self.wait(round, deaths).await;
        }
    }

    /// Sends the signals to all remaining processes `except` some, and returns them. Without a process table, signals
    /// the group.
    fn signal(&self, signals: &[Signal], except: &BTreeSet<i32>) -> BTreeSet<i32> {
        let found = tree::below(rustix::process::getpid()).unwrap_or_else(|| BTreeSet::from([-self.main.as_raw_pid()]));
        let found = &found - except;
        signals.iter().for_each(|signal| tree::signal_each(&found, *signal));
        found
    }

    /// Without a subreaper the members of the group may be children of another process.
    fn group_is_gone(&self) -> bool {
        cfg!(target_os = "linux") || rustix::process::test_kill_process_group(self.main).is_err()
    }
}

fn status_of(status: WaitStatus) -> Option<CommandEnd> {
    let signal = || status.terminating_signal().map(CommandEnd::Signal);
    status.exit_status().map(CommandEnd::Code).or_else(signal)
}
