//! Stopping one node: with the whole run, or for its own timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::process::{Cancel, Canceller};

/// Stops one node for its timeout, or with the whole run.
pub(super) struct NodeCancel {
    /// What the node's work listens to.
    pub cancel: Cancel,
    watch: tokio::task::JoinHandle<()>,
    timed_out: Arc<AtomicBool>,
}

impl NodeCancel {
    /// A node's own, below the run's.
    pub fn new(run: &Cancel, timeout: Option<Duration>) -> Self {
        let (canceller, cancel) = Cancel::new();
        let timed_out = Arc::new(AtomicBool::new(false));
        let watch = tokio::spawn(forward(run.clone(), canceller, timeout, Arc::clone(&timed_out)));
        Self { cancel, watch, timed_out }
    }

    /// Whether the node took too long.
    pub fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }
}

impl Drop for NodeCancel {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn forward(run: Cancel, canceller: Canceller, timeout: Option<Duration>, timed_out: Arc<AtomicBool>) {
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let stop_then_kill = async {
        run.stopped().await;
        canceller.stop();
        run.killed().await;
    };
    tokio::select! {
        () = deadline => timed_out.store(true, Ordering::Relaxed),
        () = stop_then_kill => {}
    }
    canceller.kill();
}
