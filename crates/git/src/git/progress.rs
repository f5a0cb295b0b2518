//! Progress of operations over many files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often progress is reported.
const EVERY: Duration = Duration::from_secs(1);

/// An operation whose time grows with the number of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperation {
    /// A worktree gets its files.
    CheckOut,
    /// Files are checked for changes.
    Scan,
    /// Files are restored to what was recorded.
    Restore,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileProgress {
    /// What is done.
    pub doing: FileOperation,
    /// With how many files it is done.
    pub files: u64,
    /// Of how many; 0 while that is not known.
    pub of: u64,
    /// It is over. Reported only if it was reported before.
    pub is_over: bool,
}

/// A listener, and how long an operation takes before it is called.
#[derive(Clone)]
pub(super) struct ProgressListener {
    pub patience: Duration,
    pub listener: Arc<dyn Fn(FileProgress) + Send + Sync>,
}

impl fmt::Debug for ProgressListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressListener").field("patience", &self.patience).finish_non_exhaustive()
    }
}

/// Reports one operation until it is dropped.
pub(super) struct ProgressMeter(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl ProgressMeter {
    /// `count` says how many files are done, and of how many.
    pub fn start(
        listening: Option<ProgressListener>,
        doing: FileOperation,
        count: impl Fn() -> (u64, u64) + Send + 'static,
    ) -> Self {
        let Some(ProgressListener { patience, listener }) = listening else { return Self(None) };
        let (end, ended) = mpsc::channel();
        let work = move || {
            let report = |is_over| {
                let (files, of) = count();
                listener(FileProgress { doing, files, of, is_over });
            };
            let mut wait = patience;
            let mut is_reported = false;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                report(false);
                (is_reported, wait) = (true, EVERY);
            }
            // Without patience everything is reported.
            if is_reported || patience.is_zero() {
                report(true);
            }
        };
        // Without a thread nothing is reported.
        let thread = std::thread::Builder::new().name("progress".into()).spawn(work);
        Self(thread.ok().map(|thread| (end, thread)))
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Files as the library counts them.
pub(super) struct Counter(pub Arc<AtomicUsize>);

impl gix::Count for Counter {
    fn set(&self, step: usize) {
        self.0.store(step, Relaxed);
    }

    fn step(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn inc_by(&self, step: usize) {
        self.0.fetch_add(step, Relaxed);
    }

    fn counter(&self) -> Arc<AtomicUsize> {
        self.0.clone()
    }
}

/// The newest count of updated files in git's output: `Updating files:  50% (2/4)`.
pub(super) fn updated_files(output: &[u8]) -> (u64, u64) {
    let text = String::from_utf8_lossy(output);
    let counts = |line: &str| {
        let (done, total) = line.split_once('(')?.1.split_once(')')?.0.split_once('/')?;
        Some((done.parse().ok()?, total.parse().ok()?))
    };
    text.split(['\r', '\n']).rev().filter(|line| is_progress(line)).find_map(counts).unwrap_or_default()
}

/// Whether a line of git's output is a progress report.
pub(super) fn is_progress(line: &str) -> bool {
    ["Updating files:", "Checking out files:", "Filtering content:"].iter().any(|head| line.starts_with(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_count_of_git_is_read() {
        assert_eq!(updated_files(b""), (0, 0));
        assert_eq!(updated_files(b"Updating files:  25% (1/4)\rUpdating files:  50% (2/4)\rUpdating fi"), (2, 4));
        assert_eq!(updated_files(b"Updating files: 100% (4/4)\rUpdating files: 100% (4/4), done.\n"), (4, 4));
        assert_eq!(updated_files(b"fatal: it is (9/9)\n"), (0, 0));
    }
}
