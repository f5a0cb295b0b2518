//! The only spawner of processes.
//!
//! Everything that may run long or start processes of its own — an agent, a tool, a test, a setup command — goes
//! through [`Spawner::run`]. It starts the command below a supervisor, a second pleach process ([`exec_main`]), which
//! is the subreaper of everything the command starts and holds a socket to its parent. When that socket closes, because
//! the parent asks for it or because the parent is gone, the supervisor ends the whole tree: TERM, a grace period, KILL
//! until nothing is left. So nothing outlives a killed pleach, and the lock handed to the supervisor is held until
//! then.
//!
//! ```text
//! pleach ──socket (request, lifeline, report)── supervisor ── command ── whatever it starts
//!    └──────────── pipes: stdin, stdout, stderr ──────────────┘
//! ```
//!
//! Descriptors travel over the socket, never by inheritance: every descriptor is always close-on-exec, so processes
//! started in parallel cannot inherit each other's, and the command gets neither the socket nor the lock.
//!
//! [`Spawner::talk`] does the same for a command that gets input while it runs.
//!
//! Short helper programs, that is git, go through [`run_blocking`], which kills only readers that take too long and
//! what waits for another machine: the others finish even if pleach is killed. A [`Pager`] has the terminal.

mod blocking;
mod cancel;
mod capture;
mod command;
mod env;
mod error;
mod exit;
mod limits;
mod pager;
pub mod sandbox;
mod shim;
mod spawner;
mod stdio;
mod tree;
mod wire;

use std::io;

use rustix::process::Signal;

pub use blocking::sink;
pub use blocking::{Blocking, BlockingOutput, StallGuard, run_blocking};
pub use cancel::{Cancel, Canceller};
pub use capture::Capture;
pub use command::{CommandLimits, CommandSpec, Output, Signs};
pub use error::SpawnError;
pub use exit::{Exit, Timeout};
pub use limits::{ENOUGH_FILES, check_threads, open_files, raise_open_files, shortage};
pub use pager::Pager;
pub use sandbox::{Connect, Sandbox};
pub use shim::exec_main;
pub use spawner::Spawner;
pub use stdio::{OutputStream, Stdin};

/// Keeps other processes of the same user from reading this one's memory and environment, which hold keys. It also
/// disables core dumps. Child processes are not affected.
pub fn protect_memory() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Lets this process wait for its children even if its parent made it ignore their exits, in which case their status
/// would be lost. Call this before starting any process.
pub fn wait_for_children() -> io::Result<()> {
    if !ignores(Signal::CHILD) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // Once a handler was installed, the signal is no longer ignored.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child()).map(drop)
}

/// Whether this process ignores hangups, as below `nohup`.
pub fn ignores_hangup() -> bool {
    ignores(Signal::HUP)
}

#[cfg(target_os = "linux")]
fn ignores(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default();
    ignored >> (signal.as_raw() - 1) & 1 == 1
}

#[cfg(not(target_os = "linux"))]
fn ignores(_: Signal) -> bool {
    true
}
