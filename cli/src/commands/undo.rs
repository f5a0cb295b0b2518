//! `pleach undo`

use clap::Args;
use engine::landing::{newest_landing, undo};
use git::record::StoredEntry;
use pleach_core::clock;
use serde_json::json;

use crate::code::Code;
use crate::commands::diff::{file_json, table};
use crate::commands::merge::ground::{MergeGround, entry_json};
use crate::commands::merge::{EntryChange, process_entry};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_git, of_queue};
use crate::place::target;
use crate::render::Out;
use crate::render::session::{age, plain};
use crate::stdin_lines;
use crate::trust::confirm;

/// Revert what has landed last on the branch that is checked out.
///
/// It is shown first, and reverted once you confirm, or with -y: through the merge queue, as `pleach merge undo` does it,
/// so that the revert is tested before it lands. A task is open again then. Run it again to revert what landed before.
/// What came to the branch otherwise, `git revert` reverts.
#[derive(Debug, Args)]
pub struct UndoNewestArgs {
    /// Show what would be reverted, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(globals: &Globals, args: &UndoNewestArgs) -> Result<Exit, Failure> {
    let ground = MergeGround::find(globals)?;
    let (repo, target) = (&ground.place.repo, target(&ground.place)?);
    let found = newest_landing(repo, &target).map_err(|error| of_queue(&error))?;
    let Some(stored) = found else {
        let message = format!("nothing has landed on `{target}` through the merge queue, or all of it is undone");
        return Err(Failure::new(Code::NoSuchEntry, message)
            .hint(format!("`git log {target}` shows its commits, `git revert COMMIT` reverts one")));
    };
    if args.dry_run || !globals.json {
        show(&ground, &stored, args.dry_run)?;
    }
    if args.dry_run {
        return Ok(Exit::Done);
    }
    if !globals.yes {
        agreed()?;
    }
    let entry = undo(repo, &stored, &ground.settings.redactor()).map_err(|error| of_queue(&error))?;
    process_entry(&ground, &entry)
}

/// Shows what is to be reverted.
fn show(ground: &MergeGround<'_>, stored: &StoredEntry, dry_run: bool) -> Result<(), Failure> {
    let (repo, entry) = (&ground.place.repo, &stored.entry);
    let change = EntryChange::of(entry);
    let stat = change.as_ref().map(|change| change.stat(repo)).transpose()?.unwrap_or_default();
    let mut out = Out::new();
    if ground.globals.json {
        let files = stat.iter().map(file_json).collect::<Vec<_>>();
        return out.json(&json!({"dry_run": dry_run, "entry": entry_json(entry), "files": files}));
    }
    let at = change.map(|change| repo.commit(change.to)).transpose().map_err(|error| of_git(&error))?;
    let landed = at.map(|commit| format!(", landed {} ago as {}", age(commit.at, clock::now()), commit.id.short()));
    let title = if entry.title.is_empty() { String::new() } else { format!(": {}", plain(&entry.title)) };
    out.line(format!("{} on `{}`{}{title}", entry.name(), entry.target, landed.unwrap_or_default()))?;
    out.line(table(&stat))
}

/// Asks whether to revert it.
fn agreed() -> Result<(), Failure> {
    let refused = |message: &str| Failure::new(Code::NotConfirmed, message.to_owned());
    if !stdin_lines::is_possible() {
        return Err(refused("nothing was undone: there is no terminal to confirm on")
            .hint("`pleach undo --dry-run` shows what would be; `pleach undo -y` does it"));
    }
    match confirm("Revert this? [y/N] ") {
        Ok(true) => Ok(()),
        Ok(false) => Err(refused("nothing was undone").hint("`pleach merge undo ID` undoes another landing")),
        Err(error) => Err(refused("the answer cannot be read").because(&error).hint("pass -y to confirm")),
    }
}
