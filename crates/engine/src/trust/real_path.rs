//! Where a path leads.

use std::path::{Component, Path, PathBuf};

/// A path without links, also where its last parts are not there yet; none where that cannot be said.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|above| above.symlink_metadata().is_ok())?;
    let rest = path.strip_prefix(there).ok()?;
    let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    let there = there.canonicalize().ok().filter(|_| plain)?;
    Some(if rest.as_os_str().is_empty() { there } else { there.join(rest) })
}
