//! Where a repository would have its worktrees made.

use std::path::Path;

use super::real_path::real;
use super::{TrustItem, TrustScope};
use pleach_core::config::{Supplied, SuppliedKind};

impl TrustScope<'_> {
    /// The directory worktrees would be made in, where the repository names one that is neither in its checkout nor in
    /// the state directory.
    pub(crate) fn worktree_base(&self) -> Option<TrustItem> {
        let key = "worktrees.base";
        let source = self.resolved.source(key);
        let base = self.resolved.config.worktrees.base.as_ref().filter(|_| source.level.is_supplied())?;
        let is_in = |place: &Path| real(place).zip(real(base)).is_some_and(|(place, base)| base.starts_with(place));
        let in_checkout = self.repo.workdir().is_some_and(is_in) && !is_in(self.repo.common_dir());
        if in_checkout || is_in(self.state_dir) {
            return None;
        }
        let text = base.display().to_string();
        let supplied = Supplied { kind: SuppliedKind::Directory, key: key.to_owned(), source: source.clone(), text };
        Some(supplied.into())
    }
}
