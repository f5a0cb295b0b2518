//! Work on the merge queue that goes on behind the tasks of a run.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};

use crate::landing::{QueueError, QueueOutcome};

/// How often it is looked at whether the queue has gone on.
pub(super) const POLL: Duration = Duration::from_millis(100);

/// Work on the queue that goes on although the task that has begun it is done: conflicts of others are resolved there.
pub(super) type QueueWork = Arc<Mutex<Vec<QueueJob>>>;

type QueueJob = JoinHandle<Result<QueueOutcome, QueueError>>;

/// Waits until the queue is worked, or what is waited for is known. The work goes on behind the tasks then, also where that
/// cannot be found out.
pub(super) async fn follow<T>(
    mut working: QueueJob,
    work: &QueueWork,
    mut known: impl FnMut() -> Result<Option<T>, QueueError>,
) -> Result<ControlFlow<T, QueueOutcome>, QueueError> {
    loop {
        tokio::select! {
            ended = &mut working => return joined(ended).map(ControlFlow::Continue),
            () = tokio::time::sleep(POLL) => {}
        }
        if let Some(known) = known().transpose() {
            work.lock().unwrap_or_else(PoisonError::into_inner).push(working);
            return known.map(ControlFlow::Break);
        }
    }
}

/// Waits until the queue is worked, where that goes on behind the tasks: all of it, whatever becomes of the first.
pub(super) async fn finish_queue_work(work: &QueueWork) -> Result<(), QueueError> {
    let going_on = std::mem::take(&mut *work.lock().unwrap_or_else(PoisonError::into_inner));
    let mut ends = Vec::new();
    for working in going_on {
        ends.push(working.await);
    }
    ends.into_iter().try_for_each(|ended| joined(ended).map(drop))
}

/// Whether the queue is worked behind the tasks.
pub(super) fn is_worked(work: &QueueWork) -> bool {
    !work.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

/// What a job came to; it panics with the job.
fn joined<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn broken(entry: &str) -> QueueError {
        QueueError::NoEntry(entry.to_owned())
    }

    #[tokio::test]
    async fn queue_work_is_awaited_although_its_task_cannot_be_read() {
        let work = QueueWork::default();
        let (go_on, awaited) = oneshot::channel::<()>();
        let working = tokio::spawn(async move {
            awaited.await.expect("it is told to go on");
            Err(broken("second"))
        });
        let known = follow(working, &work, || Err::<Option<()>, _>(broken("task"))).await;
        assert!(matches!(known, Err(QueueError::NoEntry(entry)) if entry == "task"));
        work.lock().unwrap().insert(0, tokio::spawn(async { Err(broken("first")) }));
        let mut finished = Box::pin(finish_queue_work(&work));
        let early = tokio::time::timeout(POLL, &mut finished).await;
        assert!(early.is_err(), "the second is still at work");
        go_on.send(()).expect("somebody waits for that");
        assert!(matches!(finished.await, Err(QueueError::NoEntry(entry)) if entry == "first"));
        assert!(!is_worked(&work));
    }
}
