//! The worktrees of finished sessions. The newest are kept, to inspect and to build in; older ones are removed once
//! they hold no unique work, so that a repository with hundreds of sessions does not keep hundreds of checkouts.

use std::path::{Path, PathBuf};

use super::locks::Locks;
use super::remove::{copied_in, remove_run_directory, uncommitted};
use super::view::Summary;
use super::{Error, RemoveError, Session};
use crate::git::{self, Repo};
use crate::ids::{CommitId, SessionId};
use crate::state::Phase;
use crate::workspace::branch_ref;

/// Number of worktrees checked when a session ends, so that users of a version that kept all of them do not have to
/// wait.
const AT_ONCE: usize = 20;

/// Removes worktrees beyond the configured pool size, possibly this session's own. A worktree that cannot be removed
/// does not fail the session: it stays, and the next session tries again.
pub(super) fn trim_pool(session: &mut Session) {
    let Some(size) = session.engine.worktrees.pool.filter(|_| is_done(session)) else { return };
    if size == 0
        && let Ok(summary) = Summary::newest(&session.repo, session.id())
        && let Some(path) = session.workspace().map(|workspace| workspace.root().to_owned())
        && let Ok(true) = remove_clean(&session.repo, &summary, &path)
    {
        session.root_mut().workspace = None;
    }
    // This session is newer than all others.
    let others = size.saturating_sub(1);
    if let Ok(done) = done_before(&session.repo, session.id()) {
        for (summary, path) in done.iter().skip(others).take(AT_ONCE) {
            // A locked session still needs its worktree.
            if let Ok(_locks) = Locks::take(&session.repo, &summary.session) {
                let _ = remove_clean(&session.repo, summary, path);
            }
        }
    }
}

fn is_done(session: &Session) -> bool {
    session.state().phase == Phase::Completed && session.started().task.is_none()
}

/// The other finished sessions that have a worktree, newest first.
fn done_before(repo: &Repo, own: &SessionId) -> Result<Vec<(Summary, PathBuf)>, Error> {
    let mut done = Vec::new();
    for listed in
        git::worktree::list_linked(repo)?.into_iter().filter(|listed| listed.is_own && listed.locked.is_none())
    {
        let above = listed.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(id) = above.and_then(|name| name.parse::<SessionId>().ok()).filter(|id| id != own) else { continue };
        // The worktree of an unreadable session is not ours to remove.
        let Ok(summary) = Summary::newest(repo, &id) else { continue };
        if summary.state.phase == Phase::Completed && summary.started.task.is_none() && listed.path.is_dir() {
            done.push((summary, listed.path));
        }
    }
    done.sort_by_key(|(summary, _)| std::cmp::Reverse(summary.updated_at));
    Ok(done)
}

/// Removes a worktree if all its content is on a branch. Returns whether it was removed.
fn remove_clean(repo: &Repo, summary: &Summary, path: &Path) -> Result<bool, RemoveError> {
    let Some(work) = summary.work() else { return Ok(false) };
    if !is_on_a_branch(repo, summary, work)? {
        return Ok(false);
    }
    let mut obstacles = Vec::new();
    let keep = uncommitted(repo, Some(work), &copied_in(summary), path, &mut obstacles)?;
    if keep.is_some() || !obstacles.is_empty() {
        return Ok(false);
    }
    git::worktree::remove(repo, path)?;
    remove_run_directory(path)?;
    Ok(true)
}

/// Whether a commit is on a branch: the session's own, or one it was merged into.
fn is_on_a_branch(repo: &Repo, summary: &Summary, commit: CommitId) -> Result<bool, git::Error> {
    let own = summary.branch().map(|(_, branch)| branch_ref(branch));
    if let Some(at) = own.map(|own| repo.refs().find(&own)).transpose()?.flatten() {
        return repo.history().is_ancestor(commit, at);
    }
    let all = repo.refs().list_unpeeled("refs/heads/")?.into_iter().filter_map(|(_, at)| at);
    // An unreadable branch contains nothing.
    Ok(all.into_iter().any(|at| repo.history().is_ancestor(commit, at).unwrap_or(false)))
}
