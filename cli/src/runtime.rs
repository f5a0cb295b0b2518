//! What the engine's futures run on, and the signals that stop them.

use pleach::engine::CALL_OFF;
use pleach::process::Canceller;

use crate::exit::{Exit, Failure};

/// Runs the engine's futures, and listens for Ctrl-C while they run.
pub fn block_on<T>(canceller: Canceller, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::Environment, "cannot start the runtime").because(&error))?;
    let result = runtime.block_on(async {
        stop_on_signals(canceller)
            .map_err(|error| Failure::new(Exit::Environment, "cannot listen for signals").because(&error))?;
        future.await
    });
    // A thread may still wait for an answer at the terminal that is not needed any more.
    runtime.shutdown_background();
    result
}

/// Listens for signals from now on: the first Ctrl-C lets what is in flight finish, the second one kills it, and so it
/// is with `pleach cancel`, after which the session is over.
fn stop_on_signals(canceller: Canceller) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut call_off = signal(SignalKind::from_raw(CALL_OFF))?;
    tokio::spawn(async move {
        let (mut stopped, mut called_off, mut killed) = (false, false, false);
        loop {
            let off = tokio::select! {
                _ = interrupt.recv() => false,
                _ = terminate.recv() => false,
                _ = call_off.recv() => true,
            };
            // Who calls a session off that is being stopped already still lets the turn in flight finish.
            if if off { called_off } else { stopped } {
                canceller.kill();
                if !std::mem::replace(&mut killed, true) {
                    say!("killing what runs; files git is writing are written to the end");
                }
            } else if off {
                canceller.call_off();
                say!("called off with `pleach cancel`; stopping after the turn in flight");
            } else {
                canceller.stop();
                say!("stopping after the turn in flight; once more to kill it (nothing recorded is lost)");
            }
            stopped = true;
            called_off |= off;
        }
    });
    Ok(())
}
