//! What sessions left behind: where to look for it, what to call it, and its removal.

use engine::keep::{self, OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState};
use engine::retention::{self, Orphan};
use git::Repo;
use git::workspace::{default_worktree_base, repo_name};

use super::health::Finding;
use crate::place::{Place, Places};
use crate::settings::Settings;

/// The directories sessions of a repository use.
pub fn places(repo: &Repo, settings: &Settings) -> WorktreePlaces {
    let name = repo_name(repo.git_dir(), repo.workdir());
    let names = std::iter::once(name).chain(settings.resolved.config.workspace.repos.keys().cloned());
    let usual = names.map(|name| default_worktree_base(&settings.state_dir, repo.common_dir(), &name));
    let worktrees = &settings.resolved.config.worktrees;
    WorktreePlaces {
        state_dir: settings.state_dir.clone(),
        worktrees: worktrees.base.clone().into_iter().chain(usual).collect(),
        copied_in: worktrees.include_ignored.iter().map(|path| path.as_str().into()).collect(),
        record: None,
    }
}

/// The same for a repository of a workspace: the worktrees of a session all lie where its record is.
pub fn places_of(place: &Place, workspace: &Places, settings: &Settings) -> WorktreePlaces {
    let (mut own, record) = (places(&place.repo, settings), &workspace.record.repo);
    own.worktrees.extend(places(record, settings).worktrees);
    WorktreePlaces { record: Some(record.clone()), ..own }
}

/// The orphans of sessions that no longer exist; with `fix` they are removed.
pub fn findings(repo: &Repo, places: &WorktreePlaces, fix: bool) -> Vec<Finding> {
    let found = match retention::orphans(repo, places) {
        Ok(found) => found,
        Err(error) => return vec![Finding::error("leftovers", error.to_string(), "check it by hand")],
    };
    if found.is_empty() {
        return vec![Finding::ok("leftovers", "none")];
    }
    if !fix {
        return found.iter().map(|left| Finding::warn("leftovers", describe(left), "`pleach doctor --fix`")).collect();
    }
    // Removing a worktree removes the locks of its session too.
    let remove = |left: &Orphan| match left.remove(repo, places) {
        Ok(kept) => {
            let kept = kept.map(|kept| format!("; what was in it is kept at {kept}")).unwrap_or_default();
            Finding { fixed: true, ..Finding::ok("leftovers", format!("removed {}{kept}", describe(left))) }
        }
        Err(error) => Finding::warn("leftovers", format!("{}: {error}", describe(left)), "remove it by hand"),
    };
    found.iter().map(remove).collect()
}

/// Something that was left, and whose it was.
pub fn describe(left: &Orphan) -> String {
    match left {
        Orphan::Lock { name } => format!("the lock file `{name}` of a session that no longer exists"),
        Orphan::Worktree(worktree) => describe_worktree(worktree),
        Orphan::Scratch { path } => {
            format!("the temporary files {} of a run that was killed", path.display())
        }
        Orphan::RunDirectory { session, path } => {
            format!("the directory {} of session {session}, which no longer exists", path.display())
        }
        Orphan::Home { session, path } => {
            format!("the agents' directory {} of session {session}, which no longer exists", path.display())
        }
    }
}

/// A worktree, and why it can go.
pub fn describe_worktree(worktree: &OwnWorktree) -> String {
    let path = worktree.path.display();
    let owner = match &worktree.owner {
        WorktreeOwner::Session { session, .. } => format!("of session {session}"),
        WorktreeOwner::Tasks { target, .. } => format!("of the tasks on {target}"),
        WorktreeOwner::Queue { target, .. } => format!("of the merge queue of {target}"),
        WorktreeOwner::Conflict { entry, .. } => format!("of the conflict of {entry}"),
    };
    match worktree.state {
        WorktreeState::Missing => format!("git's registration of the worktree {path}, which is gone"),
        WorktreeState::HalfMade => format!("the half-made worktree {path} {owner}"),
        WorktreeState::Orphaned => format!("the worktree {path} {owner}, which no longer exists"),
        WorktreeState::Idle | WorktreeState::Used => format!("the worktree {path} {owner}"),
    }
}

/// Repairs what killed runs and removed sessions left of their worktrees, before a run makes another one. Everything
/// that is removed is named, and so is what stays; a run never fails for it. `is_own`: the run will use it, and repairs it
/// itself.
pub fn repair_worktrees(workspace: &Places, settings: &Settings, is_own: impl Fn(&WorktreeOwner) -> bool) {
    workspace.all().for_each(|place| repair(&place.repo, &places_of(place, workspace, settings), &is_own));
}

fn repair(repo: &Repo, places: &WorktreePlaces, is_own: &dyn Fn(&WorktreeOwner) -> bool) {
    let found = retention::orphaned_worktrees(repo, places).unwrap_or_default();
    // What somebody has locked is theirs to unlock.
    for worktree in found.iter().filter(|worktree| worktree.locked.is_none() && !is_own(&worktree.owner)) {
        let what = describe_worktree(worktree);
        match keep::prune_worktree(repo, places, worktree, false) {
            Ok(kept) => {
                let kept = kept.and_then(|kept| kept.reference);
                let kept = kept.map(|kept| format!("; what was in it is kept at {kept}")).unwrap_or_default();
                warning!(WorktreeOrphaned, "removed {what}{kept}");
            }
            // Another run has repaired it, or works there by now.
            Err(keep::WorktreeStays::Changed | keep::WorktreeStays::Used { .. }) => {}
            Err(stays) => warning!(WorktreeOrphaned, "{what} stays: {stays}"),
        }
    }
}
