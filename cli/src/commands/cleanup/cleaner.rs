//! What is old in each repository, and what becomes of it.

use std::path::Path;

use engine::keep::{
    OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState, own_worktrees, prune_worktree, to_prune,
};
use engine::retention::{self, Orphan, SessionFate, SessionStays, left_branches, remove_branch, session_fates};
use git::workspace::disk_usage;
use jiff::Timestamp;
use pleach_core::event::{CleanedItem, CleanedKind};

use super::item::{item, text};
use super::remote_refs::RemoteRefs;
use super::report::Report;
use crate::code::Code;
use crate::commands::rm;
use crate::commands::rm::keeps::{self, KeepRef};
use crate::failure::Failure;
use crate::lib_errors::{of_engine, of_queue};
use crate::place::{Place, Places};
use crate::sessions::SessionGround;
use crate::survey::orphans::{describe, describe_worktree, places_of};

/// Removes what is old.
pub(super) struct Cleaner<'a> {
    pub(super) ground: &'a SessionGround,
    pub(super) workspace: &'a Places,
    /// Nothing is changed, only told.
    pub(super) dry_run: bool,
    /// The branches and records of sessions go from the remotes as well.
    pub(super) with_remotes: bool,
    pub(super) before: Timestamp,
    pub(super) report: Report,
}

impl Cleaner<'_> {
    fn places(&self, place: &Place) -> WorktreePlaces {
        places_of(place, self.workspace, &self.ground.settings)
    }

    /// Whether the files at a path were made or changed before the limit. What is not there is as old as can be.
    fn is_old(&self, path: &Path) -> bool {
        let changed = path.symlink_metadata().and_then(|found| found.modified()).ok();
        changed.and_then(|time| Timestamp::try_from(time).ok()).is_none_or(|time| time < self.before)
    }

    /// What sessions left that are gone.
    pub(super) fn orphans(&mut self, place: &Place) -> Result<(), Failure> {
        let places = self.places(place);
        let found = retention::orphans(&place.repo, &places).map_err(|error| of_engine(&error))?;
        for orphan in found {
            let (kind, name, session) = match &orphan {
                // Those that are idle are looked at with these.
                Orphan::Worktree(_) => continue,
                Orphan::Lock { name } => (CleanedKind::Lock, name.clone(), None),
                Orphan::Home { session, path } => (CleanedKind::Home, text(path), Some(session.clone())),
                Orphan::RunDirectory { session, path } => {
                    (CleanedKind::RunDirectory, text(path), Some(session.clone()))
                }
                // They are of no repository, so they are told once.
                Orphan::Scratch { .. } if place.name != self.workspace.record.name => continue,
                Orphan::Scratch { path } => (CleanedKind::Scratch, text(path), None),
            };
            let path = match &orphan {
                Orphan::Home { path, .. } | Orphan::RunDirectory { path, .. } | Orphan::Scratch { path } => Some(path),
                Orphan::Lock { .. } | Orphan::Worktree(_) => None,
            };
            if path.is_some_and(|path| !self.is_old(path)) {
                self.report.recent();
                continue;
            }
            let bytes = path.map(|path| disk_usage(path));
            let removed = if self.dry_run { Ok(None) } else { orphan.remove(&place.repo, &places) };
            let item = CleanedItem { session, bytes, ..item(kind, name, place) };
            match removed {
                Ok(_) => self.report.removed(&describe(&orphan), item)?,
                Err(why) => self.report.stays(&describe(&orphan), place, &rm::stays_failure(&why))?,
            }
        }
        Ok(())
    }

    /// Worktrees that belong to no session on record: orphaned ones, and idle ones of tasks and of the merge queue.
    pub(super) fn worktrees(&mut self, place: &Place) -> Result<(), Failure> {
        let places = self.places(place);
        let found = own_worktrees(&place.repo, &places).map_err(|error| of_engine(&error))?;
        let is_of_session = |worktree: &OwnWorktree| {
            let is_whole = matches!(worktree.state, WorktreeState::Idle | WorktreeState::Used);
            is_whole && matches!(worktree.owner, WorktreeOwner::Session { .. })
        };
        for worktree in found.into_iter().filter(|worktree| !is_of_session(worktree)) {
            let is_made = !matches!(worktree.state, WorktreeState::Missing | WorktreeState::HalfMade);
            if is_made && !self.is_old(&worktree.path) {
                self.report.recent();
                continue;
            }
            let bytes = Some(disk_usage(&worktree.path));
            let pruned = if self.dry_run {
                to_prune(&place.repo, &places, &worktree, false)
            } else {
                prune_worktree(&place.repo, &places, &worktree, false)
            };
            let what = describe_worktree(&worktree);
            match pruned {
                Ok(work) => {
                    if let Some(work) = work {
                        self.report.kept(&what, place, work.reference.as_deref())?;
                    }
                    let session = match &worktree.owner {
                        WorktreeOwner::Session { session, .. } => Some(session.clone()),
                        _ => None,
                    };
                    let item =
                        CleanedItem { session, bytes, ..item(CleanedKind::Worktree, text(&worktree.path), place) };
                    self.report.removed(&what, item)?;
                }
                Err(why) => self.report.stays(&what, place, &rm::stays_failure(&why))?,
            }
        }
        Ok(())
    }

    /// The sessions on record in a repository.
    pub(super) fn sessions(&mut self, place: &Place, remote: &mut RemoteRefs<'_>) -> Result<(), Failure> {
        let others: Vec<_> = self.workspace.all().map(|place| &place.repo).collect();
        let fates = session_fates(&place.repo, &others, self.before).map_err(|error| of_queue(&error))?;
        for SessionFate { session, summary, stays } in fates {
            match (stays, summary) {
                (Some(SessionStays::Recent), _) => self.report.recent(),
                (Some(why), _) => self.report.stays_by_rule(&format!("session {session}"), place, why)?,
                (None, Some(summary)) => self.session(place, &session, &summary, remote)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Branches of tasks and phases, and of sessions that are gone.
    pub(super) fn branches(&mut self, place: &Place) -> Result<(), Failure> {
        let base = self.ground.settings.resolved.config.tree.base_branch.as_ref();
        let records: Vec<_> = self.workspace.all().map(|place| &place.repo).collect();
        let found = left_branches(&place.repo, &records, &place.branch_prefix, base, self.before);
        let found = found.map_err(|error| of_queue(&error))?;
        for left in found {
            let what = format!("branch {}", left.branch);
            match &left.stays {
                // It was left when its session went.
                Some(_) if self.report.is_left(&what, place) => continue,
                Some(retention::BranchStays::Recent) => {
                    self.report.recent();
                    continue;
                }
                Some(why) => {
                    self.report.stays_by_rule(&what, place, why)?;
                    continue;
                }
                None => {}
            }
            match remove_branch(&place.repo, &left, self.dry_run) {
                Ok(removed) => {
                    if removed.is_unmerged {
                        self.report.kept(&what, place, removed.kept.as_deref())?;
                    }
                    let item = item(CleanedKind::Branch, left.branch.to_string(), place);
                    self.report.removed(&what, CleanedItem { commit: Some(left.tip), ..item })?;
                }
                Err(why) => self.report.stays(&what, place, &branch_failure(&why))?,
            }
        }
        Ok(())
    }

    /// What was kept before the limit. It is read first: what this cleanup keeps stays.
    pub(super) fn old_keeps(&self) -> Result<Vec<(Place, KeepRef)>, Failure> {
        let records: Vec<_> = self.workspace.all().map(|place| &place.repo).collect();
        let mut old = Vec::new();
        for place in self.workspace.all() {
            let found = keeps::find(&place.repo, &records, Some(self.before))?;
            old.extend(found.into_iter().map(|kept| (place.clone(), kept)));
        }
        Ok(old)
    }

    pub(super) fn purge(&mut self, old: Vec<(Place, KeepRef)>) -> Result<(), Failure> {
        for (place, kept) in old {
            let removed = if self.dry_run { Ok(()) } else { keeps::remove(&place.repo, &kept) };
            let item = item(CleanedKind::Keep, kept.reference.clone(), &place);
            match removed {
                Ok(()) => self.report.removed(&kept.reference, CleanedItem { commit: Some(kept.commit), ..item })?,
                Err(why) => self.report.stays(&kept.reference, &place, &why)?,
            }
        }
        Ok(())
    }
}

fn branch_failure(why: &retention::BranchStays) -> Failure {
    match why {
        retention::BranchStays::Refused(error) => rm::failure(error),
        why => Failure::new(Code::RemovalRefused, why.to_string()),
    }
}
