//! The removal of one session, with the sizes of what goes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::keep::Obstacle;
use engine::retention::{Removal, RemovalStep, RepoStep, prepare_removal};
use engine::view::Summary;
use git::record::History;
use git::workspace::disk_usage;
use pleach_core::event::{CleanedItem, CleanedKind};
use pleach_core::ids::SessionId;

use super::cleaner::Cleaner;
use super::item::{item, text};
use super::remote_refs::RemoteRefs;
use crate::code::Code;
use crate::commands::rm;
use crate::failure::Failure;
use crate::lib_errors::of_record;
use crate::place::Place;
use crate::sessions::SessionGround;

impl Cleaner<'_> {
    /// Removes a session, step by step.
    pub(super) fn session(
        &mut self,
        place: &Place,
        session: &SessionId,
        summary: &Summary,
        remote: &mut RemoteRefs<'_>,
    ) -> Result<(), Failure> {
        let ground = SessionGround { settings: self.ground.settings.clone(), place: place.clone() };
        let (state_dir, worktrees) = (&ground.settings.state_dir, &ground.settings.resolved.config.worktrees);
        let copied_in: Vec<_> = worktrees.include_ignored.iter().map(|path| path.as_str().into()).collect();
        // All are looked into before the first one goes; what replays began with goes last.
        let runs = History::runs(&place.repo, session).map_err(|error| of_record(&error))?;
        let prepared = runs.iter().rev().map(|run| {
            let prepared = prepare_removal(&ground.repos(&summary.started), run, state_dir, &copied_in);
            prepared.map_err(|error| rm::failure(&error)).and_then(refuse_losses)
        });
        let removals = match prepared.collect::<Result<Vec<_>, _>>() {
            Ok(removals) => removals,
            Err(why) => return self.report.stays(&format!("session {session}"), place, &why),
        };
        let planned = if self.with_remotes { remote.of_session(place, summary, &mut self.report)? } else { Vec::new() };
        for removal in removals {
            let mut sizes = Sizes::of(&removal);
            if self.dry_run {
                for step in removal.steps() {
                    self.step(place, session, &step, &mut sizes)?;
                }
                continue;
            }
            // A reader that stops reading must not stop a removal in its middle.
            let mut printed = Ok(());
            let removed = removal.execute(&mut |step| {
                let reported = self.step(place, session, step, &mut sizes);
                printed = std::mem::replace(&mut printed, Ok(())).and(reported);
            });
            printed?;
            if let Err(error) = removed {
                return self.report.stays(&format!("session {session}"), place, &rm::failure(&error));
            }
        }
        remote.add(planned);
        Ok(())
    }

    /// One step of the removal of a session.
    fn step(
        &mut self,
        place: &Place,
        session: &SessionId,
        (repo, step): &RepoStep,
        sizes: &mut Sizes,
    ) -> Result<(), Failure> {
        let step_place = Place { name: repo.clone().unwrap_or_else(|| place.name.clone()), ..place.clone() };
        let of_session =
            |kind, name: String| CleanedItem { session: Some(session.clone()), ..item(kind, name, &step_place) };
        let (what, cleaned) = match step {
            RemovalStep::Keep { reference, .. } => {
                let reference = (!self.dry_run).then_some(reference.as_str());
                return self.report.kept(&format!("session {session}"), &step_place, reference);
            }
            RemovalStep::LeaveBranch { branch, .. } => {
                let why = "it has commits that no turn of its session made";
                return self.report.stays_by_rule(&format!("branch {branch}"), &step_place, why);
            }
            RemovalStep::RemoveWorktree { path } => {
                for run in sizes.run_directories_of(path) {
                    let what = format!("the run directory {} of session {session}", run.display());
                    let bytes = sizes.take(&run);
                    let item = CleanedItem { bytes, ..of_session(CleanedKind::RunDirectory, text(&run)) };
                    self.report.removed(&what, item)?;
                }
                let bytes = sizes.take(path);
                let item = CleanedItem { bytes, ..of_session(CleanedKind::Worktree, text(path)) };
                (format!("the worktree {} of session {session}", path.display()), item)
            }
            RemovalStep::RemoveHome { path } => {
                let bytes = sizes.take(path);
                let item = CleanedItem { bytes, ..of_session(CleanedKind::Home, text(path)) };
                (format!("the agents' directory {} of session {session}", path.display()), item)
            }
            RemovalStep::RemoveBranch { branch, at } => {
                let item = CleanedItem { commit: Some(*at), ..of_session(CleanedKind::Branch, branch.to_string()) };
                (format!("branch {branch}"), item)
            }
            RemovalStep::RemoveRecord { at } => {
                let item = CleanedItem { commit: *at, ..of_session(CleanedKind::Record, session.to_string()) };
                (format!("the record of session {session}"), item)
            }
        };
        self.report.removed(&what, cleaned)
    }
}

/// Refuses what would lose something that git cannot keep. `pleach rm --force` does it.
fn refuse_losses(removal: Removal) -> Result<Removal, Failure> {
    let is_loss = |obstacle: &&Obstacle| match obstacle {
        // Their commits are kept; a branch that was moved is left.
        Obstacle::Unmerged { .. } | Obstacle::OnNoBranch { .. } | Obstacle::BranchMoved { .. } => false,
        Obstacle::Unsaved { .. }
        | Obstacle::Unreadable { .. }
        | Obstacle::Lost { .. }
        | Obstacle::RepoMissing { .. } => true,
    };
    match removal.obstacles.iter().find(is_loss) {
        Some(loss) => Err(Failure::new(Code::RemovalRefused, loss.to_string())),
        None => Ok(removal),
    }
}

/// How much the directories of a session have, measured before they go.
struct Sizes {
    bytes: BTreeMap<PathBuf, u64>,
    /// Run directories by the worktree they lie beside.
    beside: Vec<(PathBuf, PathBuf)>,
}

impl Sizes {
    fn of(removal: &Removal) -> Self {
        let beside = removal.run_directories();
        let steps = removal.steps();
        let paths = steps.iter().filter_map(|(_, step)| match step {
            RemovalStep::RemoveWorktree { path } | RemovalStep::RemoveHome { path } => Some(path),
            _ => None,
        });
        let all = paths.chain(beside.iter().map(|(_, run)| run));
        Self { bytes: all.map(|path| (path.clone(), disk_usage(path))).collect(), beside }
    }

    /// The run directories that go with a worktree, each told once.
    fn run_directories_of(&mut self, worktree: &Path) -> Vec<PathBuf> {
        let (its, others) = std::mem::take(&mut self.beside).into_iter().partition(|(owner, _)| owner == worktree);
        self.beside = others;
        let its: Vec<(PathBuf, PathBuf)> = its;
        its.into_iter().map(|(_, run)| run).collect()
    }

    fn take(&mut self, path: &Path) -> Option<u64> {
        self.bytes.remove(path)
    }
}
