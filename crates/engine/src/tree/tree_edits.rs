//! Detects edits of a tree: during a run, which do not affect it, and since the last run.

use super::plan::TreePlan;
use super::run::TreeRun;
use super::stamp::Stamp;
use crate::env::Engine;
use crate::session::TREE_FILE;
use git::Repo;
use git::record::{self, History};
use os::plain_file;
use pleach_core::event::WarningCode;
use pleach_core::ids::SessionId;
use pleach_core::plan::tree::TaskTree;

/// Whether a tree's file differs from what runs. `stamp` is its stamp at the last check. In a checkout of another
/// branch there is another file at this path, which says nothing about this tree.
pub(super) fn was_edited(repo: &Repo, plan: &TreePlan, stamp: &mut Option<Stamp>) -> bool {
    let Some(file) = &plan.file else { return false };
    let now = Stamp::of(file);
    if now == *stamp {
        return false;
    }
    let root = repo.workdir().and_then(|root| root.canonicalize().ok());
    let inside = root.is_some_and(|root| file.starts_with(root));
    if inside && repo.head().ok().and_then(|head| head.branch).as_ref() != Some(&plan.target) {
        return false;
    }
    *stamp = now;
    plain_file::read(file).ok().as_ref() != Some(&plan.document)
}

/// The changes of the tree since the last run, one line each. Warns about unreadable sessions.
pub fn changes(run: &TreeRun) -> Vec<String> {
    // An ad-hoc task has no file that could be edited.
    let Some(before) = run.plan.file.as_ref().and_then(|_| last_document(run)) else { return Vec::new() };
    let now = run.engine.redactor.text(&run.plan.document).into_owned();
    match (TaskTree::read(&before), TaskTree::read(&now)) {
        (Ok(before), Ok(now)) => before.difference(&now),
        _ => Vec::new(),
    }
}

/// The tree as recorded by the newest session on one of its tasks; `None` if that session no longer exists or is
/// unreadable.
fn last_document(run: &TreeRun) -> Option<String> {
    let stepped = run.progress.tasks().filter_map(|(_, state)| state.newest());
    let newest = stepped.filter(|found| found.step.session.is_some()).max_by_key(|found| found.at);
    let unfinished = run.state.unfinished.values().map(|left| &left.id);
    let sessions = newest.and_then(|found| found.step.session.as_ref()).into_iter().chain(unfinished);
    let mut last: Option<History> = None;
    for id in sessions {
        let Some(history) = ok_or_warn(&run.engine, History::newest(&run.repo, id), id) else {
            continue;
        };
        if last.as_ref().is_none_or(|last| last.started_at < history.started_at) {
            last = Some(history);
        }
    }
    let last = last?;
    ok_or_warn(&run.engine, last.opening_file(&run.repo, TREE_FILE), &last.session).flatten()
}

/// A value read from a session. If the session is unreadable, warns and continues without it.
pub(super) fn ok_or_warn<T>(engine: &Engine, read: Result<T, record::Error>, id: &SessionId) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(record::Error::Missing { .. }) => None,
        Err(error) => {
            engine.warn(WarningCode::SessionUnreadable.with(format!(
                "session {id} is skipped: {error}; `pleach rm --force {id}` removes it and keeps its work"
            )));
            None
        }
    }
}
