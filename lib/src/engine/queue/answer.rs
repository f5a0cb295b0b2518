//! What an agent's answer to a conflict is worth: it may change the files in conflict, and what the failing tests name.

use std::collections::BTreeSet;

use super::conflict::OpenConflict;
use super::error::QueueError;
use crate::engine::merging::unresolved;
use crate::git::{self, ChangeKind, Repo, TreeId};
use crate::ids::RepoPath;
use crate::queue::QueueEntry;
use crate::text::named;

/// What an agent made of a conflict.
pub(super) enum AgentAnswer {
    /// These files have both sides.
    Resolved(TreeId),
    /// Some of it is solved.
    Partial(TreeId, Vec<RepoPath>),
    /// Nothing that could be used, for this reason.
    Failed(String),
    /// It was stopped, which is no answer.
    Stopped,
}

/// Whether files resolve a conflict, and nothing else was touched. Blocks.
pub(super) fn judge(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    tree: TreeId,
    log: Option<&str>,
) -> Result<AgentAnswer, QueueError> {
    let begun = repo.tree_of(conflict.commit)?;
    if tree == begun {
        return Ok(AgentAnswer::Failed("it changed nothing".to_owned()));
    }
    let allowed = allowed_paths(repo, entry, conflict)?;
    let is_named = |path: &RepoPath| log.is_some_and(|log| names(log, &path.to_string()));
    let changes = git::diff::changes(repo, begun, tree)?;
    if conflict.sides.is_none()
        && let Some(why) = taken_back(repo, entry, conflict, &changes)?
    {
        return Ok(AgentAnswer::Failed(why));
    }
    let others = changes.into_iter().map(|change| change.path);
    let others: Vec<RepoPath> = others.filter(|path| !allowed.contains(path) && !is_named(path)).collect();
    if !others.is_empty() {
        let what = named(&others);
        return Ok(AgentAnswer::Failed(format!("it changed {what}, which is not in conflict and no test names")));
    }
    let left = conflict.sides.as_ref().map(|sides| unresolved(repo, sides, tree)).transpose()?;
    Ok(match left.filter(|left| !left.is_empty()) {
        Some(left) => AgentAnswer::Partial(tree, left),
        None => AgentAnswer::Resolved(tree),
    })
}

/// Why a repair is none: it puts failing tests right by taking back what one side has done.
fn taken_back(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    changes: &[git::TreeChange],
) -> Result<Option<String>, QueueError> {
    let is_removed = |change: &&git::TreeChange| matches!(change.kind, ChangeKind::Removed(..));
    let removed: Vec<RepoPath> = changes.iter().filter(is_removed).map(|change| change.path.clone()).collect();
    if !removed.is_empty() {
        return Ok(Some(format!("it removed {}", named(&removed))));
    }
    let sides = [(conflict.onto, entry.name()), (entry.head, format!("`{}`", entry.target))];
    for (side, lost) in sides {
        let tree = repo.tree_of(side)?;
        let mut back = Vec::new();
        for change in changes {
            let ChangeKind::Modified((_, merged), (_, now)) = change.kind else { continue };
            // The merge had another content than this side: what is missing of it came from the other. What that has
            // removed may be needed.
            let is_of_side = repo.tree_entry(tree, &change.path)?.is_some_and(|of_side| of_side.id == now);
            if is_of_side && lacks_lines(&repo.blob(now)?, &repo.blob(merged)?) {
                back.push(change.path.clone());
            }
        }
        if !back.is_empty() {
            return Ok(Some(format!("it took back what {lost} has changed in {}", named(&back))));
        }
    }
    Ok(None)
}

/// What a resolution may change: the files in conflict with their notes; where only the tests fail, what either side has
/// changed.
fn allowed_paths(repo: &Repo, entry: &QueueEntry, conflict: &OpenConflict) -> Result<BTreeSet<RepoPath>, QueueError> {
    let mut allowed = BTreeSet::new();
    let Some(sides) = &conflict.sides else {
        let Some(base) = repo.history().merge_base(conflict.onto, entry.head)? else { return Ok(allowed) };
        for side in [conflict.onto, entry.head] {
            let changes = git::diff::changes(repo, repo.tree_of(base)?, repo.tree_of(side)?)?;
            allowed.extend(changes.into_iter().map(|change| change.path));
        }
        return Ok(allowed);
    };
    for path in &sides.paths {
        for ending in ["", ".conflict", ".pleach-conflict"] {
            allowed.insert(RepoPath::new([path.as_bytes(), ending.as_bytes()].concat()));
        }
    }
    Ok(allowed)
}

/// Whether a text lacks a line of another.
fn lacks_lines(text: &[u8], of: &[u8]) -> bool {
    let lines: BTreeSet<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    of.split(|byte| *byte == b'\n').any(|line| !lines.contains(line))
}

/// Whether a log names a file: its path from the root of the repository, or the end of an absolute one.
fn names(log: &str, path: &str) -> bool {
    let is_of_path = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '+' | '~' | '@');
    log.match_indices(path).any(|(at, _)| {
        let before = log[..at].rsplit(|c| !is_of_path(c)).next().unwrap_or_default();
        let begins = before.is_empty() || before == "./" || (before.starts_with('/') && before.ends_with('/'));
        let mut after = log[at + path.len()..].chars();
        let ends = match after.next() {
            // The end of a sentence.
            Some('.') => !after.next().is_some_and(is_of_path),
            next => !next.is_some_and(is_of_path),
        };
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_names_whole_paths() {
        for log in ["src/a.rs:3: error", "in ./src/a.rs", "(src/a.rs)", "/tmp/w/src/a.rs(3)", "see src/a.rs.\n"] {
            assert!(names(log, "src/a.rs"), "{log}");
        }
        for log in ["other/src/a.rs:3", "src/a.rs.orig", "mysrc/a.rs", "src/a.rsx", "", "src/b.rs"] {
            assert!(!names(log, "src/a.rs"), "{log}");
        }
        assert!(!names("the data is a mess", "a.rs"));
        assert!(!names("data.rs:1", "a.rs"), "a short name is part of many words");
    }
}
