//! What the engine's futures run on, and the signals that stop them.

use pleach::engine::{CALL_OFF, PAUSE};
use pleach::process::Canceller;

use crate::code::Code;
use crate::exit::Failure;

/// Runs the engine's futures, and listens for Ctrl-C while they run.
pub fn block_on<T>(canceller: Canceller, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| unavailable(&error))?;
    let result = runtime.block_on(async {
        stop_on_signals(canceller)
            .map_err(|error| Failure::new(Code::RuntimeUnavailable, "cannot listen for signals").because(&error))?;
        future.await
    });
    // A thread may still wait for an answer at the terminal that is not needed any more.
    runtime.shutdown_background();
    result
}

/// Waits for what a person decides before anything runs: until then Ctrl-C simply ends the program.
pub fn wait_for<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| unavailable(&error))?;
    runtime.block_on(future)
}

fn unavailable(error: &std::io::Error) -> Failure {
    Failure::new(Code::RuntimeUnavailable, "cannot start the runtime").because(error)
}

/// Who asks for the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Ctrl-C, or `kill`.
    Here,
    /// `pleach pause`.
    Pause,
    /// `pleach cancel`.
    CallOff,
}

/// Listens for signals from now on: the first Ctrl-C lets what is in flight finish, the second one kills it, and so it
/// is with `pleach cancel`, after which the session is over. `pleach pause` alone never kills.
fn stop_on_signals(canceller: Canceller) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut call_off = signal(SignalKind::from_raw(CALL_OFF))?;
    let mut pause = signal(SignalKind::from_raw(PAUSE))?;
    tokio::spawn(async move {
        let (mut stopped, mut called_off, mut killed) = (false, false, false);
        loop {
            let asked = tokio::select! {
                _ = interrupt.recv() => Asked::Here,
                _ = terminate.recv() => Asked::Here,
                _ = call_off.recv() => Asked::CallOff,
                _ = pause.recv() => Asked::Pause,
            };
            // Who calls a session off that is being stopped already still lets the turn in flight finish.
            let kills = match asked {
                Asked::Here => stopped,
                Asked::CallOff => called_off,
                Asked::Pause => false,
            };
            match asked {
                _ if kills => {
                    canceller.kill();
                    if !std::mem::replace(&mut killed, true) {
                        say!("stopping now; letting git finish writing");
                    }
                }
                Asked::CallOff => {
                    canceller.call_off();
                    say!("called off with `pleach cancel`; stopping after the turn in flight");
                }
                Asked::Pause if stopped => {}
                Asked::Pause => {
                    canceller.stop();
                    say!("paused with `pleach pause`; stopping after the turn in flight");
                }
                Asked::Here => {
                    canceller.stop();
                    say!("stopping after the turn in flight; press Ctrl-C again to stop now, only this turn is lost");
                }
            }
            stopped = true;
            called_off |= asked == Asked::CallOff;
        }
    });
    Ok(())
}
