//! The last pushes are waited for once nothing else is left to do.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::env::Engine;
use pleach_core::event::WarningCode;

/// How long the last pushes are waited for without a word.
const UNSAID: Duration = Duration::from_secs(1);

/// Waits until pushes have come to an end, or were given up, with nothing else left to do.
pub(crate) async fn wait_for_pushes(engine: &Engine, pushes: Vec<oneshot::Receiver<()>>) {
    engine.supervisor.set_only_pushes(true);
    let mut all = pin!(async {
        for ended in pushes {
            // Without anything to push nobody answers.
            let _ = ended.await;
        }
    });
    if tokio::time::timeout(UNSAID, all.as_mut()).await.is_err() {
        let text = "nothing else is left to do; waiting for the last push or copy to end; Ctrl-C gives it up";
        engine.warn(WarningCode::PushAwaited.with(text.to_owned()));
        all.await;
    }
    engine.supervisor.set_only_pushes(false);
}
