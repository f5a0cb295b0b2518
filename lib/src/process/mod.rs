//! The only spawner of processes.
//!
//! Whatever may run long or start things of its own — an agent, a tool, a test, a setup command — goes through
//! [`Spawner::run`]. It starts the command below a supervisor, a second pleach process ([`exec_main`]), which is the
//! subreaper of everything the command starts and holds a socket to its parent. When that socket ends, because the
//! parent asks for it or because the parent is gone, the supervisor ends the whole tree: TERM, a grace period, KILL until
//! nothing is left. So nothing outlives a killed pleach, and the lock handed to the supervisor is held until then.
//!
//! ```text
//! pleach ──socket (request, lifeline, report)── supervisor ── command ── whatever it starts
//!    └──────────── pipes: stdin, stdout, stderr ──────────────┘
//! ```
//!
//! Descriptors travel over the socket, never by inheritance: every descriptor stays close-on-exec all the time, so
//! processes started side by side cannot catch each other's, and the command gets neither the socket nor the lock.
//!
//! [`Spawner::talk`] does the same for a command that is spoken to while it runs.
//!
//! Short helper programs, that is git, go through [`run_blocking`], which kills only what reads and takes too long: they
//! finish even when pleach is killed.

mod blocking;
mod cancel;
mod capture;
mod command;
mod env;
pub mod sandbox;
mod shim;
mod spawner;
mod tree;
mod wire;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

pub use blocking::{Blocking, BlockingOutput, run_blocking, sink};
pub use cancel::{Cancel, Canceller};
pub use capture::Capture;
pub use command::{Command, Exit, Limits, Output, Signs, Stdin, Stream, Timeout};
pub use sandbox::{Connect, Sandbox};
pub use shim::exec_main;
pub use spawner::Spawner;

/// Keeps other processes of the same user from reading the memory and the variables of this one, where keys are. No
/// cores are dumped from then on. What it starts is not concerned.
pub fn keep_private() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Lets this process wait for those it starts, also where whoever started it had it ignore their end: nobody learns then
/// how they ended. To be called before anything is started.
pub fn heed_children() -> io::Result<()> {
    if !ignores_children() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // Who has listened to a signal once does not ignore it any more.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child()).map(drop)
}

#[cfg(target_os = "linux")]
fn ignores_children() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default();
    ignored >> (rustix::process::Signal::CHILD.as_raw() - 1) & 1 == 1
}

#[cfg(not(target_os = "linux"))]
fn ignores_children() -> bool {
    true
}

/// Why a command could not be started or followed to its end. A command that ran and failed is no error but an [`Exit`].
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The command has no words.
    #[error("there is no command to run: name a program")]
    Empty,
    /// The directory to run in is not there.
    #[error("cannot run `{}` in {}: {source}", program.display(), cwd.display())]
    Directory {
        /// The program that should have run.
        program: OsString,
        /// The directory it should have run in.
        cwd: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program does not exist or cannot be executed.
    #[error("cannot start `{}`: {source}; {}", program.display(), advice(source))]
    Program {
        /// The program as it was named.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The supervisor could not be started or did not do its work.
    #[error("the supervisor `{}` of `{}` did not work: {why}", supervisor.display(), program.display())]
    Supervisor {
        /// The supervisor's program.
        supervisor: OsString,
        /// The program it should have run.
        program: OsString,
        /// What went wrong.
        why: String,
    },
    /// Something below the command did not end although it was killed.
    #[error("`{}` was killed but something it started does not end; look for a process that hangs in the system or runs as another user", program.display())]
    Unkillable {
        /// The program that was run.
        program: OsString,
    },
    /// A pipe to or from the command failed.
    #[error("lost the {what} of `{}`: {source}", program.display())]
    Pipe {
        /// Which pipe.
        what: &'static str,
        /// The program that was run.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
}

/// What to do about a program that does not start.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "install it, put it on PATH, or correct the command",
        io::ErrorKind::PermissionDenied => "make it executable, or run it through its interpreter",
        io::ErrorKind::ArgumentListTooLong => "pass the long text on stdin or in a file",
        _ => "check the program and the command",
    }
}
