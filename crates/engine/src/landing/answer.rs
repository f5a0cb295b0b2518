//! What an agent's answer to a conflict is worth: it may change the files in conflict, and what the failing tests name;
//! where only the tests fail, what either side has changed. It must not change which tests run.

use std::collections::BTreeSet;

use super::conflict::OpenConflict;
use super::error::QueueError;
use crate::merging::unresolved;
use git::{BlobId, ChangeKind, Repo, TreeId};
use pleach_core::ids::RepoPath;
use pleach_core::queue::{EntryTest, QueueEntry, Renaming, starts_from};
use pleach_core::text::named;

/// An agent's answer to a conflict.
#[derive(Debug)]
pub(super) enum AgentAnswer {
    /// The resolved files.
    Resolved(TreeId),
    /// These still conflict.
    Partial(TreeId, Vec<RepoPath>),
    /// It cannot be used, for this reason.
    Failed(String),
    /// The agent was stopped.
    Stopped,
}

/// Whether files resolve a conflict and change nothing else. Blocks.
pub(super) fn judge(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    tree: TreeId,
    tests: &[EntryTest],
    log: Option<&str>,
) -> Result<AgentAnswer, QueueError> {
    let begun = repo.tree_of(conflict.commit)?;
    if tree == begun {
        return Ok(AgentAnswer::Failed("it changed nothing".to_owned()));
    }
    let allowed = allowed_paths(repo, entry, conflict)?;
    let is_named = |path: &RepoPath| log.is_some_and(|log| names(log, &path.to_string()));
    let changes = git::diff::changes(repo, begun, tree)?;
    let lost = match conflict.sides {
        Some(_) => removed_of_both(repo, entry, conflict, &changes)?,
        None => taken_back(repo, entry, conflict, &changes)?,
    };
    if let Some(why) = lost {
        return Ok(AgentAnswer::Failed(why));
    }
    let is_in_conflict = |path: &RepoPath| conflict.sides.as_ref().is_some_and(|sides| sides.paths.contains(path));
    let decides = |path: &RepoPath| {
        let path = path.to_string();
        is_setting(&path) || tests.iter().any(|test| starts_from(&test.command, &path))
    };
    let rules: Vec<RepoPath> = changes.iter().map(|change| change.path.clone()).collect();
    let rules: Vec<RepoPath> = rules.into_iter().filter(|path| decides(path) && !is_in_conflict(path)).collect();
    if !rules.is_empty() {
        return Ok(AgentAnswer::Failed(format!("it changed {}, which decides what is tested", named(&rules))));
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

/// Whether a file decides what runs: settings, pipelines.
fn is_setting(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["pleach.yaml", "orchestra.yaml"].contains(&name) || name.ends_with(".dot")
}

/// Rejects a resolution that removes a file of both sides.
fn removed_of_both(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    changes: &[git::TreeChange],
) -> Result<Option<String>, QueueError> {
    let [ours, theirs] = [repo.tree_of(conflict.onto)?, repo.tree_of(entry.head)?];
    let mut gone = Vec::new();
    for change in changes.iter().filter(|change| matches!(change.kind, ChangeKind::Removed(..))) {
        let is_in = |tree| Ok::<_, git::Error>(repo.tree_entry(tree, &change.path)?.is_some());
        if is_in(ours)? && is_in(theirs)? {
            gone.push(change.path.clone());
        }
    }
    Ok((!gone.is_empty()).then(|| format!("it removed {}, which both sides have", named(&gone))))
}

/// Rejects a repair that makes failing tests pass by reverting what one side did.
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
            // Lines of the merge that this side lacks came from the other side. Lines the other side removed may be
            // restored.
            let is_of_side = repo.tree_entry(tree, &change.path)?.is_some_and(|of_side| of_side.id == now);
            if is_of_side && lacks_lines(&repo.blob(now)?, &repo.blob(merged)?) {
                back.push(change.path.clone());
            }
        }
        if !back.is_empty() {
            return Ok(Some(format!("it took back what {lost} has changed in {}", named(&back))));
        }
    }
    // Landed lines stay, except where the work renames something: its goal is to rename every use.
    let base = repo.history().merge_base(conflict.onto, entry.head)?.map(|base| repo.tree_of(base)).transpose()?;
    let onto = repo.tree_of(conflict.onto)?;
    let renaming = base.map(|base| renaming_of(repo, base, repo.tree_of(entry.head)?)).transpose()?.unwrap_or_default();
    for change in changes {
        let ChangeKind::Modified((_, merged), (_, now)) = change.kind else { continue };
        let Some(landed) = repo.tree_file(onto, &change.path)? else { continue };
        let before = base.map(|base| repo.tree_file(base, &change.path)).transpose()?.flatten().unwrap_or_default();
        let (merged, now) = (repo.blob(merged)?, repo.blob(now)?);
        let added = landed.split(|byte| *byte == b'\n').filter(|line| lacks_lines(&before, line));
        if added.into_iter().any(|line| lacks_lines(&now, line) && !renaming.is_renamed(line, (&merged, &now))) {
            return Ok(Some(format!(
                "it took back lines of `{}` in {}",
                entry.target,
                named(std::slice::from_ref(&change.path))
            )));
        }
    }
    Ok(None)
}

/// The names that some work changes.
fn renaming_of(repo: &Repo, base: TreeId, head: TreeId) -> Result<Renaming, git::Error> {
    let mut renaming = Renaming::default();
    for change in git::diff::changes(repo, base, head)? {
        let (old, new) = match change.kind {
            ChangeKind::Added(_, new) => (None, Some(new)),
            ChangeKind::Removed(_, old) => (Some(old), None),
            ChangeKind::Modified((_, old), (_, new)) => (Some(old), Some(new)),
        };
        let read = |blob: Option<BlobId>| blob.map_or(Ok(Vec::new()), |blob| repo.blob(blob));
        renaming.take(&read(old)?, &read(new)?);
    }
    Ok(renaming)
}

/// What a resolution may change: the files in conflict and their notes; if only the tests fail, what either side
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
fn lacks_lines(text: &[u8], other: &[u8]) -> bool {
    let lines: BTreeSet<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    other.split(|byte| *byte == b'\n').any(|line| !lines.contains(line))
}

/// Whether a text names a file: by its path in the repository, or by the end of an absolute path. Command lines do not
/// count.
fn names(log: &str, path: &str) -> bool {
    log.lines().filter(|line| !line.starts_with("$ ")).any(|line| is_in_line(line, path))
}

fn is_in_line(log: &str, path: &str) -> bool {
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
