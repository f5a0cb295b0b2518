//! `pleach cleanup`

mod remote_refs;
mod report;
mod session;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use pleach::clock;
use pleach::event::{CleanedItem, CleanedKind};
use pleach::ids::RepoName;
use pleach::keep::{
    OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState, own_worktrees, prune_worktree, to_prune,
};
use pleach::plan::dot::read_duration;
use pleach::retention::{self, Orphan, SessionFate, SessionStays, left_branches, remove_branch, session_fates};
use pleach::workspace::disk_usage;

use self::remote_refs::RemoteRefs;
use self::report::Report;
use crate::code::Code;
use crate::commands::rm;
use crate::commands::rm::keeps::{self, KeepRef};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_queue};
use crate::place::{Place, Places};
use crate::sessions::SessionGround;
use crate::survey::orphans::{describe, describe_worktree, places_of};

/// Remove what is old and needed no more, in every repository of the workspace.
///
/// Sessions that have ended go with their branches, records, worktrees and agents' directories; so do branches of landed and
/// cancelled tasks and of merged phases, idle worktrees, and what killed runs have left. Commits that no other branch has,
/// and uncommitted files, are kept under refs/pleach/keep/ first.
///
/// What runs, is paused or can be resumed after a crash stays at any age; so do tasks that have not landed, open entries of
/// the merge queue, phases that are not merged, and worktrees locked with `git worktree lock`. Everything that is removed is
/// listed, and so is what stays though it is old.
#[derive(Debug, Args)]
pub struct CleanupArgs {
    /// Only what was not used for this long: a number of days, or 30d, 12h. 0 means everything that has ended.
    #[arg(long, value_name = "AGE", default_value = "7", value_parser = age)]
    older_than: Duration,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also remove the branches and records of removed sessions from the remotes. What fails there is a warning.
    #[arg(long)]
    remote: bool,
    /// Also remove what was kept under refs/pleach/keep/ that long ago, unless an unfinished session may need it.
    #[arg(long)]
    purge: bool,
}

/// `30` days, `30d`, `12h`.
fn age(text: &str) -> Result<Duration, &'static str> {
    let days = text.parse::<u64>().ok().and_then(|days| days.checked_mul(86_400)).map(Duration::from_secs);
    days.or_else(|| read_duration(text)).ok_or("write a number of days, or a number and d, h, m or s, such as 12h")
}

/// The time before which something was used last that is old.
fn limit(age: Duration) -> Timestamp {
    // A clock that was wrong has left times to come.
    if age.is_zero() { Timestamp::MAX } else { clock::now().checked_sub(age).unwrap_or(Timestamp::MIN) }
}

pub fn run(globals: &Globals, args: CleanupArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let workspace = Places { record: ground.place.clone(), others: ground.others() };
    let known: BTreeSet<&RepoName> = workspace.all().map(|place| &place.name).collect();
    for name in ground.settings.resolved.config.workspace.repos.keys().filter(|name| !known.contains(name)) {
        warning!(RepoUnavailable, "the repository `{name}` is left out: it is not there");
    }
    let report = Report::new(globals.json, args.dry_run, workspace.others.is_empty());
    let before = limit(args.older_than);
    let mut cleaner = Cleaner { ground: &ground, workspace: &workspace, args: &args, before, report };
    let purged = if args.purge { cleaner.old_keeps()? } else { Vec::new() };
    let mut remote = RemoteRefs::new(&ground.settings, &workspace);
    for place in workspace.all() {
        cleaner.orphans(place)?;
        cleaner.worktrees(place)?;
    }
    for place in workspace.all() {
        cleaner.sessions(place, &mut remote)?;
    }
    for place in workspace.all() {
        cleaner.branches(place)?;
    }
    cleaner.purge(purged)?;
    remote.delete(&mut cleaner.report)?;
    cleaner.report.end(args.older_than)
}

/// Removes what is old.
struct Cleaner<'a> {
    ground: &'a SessionGround,
    workspace: &'a Places,
    args: &'a CleanupArgs,
    before: Timestamp,
    report: Report,
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
    fn orphans(&mut self, place: &Place) -> Result<(), Failure> {
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
            let removed = if self.args.dry_run { Ok(None) } else { orphan.remove(&place.repo, &places) };
            let item = CleanedItem { session, bytes, ..item(kind, name, place) };
            match removed {
                Ok(_) => self.report.removed(&describe(&orphan), item)?,
                Err(why) => self.report.stays(&describe(&orphan), place, &rm::stays_failure(&why))?,
            }
        }
        Ok(())
    }

    /// Worktrees that belong to no session on record: orphaned ones, and idle ones of tasks and of the merge queue.
    fn worktrees(&mut self, place: &Place) -> Result<(), Failure> {
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
            let pruned = match self.args.dry_run {
                true => to_prune(&place.repo, &places, &worktree, false),
                false => prune_worktree(&place.repo, &places, &worktree, false),
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
    fn sessions(&mut self, place: &Place, remote: &mut RemoteRefs<'_>) -> Result<(), Failure> {
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
    fn branches(&mut self, place: &Place) -> Result<(), Failure> {
        let base = self.ground.settings.resolved.config.tree.base_branch.as_ref();
        let records: Vec<_> = self.workspace.all().map(|place| &place.repo).collect();
        let found = left_branches((&place.repo, &records), &place.branch_prefix, base, self.before);
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
            match remove_branch(&place.repo, &left, self.args.dry_run) {
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
    fn old_keeps(&self) -> Result<Vec<(Place, KeepRef)>, Failure> {
        let records: Vec<_> = self.workspace.all().map(|place| &place.repo).collect();
        let mut old = Vec::new();
        for place in self.workspace.all() {
            let found = keeps::find(&place.repo, &records, Some(self.before))?;
            old.extend(found.into_iter().map(|kept| (place.clone(), kept)));
        }
        Ok(old)
    }

    fn purge(&mut self, old: Vec<(Place, KeepRef)>) -> Result<(), Failure> {
        for (place, kept) in old {
            let removed = if self.args.dry_run { Ok(()) } else { keeps::remove(&place.repo, &kept) };
            let item = item(CleanedKind::Keep, kept.reference.clone(), &place);
            match removed {
                Ok(()) => self.report.removed(&kept.reference, CleanedItem { commit: Some(kept.commit), ..item })?,
                Err(why) => self.report.stays(&kept.reference, &place, &why)?,
            }
        }
        Ok(())
    }
}

fn item(kind: CleanedKind, name: String, place: &Place) -> CleanedItem {
    CleanedItem { kind, name, repo: place.name.clone(), session: None, commit: None, bytes: None, remote: None }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn branch_failure(why: &retention::BranchStays) -> Failure {
    match why {
        retention::BranchStays::Refused(error) => rm::failure(error),
        why => Failure::new(Code::RemovalRefused, why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_days_unless_it_says_otherwise() {
        assert_eq!(age("7"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(age("0"), Ok(Duration::ZERO));
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3600)));
        assert_eq!(age("30d"), age("30"));
        assert!(age("soon").is_err() && age("").is_err() && age("-1").is_err());
        assert_eq!(limit(Duration::ZERO), Timestamp::MAX);
        assert!(limit(Duration::from_secs(60)) < clock::now());
        assert_eq!(limit(Duration::MAX), Timestamp::MIN);
    }
}
