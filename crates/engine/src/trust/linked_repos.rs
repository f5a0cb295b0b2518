//! Repositories of the workspace that a link puts elsewhere.

use super::real_path::real;
use pleach_core::config::{Resolved, Supplied, SuppliedKind};

/// The paths of repositories that look as if they were in the project and are not, for a link is on the way.
pub(super) fn linked_repos(resolved: &Resolved) -> Vec<Supplied> {
    let root = &resolved.config.root;
    let mut found = Vec::new();
    for (name, repo) in &resolved.config.workspace.repos {
        let key = format!("workspace.repos.{name}.path");
        let source = resolved.source(&key);
        let Some(path) = repo.path.as_ref().filter(|path| path.starts_with(root) && source.level.is_supplied()) else {
            continue;
        };
        let is_inside = real(root).zip(real(path)).is_some_and(|(root, path)| path.starts_with(root));
        if !is_inside {
            let text = real(path).unwrap_or_else(|| path.clone()).display().to_string();
            found.push(Supplied { kind: SuppliedKind::Directory, source: source.clone(), key, text });
        }
    }
    found
}
