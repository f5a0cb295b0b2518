//! Records how conflicts were resolved, once the resolution has landed: it passed its tests, so it may be taken again.

use super::candidate::{MergeBuild, MergeOptions, build};
use super::error::QueueError;
use crate::merging::{learn_resolutions, record_resolutions};
use git::Repo;
use pleach_core::clock;
use pleach_core::merge::{ResolutionSource, Tier};
use pleach_core::queue::QueueEntry;

/// Records how an agent or a person resolved the conflict of a landed entry.
pub(super) fn record_landed(repo: &Repo, entry: &QueueEntry, options: &MergeOptions) -> Result<(), QueueError> {
    let Some(resolution) =
        entry.resolution.as_ref().filter(|resolution| matches!(resolution.tier, Tier::Agent | Tier::Person))
    else {
        return Ok(());
    };
    let plain = QueueEntry { resolution: None, ..entry.clone() };
    let MergeBuild::Conflict(left) = build(repo, &plain, resolution.onto, options)? else { return Ok(()) };
    let source = ResolutionSource {
        tier: resolution.tier,
        by: entry.name(),
        commit: entry.landing.map(|landing| landing.to),
        at: clock::now(),
    };
    // Automatic resolutions are not their choice, and single hunks of a file merged as a whole mean nothing.
    let learned = learn_resolutions(repo, &left.rest(), repo.tree_of(resolution.commit)?, &source)?;
    Ok(record_resolutions(repo, &learned)?)
}
