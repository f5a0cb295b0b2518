//! Resetting a worktree to what is recorded, after saving what is not.

use std::collections::BTreeSet;

use super::error::Error;
use super::working_copy::{CopyPosition, WorkingCopy};
use super::{keep, submodules, turn_change};
use crate::git::{self, CommitLimits, Head, TreeId, are_ignore_rules};
use pleach_core::event::Warning;
use pleach_core::ids::{BranchName, CommitId, NodeId, RepoPath, SessionId};
use pleach_core::trailer::{CommitMessage, RETURNS_TRAILER};

/// The ref something was saved under, and its paths.
type SavedRef = (String, Vec<RepoPath>);

/// What was saved before it is removed.
#[derive(Debug, Default)]
struct SavedWork {
    /// If there was anything.
    kept: Option<SavedRef>,
    /// Submodules whose place is gone, of which there is nothing to save.
    gone: Vec<RepoPath>,
}

/// What became of the changes of a node that must not write.
#[derive(Debug)]
pub struct UndoResult {
    /// The ref they were saved under, and their paths, if there were any.
    pub kept: Option<(String, Vec<RepoPath>)>,
    /// What it removed or reverted of what the setup has made. There is nothing of that to save.
    pub given_back: Vec<RepoPath>,
    /// Files it changed or removed that were in no commit before: their content cannot be restored.
    pub lost: Vec<RepoPath>,
    /// What is said of things that are in no commit and there now, which can be neither saved nor undone.
    pub warnings: Vec<Warning>,
}

/// Gives the worktree to another session, whose commits go to another branch. What it holds that no commit
/// has is saved for the session before. Returns the ref it was saved under.
pub fn hand_over(
    copy: &mut WorkingCopy,
    session: SessionId,
    branch: BranchName,
    at: CopyPosition,
) -> Result<Option<String>, Error> {
    let (reason, none) = ("the working copy goes to another session", BTreeSet::new());
    submodules::refuse_submodule_work(copy)?;
    let SavedWork { kept, gone } =
        if copy.settled { SavedWork::default() } else { keep_uncommitted(copy, reason, &none)? };
    git::worktree::restore_submodule_dirs(&copy.worktree, &gone)?;
    // The next task mostly begins where the one before it has ended: nothing has to be written then.
    let head = Some(Head { commit: at.base, branch: None });
    let is_there = kept.is_none() && at.base == at.tip && at.base == copy.at.base && at.tip == copy.at.tip;
    let is_there = is_there
        && git::worktree::agent_head(&copy.worktree)? == head
        && git::worktree::undone_setup(&copy.worktree)?.is_empty();
    (copy.branch, copy.at) = (branch, at);
    // Between two sessions the target may have moved, by us.
    copy.forget_look();
    copy.watch.renew();
    let kept = if is_there { None } else { reset(copy, reason, &none, kept)? };
    copy.session = session;
    copy.held.retain(&copy.session, &none)?;
    Ok(kept.map(|(name, _)| name))
}

/// Brings files, HEAD and index to the newest recorded commit after a crash, or after work for another task,
/// saving first what is not committed, unless it was just made and has nothing of anybody's. Returns the ref it was saved
/// under.
pub fn recover(copy: &mut WorkingCopy, is_new: bool) -> Result<Option<String>, Error> {
    write_lost_content(copy)?;
    let has_nothing = is_new || copy.is_redriven() || is_at_recorded_step(copy)?;
    let (reason, spared) = ("resume after a crash", spared(copy)?);
    let kept = if has_nothing { None } else { keep_uncommitted(copy, reason, &spared)?.kept };
    let kept = reset(copy, reason, &spared, kept)?;
    copy.held.retain(&copy.session, &spared)?;
    Ok(kept.map(|(name, _)| name))
}

/// Writes what the repository has lost of the newest recorded files anew from the worktree. A file that is not there as it
/// was recorded cannot be brought back, and nothing is touched then.
fn write_lost_content(copy: &mut WorkingCopy) -> Result<(), Error> {
    let tree = copy.tree()?;
    copy.worktree.accept(tree)?;
    let mut writer = copy.repo.writer();
    let content = git::worktree::collect_lost_content(&mut copy.worktree, &mut writer)?;
    writer.flush()?;
    Ok(content.refuse_lost(copy.at.tip)?)
}

/// Undoes what a node that must not write has written, after saving it. What was held back before it stays.
pub fn undo(copy: &mut WorkingCopy, node: &NodeId) -> Result<UndoResult, Error> {
    let (reason, spared) = (format!("`{node}` must not write"), spared(copy)?);
    let SavedWork { mut kept, .. } = keep_uncommitted(copy, &reason, &spared)?;
    let undone = git::worktree::undone_setup(&copy.worktree)?;
    let mut given_back: Vec<RepoPath> = undone.difference(&copy.undone_before).cloned().collect();
    let mut lost: Vec<RepoPath> = copy.held.files().filter(|path| !spared.contains(*path)).cloned().collect();
    let is_untouched = copy.settled && copy.held.is_empty() && given_back.is_empty();
    if kept.is_some() || !given_back.is_empty() {
        kept = reset(copy, &reason, &spared, kept)?;
        let still_undone = git::worktree::undone_setup(&copy.worktree)?;
        lost.extend(given_back.extract_if(.., |path| still_undone.contains(path)));
    }
    // What git cannot hold stays where it is, and is not forgotten.
    if is_untouched {
        return Ok(UndoResult { kept, given_back, lost, warnings: Vec::new() });
    }
    let written = turn_change::hold_back(copy)?;
    git::worktree::restore_submodule_dirs(&copy.worktree, &written.gone)?;
    Ok(UndoResult { kept, given_back, lost, warnings: written.warnings })
}

/// Makes `commit`, which is recorded, the base and the files of the worktree.
pub fn rebase_to(copy: &mut WorkingCopy, commit: CommitId) -> Result<(), Error> {
    copy.at = CopyPosition::all(commit);
    copy.forget_laid()?;
    let spared = spared(copy)?;
    git::worktree::reset_sparing(&mut copy.worktree, commit, copy.repo.tree_of(commit)?, &spared)?;
    Ok(())
}

/// Lays the files of a tree over the worktree. They are what the next turn finds changed.
pub fn overlay_tree(copy: &mut WorkingCopy, tree: TreeId) -> Result<(), Error> {
    (copy.settled, copy.is_overlaid) = (false, true);
    let spared = spared(copy)?;
    git::worktree::restore_sparing(&mut copy.worktree, tree, &spared)?;
    Ok(())
}

/// Lays the files the running node began with, for an agent that repeats its recorded work. The record stays where it is.
pub fn lay_base(copy: &mut WorkingCopy) -> Result<(), Error> {
    copy.note_redrive()?;
    copy.settled = false;
    let spared = spared(copy)?;
    let base = copy.repo.tree_of(copy.at.base)?;
    git::worktree::restore_sparing(&mut copy.worktree, base, &spared)?;
    Ok(())
}

/// Brings the recorded files back once the work is repeated. Returns the ref under which is kept what it made otherwise.
pub fn end_redrive(copy: &mut WorkingCopy) -> Result<Option<String>, Error> {
    let (reason, spared) = ("the repeated work made other files", spared(copy)?);
    let kept = keep_uncommitted(copy, reason, &spared)?.kept;
    let kept = reset(copy, reason, &spared, kept)?;
    copy.held.retain(&copy.session, &spared)?;
    Ok(kept.map(|(name, _)| name))
}

/// Resets files, HEAD and index to the position of the worktree, except some files. Where rules about what git ignores
/// go or come with that, what the others have hidden comes to light: it is saved with what was saved before, and goes.
fn reset(
    copy: &mut WorkingCopy,
    reason: &str,
    spared: &BTreeSet<RepoPath>,
    kept: Option<SavedRef>,
) -> Result<Option<SavedRef>, Error> {
    let (mut kept, mut newest) = (kept, Vec::new());
    copy.forget_laid()?;
    loop {
        let tree = copy.tree()?;
        let done = git::worktree::reset_sparing(&mut copy.worktree, copy.at.base, tree, spared)?;
        let mut touched = done.written.iter().chain(&done.removed);
        if !touched.any(|path| are_ignore_rules(path.as_bytes())) {
            return Ok(kept);
        }
        // What cannot be undone would be found again and again.
        let hidden = keep_uncommitted(copy, reason, spared)?.kept.filter(|(_, hidden)| *hidden != newest);
        let Some((name, hidden)) = hidden else { return Ok(kept) };
        newest.clone_from(&hidden);
        kept = Some(match kept {
            Some((names, paths)) => (format!("{names} and {name}"), [paths, hidden].concat()),
            None => (name, hidden),
        });
    }
}

/// Saves what no recorded commit has, but for some files.
fn keep_uncommitted(copy: &mut WorkingCopy, reason: &str, spared: &BTreeSet<RepoPath>) -> Result<SavedWork, Error> {
    let mut writer = copy.repo.writer();
    let mut scan = git::worktree::scan_all(&mut copy.worktree)?;
    git::worktree::spare_files(&mut copy.worktree, &mut scan, spared);
    let written = git::worktree::commit_tree(&mut copy.worktree, &scan, &mut writer, &CommitLimits::NONE)?;
    let own = lost_head(copy)?;
    let is_newest = written.tree == copy.tree()?;
    let is_recorded = (is_newest || was_left(copy, written.tree)?) && own.is_none();
    copy.settled =
        is_newest && is_recorded && spared.is_empty() && written.held_back.is_empty() && written.warnings.is_empty();
    let gone = written.gone;
    if is_recorded {
        return Ok(SavedWork { kept: None, gone });
    }
    let parents: Vec<CommitId> = std::iter::once(copy.at.tip).chain(own).collect();
    let name = keep::save(&copy.repo, writer, &copy.session, written.tree, &parents, reason)?;
    Ok(SavedWork { kept: Some((name, written.paths)), gone })
}

/// Whether these files are those a run had when it went back to an earlier turn: its record has them.
fn was_left(copy: &WorkingCopy, tree: TreeId) -> Result<bool, Error> {
    let tip = copy.repo.commit(copy.at.tip)?;
    let goes_back = CommitMessage::read(&tip.text()).trailer(RETURNS_TRAILER).is_some();
    let left = tip.parents.first().filter(|_| goes_back);
    Ok(left.map(|left| copy.repo.tree_of(*left)).transpose()? == Some(tree))
}

/// What was held back and is as it was then, with what is gone as long as there is any of it.
fn spared(copy: &mut WorkingCopy) -> Result<BTreeSet<RepoPath>, Error> {
    let mut spared: BTreeSet<RepoPath> = copy.held.all().keys().cloned().collect();
    // A node that starts over goes back to its base, where something else may have been in the same place.
    for commit in [copy.at.base, copy.at.tip] {
        if !spared.is_empty() {
            copy.worktree.accept(copy.repo.tree_of(commit)?)?;
            let untouched = git::worktree::untouched_files(&copy.worktree, copy.held.all());
            spared.retain(|path| untouched.contains(path));
        }
    }
    if !copy.held.files().any(|path| spared.contains(path)) {
        spared.clear();
    }
    Ok(spared)
}

/// The commit of HEAD, if only HEAD leads to it: an agent's own, which a reset would lose.
fn lost_head(copy: &WorkingCopy) -> Result<Option<CommitId>, Error> {
    let head = git::worktree::agent_head(&copy.worktree)?.map_or(copy.at.base, |head| head.commit);
    let known = head == copy.at.base || head == copy.at.tip || copy.repo.history().is_ancestor(head, copy.at.tip)?;
    Ok((!known).then_some(head))
}

/// Whether HEAD is a step of some task and the files are those of that step: the record of its session has them.
fn is_at_recorded_step(copy: &mut WorkingCopy) -> Result<bool, Error> {
    let Some(Head { commit, branch: None }) = git::worktree::agent_head(&copy.worktree)? else { return Ok(false) };
    let commit = copy.repo.commit(commit)?;
    if CommitMessage::read(&commit.text()).trailer("Arborist-Step").is_none() {
        return Ok(false);
    }
    let mut writer = copy.repo.writer();
    let scan = git::worktree::scan_all(&mut copy.worktree)?;
    Ok(git::worktree::commit_tree(&mut copy.worktree, &scan, &mut writer, &CommitLimits::NONE)?.tree == commit.tree)
}
