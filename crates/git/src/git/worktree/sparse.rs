//! Leaving files out of a worktree.

use gix::bstr::{BString, ByteSlice as _};
use gix::index::entry::Mode;

use super::cache::CachedEntry;
use super::sparse_rules::{NOTE, SparseRules, lines};
use super::{Worktree, restore, scan};
use crate::git::error::{Error, IoContext as _};
use os::confined_fs::ConfinedDir;
use pleach_core::ids::CommitId;

/// Leaves out what these rules say beyond the repository's own, and nothing that others said before. Files that come
/// to be left out go, others come back. Does nothing where that is so already; else nothing must be uncommitted, and
/// HEAD and index come to `base`.
/// Returns whether anything had to be done.
pub fn apply_sparse_rules(worktree: &mut Worktree, rules: &[String], base: CommitId) -> Result<bool, Error> {
    let added = lines(rules);
    if added == worktree.rules.added {
        return Ok(false);
    }
    let scan = scan::scan_all(worktree)?;
    let before = worktree.cache.left_out();
    worktree.rules.added = added;
    worktree.cache.mark_again(&worktree.rules)?;
    // In this order, being cut short anywhere makes no file look as if somebody had removed it.
    restore::reset_to(worktree, base, worktree.tree)?;
    worktree.rules.write(&worktree.git_dir)?;
    worktree.notes.write(NOTE, &if worktree.rules.is_empty() { Vec::new() } else { worktree.rules.text() })?;
    let dir = ConfinedDir::at(&worktree.root).at("open", &worktree.root)?;
    for path in worktree.cache.left_out().difference(&before).filter(|path| !scan.candidates.contains(*path)) {
        match worktree.cache.known(path.as_bstr()) {
            // Its files are those of another repository.
            Some(CachedEntry { mode: Mode::COMMIT, .. }) => {}
            _ => restore::remove_untracked(worktree, &dir, path.as_bstr())?,
        }
    }
    Ok(true)
}

/// Of each of these rules, whether it leaves anything of the tree out.
pub(crate) fn have_effect(worktree: &mut Worktree, rules: &[String]) -> Result<Vec<bool>, Error> {
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let (paths, ignore_case) = (worktree.cache.paths(), worktree.rules.ignore_case);
    let has_effect = |rule: &String| {
        let rules = SparseRules { own: None, added: lines(std::slice::from_ref(rule)), ignore_case };
        Ok(!rules.leave_out(&paths)?.is_empty())
    };
    rules.iter().map(has_effect).collect()
}

/// How many files the user's own sparse checkout leaves out, and of how many; none where there is no such checkout.
pub(crate) fn inherited_sparse(worktree: &mut Worktree) -> Result<Option<(usize, usize)>, Error> {
    if worktree.rules.own.is_none() {
        return Ok(None);
    }
    let rules = SparseRules { added: BString::default(), ..worktree.rules.clone() };
    let paths = worktree.cache.paths();
    Ok(Some((rules.leave_out(&paths)?.len(), paths.len())))
}
