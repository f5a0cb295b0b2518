//! What must be approved before a queue is worked: the settings of the repository, and the tests its entries bring.

use super::store::MergeQueue;
use crate::trust::{TrustItem, TrustScope};

/// What must be approved before tests run in the worktrees of a queue.
pub fn tests_to_trust(scope: &TrustScope<'_>) -> Vec<TrustItem> {
    let mut items = scope.settings();
    items.extend(scope.worktree_base());
    items
}

/// What must be approved before a queue is worked.
pub fn queue_to_trust(scope: &TrustScope<'_>, queue: &MergeQueue) -> Vec<TrustItem> {
    let mut items = scope.settings();
    for entry in queue.open.iter().map(|stored| &stored.entry) {
        let tests = entry.tests.iter();
        items.extend(tests.map(|test| TrustItem::command(format!("test of {}", entry.name()), test.command.clone())));
    }
    items.extend(scope.worktree_base());
    items
}
