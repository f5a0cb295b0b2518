//! Approval of a repository's commands.

use crate::trust::TrustItem;
use agents::agent::BoxFuture;

/// Asked for approval before anything that a repository defines is used. A refusal is a `Refusal`, a type of the
/// embedding program: only that program knows how the user could still approve.
pub trait Truster<Refusal>: Send + Sync {
    /// Asks about all items at once and waits for the answer. Approval covers all of them or none.
    fn agree(&self, items: Vec<TrustItem>) -> BoxFuture<'_, Result<(), Refusal>>;
}

/// Approves everything: for programs that supply everything that runs, and for tests.
#[derive(Debug, Clone, Copy)]
pub struct AgreesToAll;

impl<Refusal: Send> Truster<Refusal> for AgreesToAll {
    fn agree(&self, _: Vec<TrustItem>) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }
}
