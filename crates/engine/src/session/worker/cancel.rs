//! Stops one node: with the whole run, or at its own timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use os::deadline::Deadline;
use os::process::Cancel;

/// Stops one node at its timeout, or with the whole run.
pub(super) struct NodeCancel {
    /// What the node's work observes.
    pub cancel: Cancel,
    deadline: Option<tokio::task::JoinHandle<()>>,
    timed_out: Arc<AtomicBool>,
}

impl NodeCancel {
    /// A child of the run's `Cancel`: a stop of the run is visible in the node at the same instant.
    pub fn new(run: &Cancel, timeout: Option<Duration>) -> Self {
        let (canceller, cancel) = run.child();
        let timed_out = Arc::new(AtomicBool::new(false));
        let late = (run.clone(), Arc::clone(&timed_out));
        let deadline = timeout.map(|timeout| {
            let deadline = Deadline::after(timeout);
            tokio::spawn(async move {
                deadline.reached().await;
                // Work killed with the run has not timed out.
                if !late.0.is_killed() {
                    late.1.store(true, Ordering::Relaxed);
                    canceller.kill();
                }
            })
        });
        Self { cancel, deadline, timed_out }
    }

    /// Whether the node timed out.
    pub fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }
}

impl Drop for NodeCancel {
    fn drop(&mut self) {
        self.deadline.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
