//! Where a repository would have its worktrees made.

use std::path::{Component, Path, PathBuf};

use super::{TrustItem, TrustScope};
use crate::config::{Supplied, SuppliedKind};

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

/// A path without links, also where its last parts are not there yet; none where that cannot be said.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    let rest = path.strip_prefix(there).ok()?;
    let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    let there = there.canonicalize().ok().filter(|_| plain)?;
    Some(if rest.as_os_str().is_empty() { there } else { there.join(rest) })
}
