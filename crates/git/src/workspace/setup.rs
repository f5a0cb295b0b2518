//! What a worktree starts with: the result of its setup, and what is left out of it.

use super::error::Error;
use super::settings::WorktreeSettings;
use super::working_copy::WorkingCopy;
use crate::git::{self, ScanResult};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::RepoPath;
use pleach_core::text::counted;

/// Takes what the setup has made of the files for what the worktree begins with: no commit has it, and no reset
/// removes it, until somebody changes it further. Returns the paths, and whether each is a file of the tree.
pub fn snapshot_setup(copy: &mut WorkingCopy, is_changed: bool) -> Result<Vec<(RepoPath, bool)>, Error> {
    Ok(git::worktree::snapshot_setup(&mut copy.worktree, is_changed)?)
}

/// As [`snapshot_setup`] where the setup has run once more.
pub fn snapshot_setup_again(copy: &mut WorkingCopy, before: &ScanResult) -> Result<Vec<(RepoPath, bool)>, Error> {
    Ok(git::worktree::snapshot_setup_again(&mut copy.worktree, before)?)
}

/// What is changed already where the setup is about to run once more, for [`snapshot_setup_again`].
pub fn scan_before_setup(copy: &mut WorkingCopy) -> Result<ScanResult, Error> {
    Ok(git::worktree::scan_all(&mut copy.worktree)?)
}

/// Whether something the setup had made had to go since, so that it has to run again before anybody works here.
pub fn has_lost_setup(copy: &WorkingCopy) -> bool {
    git::worktree::has_lost_setup(&copy.worktree)
}

/// Notes what is no more of the setup before a node that must not write, so that it is not taken for that node's doing.
pub(crate) fn note_undone_setup(copy: &mut WorkingCopy) -> Result<(), Error> {
    copy.undone_before = git::worktree::undone_setup(&copy.worktree)?;
    Ok(())
}

/// Leaves out what these rules say, where the worktree was made with others. Only after [`recover`](super::recover):
/// nothing in it must be uncommitted. Returns whether it was.
pub fn apply_exclusions(copy: &mut WorkingCopy, rules: &[String]) -> Result<bool, Error> {
    Ok(git::worktree::apply_sparse_rules(&mut copy.worktree, rules, copy.at.base)?)
}

/// What a person should know of files that are not in it: those of their own sparse checkout, and entries of
/// `worktrees.exclude` that leave nothing out.
pub fn absent_file_warnings(copy: &mut WorkingCopy, settings: &WorktreeSettings) -> Result<Vec<Warning>, Error> {
    let sparse = git::worktree::inherited_sparse(&mut copy.worktree)?.filter(|(absent, _)| *absent > 0).map(|(absent, total)| {
        WarningCode::SparseCheckout.with(format!(
            "agents work in your sparse checkout: {absent} of {} are not in their worktree; `git sparse-checkout list` shows its rules",
            counted(total, "file")
        ))
    });
    let idle = settings.without_effect(&mut copy.worktree)?.into_iter().map(|entry| {
        let text = format!("`worktrees.exclude`: `{entry}` matches no tracked file; correct it or remove it");
        WarningCode::ExcludeIdle.with(text)
    });
    Ok(sparse.into_iter().chain(idle).collect())
}
