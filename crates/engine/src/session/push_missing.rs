//! Pushes of a session that have failed are made up for.

use std::sync::Arc;

use super::resume::{open_recorded, read};
use crate::env::{Engine, Error, Locks, SessionRepos, SpawnedRun};
use crate::push::{PushOccasion, wait_for_pushes};
use git::workspace::FIRST_SLOT;
use pleach_core::ids::RunId;
use pleach_core::state::Phase;

/// Pushes in the background what the remotes of a session lack of it, while nobody runs it. What fails is told, and kept for
/// `status`.
pub fn spawn_push(engine: Arc<Engine>, repos: SessionRepos, id: RunId) -> SpawnedRun<Result<(), Error>> {
    SpawnedRun::new(engine.events.subscribe(), push_missing(engine, repos, id))
}

async fn push_missing(engine: Arc<Engine>, repos: SessionRepos, id: RunId) -> Result<(), Error> {
    let mut session = tokio::task::block_in_place(|| {
        let (locks, found) = Locks::take(repos.record(), &id)?.with(|| read(repos.record(), &id))?;
        open_recorded(Arc::clone(&engine), repos, locks, found, None, FIRST_SLOT)
    })?;
    session.take_warnings().into_iter().for_each(|warning| engine.warn(warning));
    let occasion = match session.state().phase {
        Phase::Completed => PushOccasion::Completed,
        _ => PushOccasion::Stopped,
    };
    wait_for_pushes(&engine, vec![session.plan.push.end(occasion)]).await;
    session.check_own()
}
