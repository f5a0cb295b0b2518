//! The worktrees of finished sessions. The newest are kept, to inspect and to build in; older ones are removed once
//! they hold no unique work, so that a repository with hundreds of sessions does not keep hundreds of checkouts.

use std::path::{Path, PathBuf};

use super::Session;
use crate::env::{Error, Locks, SessionRepos};
use crate::keep::{RemoveError, copied_in, remove_run_directory, uncommitted};
use crate::view::{RepoWork, Summary};
use git::Repo;
use git::workspace::branch_ref;
use pleach_core::ids::{CommitId, SessionId};
use pleach_core::state::Phase;

/// Number of worktrees checked when a session ends, so that users of a version that kept all of them do not have to
/// wait.
const AT_ONCE: usize = 20;

/// Removes worktrees beyond the configured pool size, possibly this session's own. A worktree that cannot be removed
/// does not fail the session: it stays, and the next session tries again.
pub(super) fn trim_pool(session: &mut Session) {
    let Some(size) = session.engine.worktrees.pool.filter(|_| is_done(session)) else { return };
    let repos = session.plan.repos.clone();
    if size == 0
        && let Ok(summary) = Summary::newest(&session.repo, session.id())
        && let Some(root) = session.workspace().map(|workspace| workspace.root().to_owned())
        && let Ok(true) = remove_clean(&repos, &summary, &root)
    {
        session.root_mut().workspace = None;
    }
    // This session is newer than all others.
    let others = size.saturating_sub(1);
    if let Ok(done) = done_before(&session.repo, session.id()) {
        for (summary, root) in done.iter().skip(others).take(AT_ONCE) {
            // A locked session still needs its worktree.
            if let Ok(_locks) = Locks::take(&session.repo, &summary.session) {
                let _ = remove_clean(&repos, summary, root);
            }
        }
    }
}

fn is_done(session: &Session) -> bool {
    session.state().phase == Phase::Completed && session.started().task.is_none()
}

/// The other finished sessions that have worktrees, newest first, with the directories of these.
fn done_before(repo: &Repo, own: &SessionId) -> Result<Vec<(Summary, PathBuf)>, Error> {
    let mut done = Vec::new();
    for listed in
        git::worktree::list_linked(repo)?.into_iter().filter(|listed| listed.is_own && listed.locked.is_none())
    {
        // The worktree itself, or with several repositories the directory they are in.
        let of_session = |root: &Path| root.parent()?.file_name()?.to_str()?.parse::<SessionId>().ok();
        let roots = listed.path.ancestors().take(2);
        let found = roots.filter_map(|root| Some((root.to_owned(), of_session(root)?))).find(|(_, id)| id != own);
        let Some((root, id)) = found else { continue };
        // The worktree of an unreadable session is not ours to remove.
        let Ok(summary) = Summary::newest(repo, &id) else { continue };
        if summary.state.phase == Phase::Completed && summary.started.task.is_none() && listed.path.is_dir() {
            done.push((summary, root));
        }
    }
    done.sort_by_key(|(summary, _)| std::cmp::Reverse(summary.updated_at));
    Ok(done)
}

/// Removes the worktrees of a session if all their content is on branches. Returns whether they were removed.
fn remove_clean(repos: &SessionRepos, summary: &Summary, root: &Path) -> Result<bool, RemoveError> {
    let mut clean: Vec<(&Repo, PathBuf)> = Vec::new();
    for repo_work in summary.repos() {
        let (repo, path) = if summary.started.has_several_repos() {
            (repos.get(repo_work.repo), root.join(repo_work.repo.as_str()))
        } else {
            (Some(repos.record()), root.to_owned())
        };
        let (Some(repo), Some(work)) = (repo, repo_work.work) else { return Ok(false) };
        let mut obstacles = Vec::new();
        if !path.is_dir()
            || !is_on_a_branch(repo, &repo_work, work)?
            || uncommitted(repo, Some(work), &copied_in(summary), &path, &mut obstacles)?.is_some()
            || !obstacles.is_empty()
        {
            return Ok(false);
        }
        clean.push((repo, path));
    }
    for (repo, path) in &clean {
        git::worktree::remove(repo, path)?;
    }
    remove_run_directory(root)?;
    Ok(!clean.is_empty())
}

/// Whether a commit is on a branch: the session's own, or one it was merged into.
fn is_on_a_branch(repo: &Repo, repo_work: &RepoWork<'_>, commit: CommitId) -> Result<bool, git::Error> {
    if let Some(at) = repo.refs().find(&branch_ref(repo_work.branch))? {
        return repo.history().is_ancestor(commit, at);
    }
    let all = repo.refs().list_unpeeled("refs/heads/")?.into_iter().filter_map(|(_, at)| at);
    // An unreadable branch contains nothing.
    Ok(all.into_iter().any(|at| repo.history().is_ancestor(commit, at).unwrap_or(false)))
}
