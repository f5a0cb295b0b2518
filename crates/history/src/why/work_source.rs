//! Work that is in a commit as well.

use git::record::History;
use pleach_core::ids::CommitId;

use super::document::{Evidence, Via};
use super::ground::WhyGround;

/// Work that is in a commit as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSource {
    /// Where it ended.
    pub tip: CommitId,
    /// Where it began; without that, all of its history counts.
    pub base: Option<CommitId>,
    /// How it came into the commit.
    pub via: Via,
    /// How that is known.
    pub evidence: Evidence,
}

/// All work of a run.
pub fn whole(ground: &WhyGround, history: &History) -> Option<(CommitId, Option<CommitId>)> {
    Some((ground.newest_work(history)?, ground.own(&history.started, &history.started.base)))
}
