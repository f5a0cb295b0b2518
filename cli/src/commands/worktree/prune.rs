//! `pleach worktree prune`

use clap::Args;
use engine::keep::{OwnWorktree, PrunedWork, RemoveError, WorktreeStays, prune_worktree, to_prune};
use pleach_core::text::listed;
use serde_json::{Value, json};

use super::placed::{PlacedWorktree, document, owner};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::render::Out;
use crate::survey::orphans::describe_worktree;

/// The most files a line names.
const NAMED: usize = 5;

/// Remove worktrees that are orphaned or missing, those of sessions that have ended, and idle ones of tasks.
///
/// Branches and records stay, and a worktree that is needed again is made again. Work that only the worktree has (uncommitted
/// files, commits on no branch) is kept under refs/pleach/keep/ first, and named. One with something that cannot be kept
/// stays, and the exit code is 1. One in use and that of a session that can be resumed stay, too.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also remove those that are locked with `git worktree lock`.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(globals: &Globals, args: &PruneArgs, all: &[PlacedWorktree<'_>]) -> Result<Exit, Failure> {
    let mut report = PruneReport { globals, dry_run: args.dry_run, out: Out::new(), exit: Exit::Done };
    let (mut removed, mut stays) = (Vec::new(), Vec::new());
    for PlacedWorktree { place, places, worktree } in all {
        let pruned = if args.dry_run {
            to_prune(&place.repo, places, worktree, args.force)
        } else {
            prune_worktree(&place.repo, places, worktree, args.force)
        };
        let mut document = document(worktree, place);
        match pruned {
            Ok(work) => {
                report.removed(worktree, work.as_ref())?;
                document["kept"] = work
                    .as_ref()
                    .map_or(Value::Null, |work| json!({"ref": work.reference, "uncommitted": work.uncommitted}));
                removed.push(document);
            }
            Err(why) => {
                report.stays(worktree, &why)?;
                document["reason"] = json!({"code": code(&why), "text": why.to_string()});
                stays.push(document);
            }
        }
    }
    if globals.json {
        report.out.json(&json!({"dry_run": args.dry_run, "removed": removed, "stays": stays}))?;
    } else if all.is_empty() {
        report.out.line("There is no worktree of pleach's in this repository.")?;
    }
    Ok(report.exit)
}

/// What is said while worktrees are removed.
struct PruneReport<'a> {
    globals: &'a Globals,
    dry_run: bool,
    out: Out,
    exit: Exit,
}

impl PruneReport<'_> {
    fn line(&mut self, line: &str) -> Result<(), Failure> {
        if self.globals.json { Ok(()) } else { self.out.line(line) }
    }

    fn removed(&mut self, worktree: &OwnWorktree, work: Option<&PrunedWork>) -> Result<(), Failure> {
        let (keep, remove) = if self.dry_run { ("would keep", "would remove") } else { ("kept", "removed") };
        if let Some(work) = work {
            let what = match work.uncommitted.as_slice() {
                [] => "commits on no branch".to_owned(),
                files => format!("uncommitted work in {}", listed(files, NAMED)),
            };
            let at = work.reference.as_deref().unwrap_or("a ref below refs/pleach/keep/");
            self.line(&format!("{}: {keep} {what} at {at}", owner(worktree)))?;
        }
        self.line(&format!("{}: {remove} {}", owner(worktree), describe_worktree(worktree)))
    }

    fn stays(&mut self, worktree: &OwnWorktree, why: &WorktreeStays) -> Result<(), Failure> {
        let what = describe_worktree(worktree);
        let exit = match why {
            // By the rules it stays; nothing is wrong.
            WorktreeStays::Used { .. }
            | WorktreeStays::Resumable { .. }
            | WorktreeStays::Resolving { .. }
            | WorktreeStays::Changed => {
                return self.line(&format!("{}: {what} stays: {why}", owner(worktree)));
            }
            WorktreeStays::Locked { .. } => {
                return self.line(&format!("{}: {what} stays: {why}; `--force` removes it", owner(worktree)));
            }
            WorktreeStays::Refused(RemoveError::Session(error)) => of_engine(error).exit(),
            WorktreeStays::Refused(_) | WorktreeStays::Replaced | WorktreeStays::NoCommit => Exit::WorkFailed,
        };
        warning!(NotRemoved, "{what} stays: {why}");
        // What is wrong with the machine counts more than what would be lost.
        if self.exit != Exit::Environment {
            self.exit = exit;
        }
        Ok(())
    }
}

/// Why a worktree stays, in a word.
fn code(why: &WorktreeStays) -> &'static str {
    match why {
        WorktreeStays::Used { .. } => "used",
        WorktreeStays::Locked { .. } => "locked",
        WorktreeStays::Resumable { .. } => "resumable",
        WorktreeStays::Resolving { .. } => "resolving",
        WorktreeStays::Changed => "changed",
        WorktreeStays::Replaced => "replaced",
        WorktreeStays::NoCommit => "no-commit",
        WorktreeStays::Refused(RemoveError::Obstacle(_)) => "unsaved",
        WorktreeStays::Refused(_) => "failed",
    }
}
