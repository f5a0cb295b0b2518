//! Work on the merge queue that goes on behind the tasks of a run.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::{JoinError, JoinHandle};

use crate::engine::queue::{QueueError, QueueOutcome};

/// Work on the queue that goes on although the task that has begun it is done: conflicts of others are resolved there.
pub(super) type QueueWork = Arc<Mutex<Vec<JoinHandle<Result<QueueOutcome, QueueError>>>>>;

/// Waits until the queue is worked, where that goes on behind the tasks.
pub(super) async fn finish_queue_work(work: &QueueWork) -> Result<(), QueueError> {
    let going_on = std::mem::take(&mut *work.lock().unwrap_or_else(PoisonError::into_inner));
    for working in going_on {
        joined(working.await)?;
    }
    Ok(())
}

/// Whether the queue is worked behind the tasks.
pub(super) fn is_worked(work: &QueueWork) -> bool {
    !work.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

/// What a job came to; it panics with the job.
pub(super) fn joined<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
}
