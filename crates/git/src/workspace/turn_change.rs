//! Finding what a turn changed in a worktree, and committing it.

use std::path::PathBuf;

use super::change::{Author, ObservedBranch, TurnChange};
use super::error::Error;
use super::keep;
use super::names::branch_ref;
use super::working_copy::WorkingCopy;
use crate::git::{self, BuiltTree, CommitSpec, Head, Person};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::CommitId;
use pleach_core::trailer::CommitMessage;

/// Of so many paths it is looked up whether they are new: a message speaks of no more.
const LOOKED_UP: usize = 50;

/// Finds out what changed since the newest recorded commit and prepares a commit of it. `candidates` are the only
/// paths that can have changed, where that is known; none means a scan of everything.
pub fn prepare_commit(
    copy: &mut WorkingCopy,
    author: &Author<'_>,
    candidates: Option<&[PathBuf]>,
) -> Result<TurnChange, Error> {
    let mut change = find_changes(copy, candidates)?;
    commit_change(copy, author, &mut change)?;
    Ok(change)
}

/// What changed, without a commit of it yet.
pub(crate) fn find_changes(copy: &mut WorkingCopy, candidates: Option<&[PathBuf]>) -> Result<TurnChange, Error> {
    let (agent_head, branch) = agent_commit(copy)?;
    if agent_head.is_some() {
        git::pack::remove_temporary_objects(&copy.repo);
    }
    let mut writer = copy.repo.writer();
    // Nothing is deleted while something is held back, and that may be gone by now.
    let is_overlaid = std::mem::take(&mut copy.is_overlaid);
    let candidates = candidates.filter(|_| copy.held.is_empty() && !is_overlaid);
    let is_whole = candidates.is_none() || agent_head.is_some();
    let scan = match (agent_head, candidates) {
        (Some(own), _) => git::worktree::scan_after(&mut copy.worktree, own)?,
        (None, Some(paths)) => git::worktree::scan_paths(&mut copy.worktree, paths)?,
        (None, None) => git::worktree::scan_all(&mut copy.worktree)?,
    };
    let limits = copy.limits();
    let mut written = git::worktree::commit_tree(&mut copy.worktree, &scan, &mut writer, &limits)?;
    // A history whose files are not all here would never come again.
    let left_out = agent_head.filter(|_| !written.held_back.is_empty());
    let agent_head = agent_head.filter(|_| left_out.is_none());
    if let Some(own) = left_out {
        written.warnings.extend(keep_agent_commit(copy, own)?);
    }
    copy.held.extend(&copy.session, written.held_back, written.withheld, is_whole)?;
    Ok(TurnChange {
        writer,
        commit: None,
        tree: written.tree,
        paths: written.paths,
        agent_head,
        message: None,
        branch: Some(branch),
        warnings: written.warnings,
    })
}

/// A change of nothing, for a turn of a node that must not write.
pub fn unchanged(copy: &WorkingCopy) -> Result<TurnChange, Error> {
    Ok(TurnChange {
        writer: copy.repo.writer(),
        commit: None,
        tree: copy.tree()?,
        paths: Vec::new(),
        agent_head: None,
        message: None,
        branch: None,
        warnings: Vec::new(),
    })
}

/// Makes the commit of a change, if there is anything in it.
pub(crate) fn commit_change(copy: &WorkingCopy, author: &Author<'_>, change: &mut TurnChange) -> Result<(), Error> {
    if is_change(copy, change)? { commit(copy, author, change) } else { Ok(()) }
}

/// The change as a patch, if there is anything in it. Its objects are on disk then.
pub fn patch(copy: &WorkingCopy, change: &mut TurnChange) -> Result<Option<String>, Error> {
    if !is_change(copy, change)? {
        return Ok(None);
    }
    change.writer.flush()?;
    Ok(Some(git::diff::patch(&copy.repo, copy.tree()?, change.tree, &[])?))
}

fn is_change(copy: &WorkingCopy, change: &TurnChange) -> Result<bool, Error> {
    Ok(change.tree != copy.tree()? || change.agent_head.is_some())
}

fn commit(copy: &WorkingCopy, author: &Author<'_>, change: &mut TurnChange) -> Result<(), Error> {
    let before = copy.tree()?;
    let mut are_new = !change.paths.is_empty();
    for path in change.paths.iter().take(LOOKED_UP) {
        are_new = are_new && copy.repo.tree_entry(before, path)?.is_none();
    }
    let text = (author.message)(&change.paths, are_new);
    let mut trailers = author.facts.trailers();
    trailers.extend(author.trailers.iter().cloned());
    // Only our own trailers are trailers: what an agent's words look like stays text.
    let (subject, body) = text.split_once('\n').unwrap_or((&text, ""));
    let message = CommitMessage { subject: subject.to_owned(), body: body.trim_matches('\n').to_owned(), trailers };
    let who = format!("{} ({})", author.facts.node, author.facts.model);
    let commit = change.writer.commit(&CommitSpec {
        tree: change.tree,
        parents: std::iter::once(copy.at.tip).chain(change.agent_head).collect(),
        author: Person::new(who, "orchestra@local"),
        committer: Person::pleach(),
        at: author.at,
        message: message.write().into_bytes(),
    })?;
    change.commit = Some(commit);
    change.message = Some(text);
    Ok(())
}

/// The agent's own commit that is not part of the session yet, and the session branch as it stands. An agent that
/// checked the session branch out has its HEAD detached again.
fn agent_commit(copy: &mut WorkingCopy) -> Result<(Option<CommitId>, ObservedBranch), Error> {
    let head = git::worktree::agent_head(&copy.worktree)?.unwrap_or(Head { commit: copy.at.base, branch: None });
    let at = copy.repo.refs().find(&branch_ref(&copy.branch))?;
    let checked_out = head.branch.as_ref() == Some(&copy.branch);
    if checked_out {
        git::worktree::detach(&mut copy.worktree)?;
    }
    let branch = ObservedBranch { at, checked_out };
    let foreign = head.commit != copy.at.base && !copy.repo.history().is_ancestor(head.commit, copy.at.tip)?;
    Ok((foreign.then_some(head.commit), branch))
}

/// Saves an agent's own commit that the session does not join. Returns what is said of it, once.
fn keep_agent_commit(copy: &mut WorkingCopy, own: CommitId) -> Result<Option<Warning>, Error> {
    if copy.kept_head == Some(own) {
        return Ok(None);
    }
    let (tree, reason) = (copy.repo.tree_of(own)?, "files of the agent's own commit are held back");
    let name = keep::save(&copy.repo, copy.repo.writer(), &copy.session, tree, &[copy.at.tip, own], reason)?;
    copy.kept_head = Some(own);
    let own = own.short();
    let text = format!("the agent's own commit {own} is not merged while files are held back; it is saved as {name}");
    Ok(Some(WarningCode::AgentCommitKept.with(text)))
}

/// Looks at everything once more, and keeps in mind what of it no commit can have.
pub(super) fn hold_back(copy: &mut WorkingCopy) -> Result<BuiltTree, Error> {
    let scan = git::worktree::scan_all(&mut copy.worktree)?;
    let limits = copy.limits();
    let written = git::worktree::commit_tree(&mut copy.worktree, &scan, &mut copy.repo.writer(), &limits)?;
    copy.held.extend(&copy.session, written.held_back.clone(), written.withheld.clone(), true)?;
    Ok(written)
}

/// What of it is not committed and not ignored either as it is now, in words.
pub(crate) fn uncommitted_in_words(copy: &mut WorkingCopy) -> Result<Vec<String>, Error> {
    if copy.held.is_empty() {
        return Ok(Vec::new());
    }
    // A turn that is known to have written little does not look whether something is still there.
    Ok(hold_back(copy)?.held_in_words())
}
