//! The last pushes: waited for once nothing else is left to do, and made up for where they failed.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::schedule::PushOccasion;
use crate::engine::locks::Locks;
use crate::engine::resume::{open_recorded, read};
use crate::engine::{Engine, Error, SessionRepos, SpawnedRun};
use crate::event::WarningCode;
use crate::ids::SessionId;
use crate::state::Phase;
use crate::workspace::FIRST_SLOT;

/// How long the last pushes are waited for without a word.
const UNSAID: Duration = Duration::from_secs(1);

/// Waits until pushes have come to an end, or were given up, with nothing else left to do.
pub(in crate::engine) async fn wait_for_pushes(engine: &Engine, pushes: Vec<oneshot::Receiver<()>>) {
    engine.supervisor.set_only_pushes(true);
    let mut all = pin!(async {
        for ended in pushes {
            // Without anything to push nobody answers.
            let _ = ended.await;
        }
    });
    if tokio::time::timeout(UNSAID, all.as_mut()).await.is_err() {
        let text = "nothing else is left to do; waiting for the last push to end; Ctrl-C gives it up";
        engine.warn(WarningCode::PushAwaited.with(text.to_owned()));
        all.await;
    }
    engine.supervisor.set_only_pushes(false);
}

/// Pushes in the background what the remotes of a session lack of it, while nobody runs it. What fails is told, and kept for
/// `status`.
pub fn spawn_push(engine: Arc<Engine>, repos: SessionRepos, id: SessionId) -> SpawnedRun<Result<(), Error>> {
    SpawnedRun::new(engine.events.subscribe(), push_missing(engine, repos, id))
}

async fn push_missing(engine: Arc<Engine>, repos: SessionRepos, id: SessionId) -> Result<(), Error> {
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
