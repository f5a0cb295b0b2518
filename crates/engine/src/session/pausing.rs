//! Records that a session pauses.

use super::Session;
use super::context::recording;
use crate::env::Error;
use git::record::Batch;
use pleach_core::clock;
use pleach_core::event::{Event, PauseReason, PipelineCancelled, PipelinePaused};

/// Records that the run stops here and can be resumed, or that it ends if it was cancelled.
pub(super) fn pause(session: &mut Session, reason: PauseReason) -> Result<(), Error> {
    let why = pause_reason(session).filter(|_| reason == PauseReason::OverBudget);
    pause_because(session, reason, why)
}

/// Like [`pause`], with a detailed reason.
pub(super) fn pause_because(session: &mut Session, reason: PauseReason, why: Option<String>) -> Result<(), Error> {
    let root = session.root();
    let (summary, event): (_, Event) = if session.plan.cancel.is_cancelled() {
        ("cancel".to_owned(), PipelineCancelled::default().into())
    } else {
        let node_id = root.state.next_node().cloned();
        let event = PipelinePaused { reason, node_id, why, extra: Default::default() };
        (format!("pause at {}", root.here()), event.into())
    };
    recording::record(session.root_mut(), Batch { summary, ..Batch::default() }, vec![event], clock::now())
}

/// How to resume a run that this limit paused.
pub(crate) fn pause_reason(session: &Session) -> Option<String> {
    let over = session.over.as_ref()?;
    let again = match session.plan.started.task {
        Some(_) => "and run again",
        None => "and resume",
    };
    let day = if over.limit.scope() == "day" { ", or wait until tomorrow" } else { "" };
    Some(format!("{over}; {} {again}{day}", over.advice()))
}
