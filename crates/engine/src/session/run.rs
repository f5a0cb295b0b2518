//! Runs a session from where it stands to its end or a pause.

use super::pump::Pump;
use tokio::sync::oneshot;

use super::context::recording;
use super::{Session, SessionEnded, pool};
use crate::env::{Engine, Error, SpawnedRun};
use crate::push::{PushOccasion, wait_for_pushes};

/// Runs until the pipeline ends or pauses, and pushes what is to be pushed then.
pub async fn run_session(session: &mut Session) -> Result<SessionEnded, Error> {
    let ended = run_recorded(session).await;
    // A queue without anything to push has nobody who answers. What a mirror lacks is copied when the session is dropped,
    // since more may be recorded: [`wait_for_left_pushes`] waits for it.
    let _ = push_last(session, &ended).await;
    session.check_own().and(ended)
}

/// Starts the last push of a session that has ended like this.
fn push_last(session: &Session, ended: &Result<SessionEnded, Error>) -> oneshot::Receiver<()> {
    session.plan.push.end(match ended {
        Ok(SessionEnded::Completed) => PushOccasion::Completed,
        _ => PushOccasion::Stopped,
    })
}

/// The same, and the last copies to a mirror.
fn copy_last(session: &Session, ended: &Result<SessionEnded, Error>) -> Vec<oneshot::Receiver<()>> {
    std::iter::once(push_last(session, ended)).chain(session.plan.mirror.end()).collect()
}

async fn run_recorded(session: &mut Session) -> Result<SessionEnded, Error> {
    let ended = run_attempt(session).await?;
    session.at_root(|context| {
        recording::flush(context)?;
        context.catch_up()
    })?;
    tokio::task::block_in_place(|| {
        git::pack::pack_remaining(&session.repo);
        pool::trim_pool(session);
    });
    Ok(ended)
}

/// The same for a session of which nothing is recorded afterwards: what a mirror lacks is copied too.
pub(crate) async fn run_whole_session(session: &mut Session) -> Result<SessionEnded, Error> {
    let ended = run_session(session).await;
    if let Some(copied) = session.plan.mirror.end() {
        // A copy that was stopped has nobody who answers.
        let _ = copied.await;
    }
    ended
}

/// Runs an attempt at a task. The end of its last node is written with the task's last step, which follows at once.
pub(crate) async fn run_attempt(session: &mut Session) -> Result<SessionEnded, Error> {
    session.plan.push.begin();
    session.plan.mirror.begin();
    session.announce();
    let ended = Pump::new(session).run().await;
    session.check_own().and(ended)
}

/// Runs in the background until the pipeline ends or pauses.
pub fn spawn_session(mut session: Session) -> SpawnedRun<(Session, Result<SessionEnded, Error>)> {
    SpawnedRun::new(session.events(), async move {
        let ended = run_recorded(&mut session).await;
        wait_for_pushes(&session.engine, copy_last(&session, &ended)).await;
        let ended = session.check_own().and(ended);
        (session, ended)
    })
}

/// The same for one of several: what it pushes last is waited for by [`wait_for_left_pushes`], once all have ended.
pub fn spawn_beside(mut session: Session) -> SpawnedRun<(Session, Result<SessionEnded, Error>)> {
    SpawnedRun::new(session.events(), async move {
        let ended = run_recorded(&mut session).await;
        let copies = copy_last(&session, &ended);
        copies.into_iter().for_each(|copied| session.engine.supervisor.leave_pushes(copied));
        let ended = session.check_own().and(ended);
        (session, ended)
    })
}

/// Waits for the last pushes of runs that have ended.
pub async fn wait_for_left_pushes(engine: &Engine) {
    wait_for_pushes(engine, engine.supervisor.take_pushes()).await;
}
