//! `pleach merge abort`

use clap::Args;
use pleach::engine::queue::{AbortError, abort_resolution};
use serde_json::json;

use super::MergeGround;
use crate::commands::rm::stays_failure;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::Out;
use crate::survey::orphans::places;

/// End a resolution by hand: its worktree goes, and the entry waits as before.
///
/// What was edited there is kept under refs/pleach/keep/.
#[derive(Debug, Args)]
pub struct AbortArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

pub fn run(ground: &MergeGround<'_>, args: &AbortArgs) -> Result<Exit, Failure> {
    let (place, stored) = ground.conflicted(&args.entry)?;
    let places = places(&place.repo, &ground.settings);
    let kept = abort_resolution(&place.repo, &places, &stored).map_err(|error| match error {
        AbortError::Queue(error) => of_queue(&error),
        AbortError::Stays(why) => stays_failure(&why),
    })?;
    let reference = kept.and_then(|kept| kept.reference);
    let mut out = Out::new();
    if ground.globals.json {
        out.json(&json!({"entry": stored.entry.id, "kept": reference}))?;
        return Ok(Exit::Done);
    }
    out.line(format!("ended: nobody resolves {} by hand", stored.entry.name()))?;
    reference.into_iter().try_for_each(|name| out.line(format!("kept:    {name}")))?;
    out.line(format!("next:    pleach merge retry {}", stored.entry.reference()))?;
    Ok(Exit::Done)
}
