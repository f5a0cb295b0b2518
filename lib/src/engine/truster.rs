//! Whoever agrees to what a repository brings along.

use crate::agent::BoxFuture;
use crate::trust::TrustItem;

/// Whoever is asked before anything a repository brings along is used. A no comes as a `Refusal`, which is the embedding
/// program's own: only that knows how somebody could still agree.
pub trait Truster<Refusal>: Send + Sync {
    /// Asks about all of this at once, and waits for the answer: who does not agree to all of it agrees to nothing.
    fn agree(&self, items: Vec<TrustItem>) -> BoxFuture<'_, Result<(), Refusal>>;
}

/// Agrees to everything: for programs that themselves bring along all that is run, and for tests.
#[derive(Debug, Clone, Copy)]
pub struct AgreesToAll;

impl<Refusal: Send> Truster<Refusal> for AgreesToAll {
    fn agree(&self, _: Vec<TrustItem>) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }
}
