//! What the engine's futures run on, and the signals that stop them.

use std::sync::{Arc, Mutex, Once, PoisonError};

use engine::env::Supervisor;
use engine::session::LOOK;
use git::workspace::StopRequest;
use os::process::{Cancel, Canceller};
use tokio::signal::unix::{SignalKind, signal};

use crate::code::Code;
use crate::failure::Failure;

/// What stops the engine's futures.
pub struct StoppedBy {
    pub canceller: Canceller,
    pub supervisor: Arc<Supervisor>,
}

/// Runs the engine's futures, and listens for Ctrl-C while they run.
pub fn block_on<T>(stopped_by: StoppedBy, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| unavailable(&error))?;
    let result = runtime.block_on(async {
        stop_on_signals(stopped_by)
            .map_err(|error| Failure::new(Code::RuntimeUnavailable, "cannot listen for signals").because(&error))?;
        future.await
    });
    // A thread may still wait for an answer at the terminal that is not needed any more.
    runtime.shutdown_background();
    result
}

/// What a signal does that would end the program.
static ON_SIGNAL: Mutex<OnSignal> = Mutex::new(OnSignal::End);

enum OnSignal {
    /// It does that.
    End,
    /// It stops the work in hand, which then ends the program itself.
    Stop(Canceller),
    /// The engine's own listener decides.
    Engine,
}

/// Does work that waits for others, and that INT, TERM and HUP stop.
pub fn until_signal<T>(work: impl FnOnce(&Cancel) -> T) -> Result<T, Failure> {
    static LISTENING: Once = Once::new();
    let (canceller, cancel) = Cancel::new();
    set_on_signal(OnSignal::Stop(canceller));
    let mut listening = Ok(());
    LISTENING.call_once(|| listening = end_on_signals());
    let done = listening.map(|()| work(&cancel));
    set_on_signal(OnSignal::End);
    done.map_err(|error| unavailable(&error))
}

fn set_on_signal(does: OnSignal) {
    *ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner) = does;
}

/// Listens to the end of the process: once a signal was listened for, it no longer ends the program by itself.
fn end_on_signals() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // Below `nohup` that is none of the signals that end it.
    let last = if os::process::ignores_hangup() { SignalKind::terminate() } else { SignalKind::hangup() };
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), last];
    let [interrupt, terminate, hangup] = runtime.block_on(async { kinds.map(signal) });
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    let listen = async move {
        loop {
            let number = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
                _ = hangup.recv() => last,
            };
            match &*ON_SIGNAL.lock().unwrap_or_else(PoisonError::into_inner) {
                OnSignal::Stop(canceller) => canceller.kill(),
                // It does not listen for this one.
                OnSignal::Engine if number != SignalKind::hangup() => {}
                OnSignal::End | OnSignal::Engine => std::process::exit(128 + number.as_raw_value()),
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(listen)).map(drop)
}

/// Waits for what a person decides before anything runs: until then Ctrl-C simply ends the program.
pub fn wait_for<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| unavailable(&error))?;
    runtime.block_on(future)
}

/// What waits for programs and servers here. Ctrl-C ends pleach, and with it what it started.
#[derive(Debug)]
pub struct SingleRuntime(Option<tokio::runtime::Runtime>);

/// A runtime for what is asked of others.
pub fn single() -> Result<SingleRuntime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map(|runtime| SingleRuntime(Some(runtime))).map_err(|error| unavailable(&error))
}

impl SingleRuntime {
    /// Waits for an answer.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is there until it is dropped").block_on(future)
    }
}

impl Drop for SingleRuntime {
    /// Nobody waits for what was given up: the system may look for a name for a long time.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

fn unavailable(error: &std::io::Error) -> Failure {
    Failure::new(Code::RuntimeUnavailable, "cannot start the runtime").because(error)
}

/// Listens for signals from now on: the first Ctrl-C lets what is in flight finish, the second one kills it. What others wish
/// of a session, with `pleach pause` and `pleach cancel`, is the supervisor's to find.
fn stop_on_signals(StoppedBy { canceller, supervisor }: StoppedBy) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut look = signal(SignalKind::from_raw(LOOK))?;
    set_on_signal(OnSignal::Engine);
    tokio::spawn(async move {
        let (mut stopped, mut killed) = (false, false);
        let mut say_killed = |only_pushes| {
            if !std::mem::replace(&mut killed, true) {
                if only_pushes {
                    say!("giving up the last push")
                } else {
                    say!("stopping now; letting git finish writing")
                }
            }
        };
        loop {
            let is_look = tokio::select! {
                _ = interrupt.recv() => false,
                _ = terminate.recv() => false,
                _ = look.recv() => true,
            };
            if !is_look {
                let only_pushes = supervisor.only_pushes();
                if stopped || only_pushes {
                    canceller.kill();
                    say_killed(only_pushes);
                } else {
                    canceller.stop();
                    say!("stopping after the turn in flight; press Ctrl-C again to stop now, only this turn is lost");
                }
                stopped = true;
            }
            for (_, wish) in if is_look { supervisor.look() } else { Vec::new() } {
                match wish {
                    StopRequest::Pause if !stopped => {
                        say!("paused with `pleach pause`; stopping after the turn in flight")
                    }
                    StopRequest::Pause => {}
                    StopRequest::Cancel => say!("cancelled with `pleach cancel`; stopping after the turn in flight"),
                    StopRequest::PauseNow | StopRequest::CancelNow => say_killed(supervisor.only_pushes()),
                }
            }
        }
    });
    Ok(())
}
