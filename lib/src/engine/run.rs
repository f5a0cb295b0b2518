//! Runs a session from where it stands to its end or a pause.

use super::pump::Pump;
use super::push::PushOccasion;
use super::{Error, Session, SessionEnded, SpawnedRun, pool};
use crate::engine::context::recording;
use crate::git;

/// Runs until the pipeline ends or pauses, and pushes what is to be pushed then.
pub async fn run_session(session: &mut Session) -> Result<SessionEnded, Error> {
    let ended = run_recorded(session).await;
    let occasion = match &ended {
        Ok(SessionEnded::Completed) => PushOccasion::Completed,
        _ => PushOccasion::Stopped,
    };
    // A queue without anything to push has nobody who answers.
    let _ = session.plan.push.end(occasion).await;
    session.check_own().and(ended)
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

/// Runs an attempt at a task. The end of its last node is written with the task's last step, which follows at once.
pub(super) async fn run_attempt(session: &mut Session) -> Result<SessionEnded, Error> {
    session.plan.push.begin();
    session.announce();
    let ended = Pump::new(session).run().await;
    session.check_own().and(ended)
}

/// Runs in the background until the pipeline ends or pauses.
pub fn spawn_session(mut session: Session) -> SpawnedRun<(Session, Result<SessionEnded, Error>)> {
    SpawnedRun::new(session.events(), async move {
        let ended = run_session(&mut session).await;
        (session, ended)
    })
}
