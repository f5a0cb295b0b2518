//! Commits that an agent has made itself: the turn that joined them is theirs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use jiff::{Timestamp, ToSpan as _};
use pleach_core::ids::CommitId;
use pleach_core::trailer::TurnFacts;

use super::error::WhyError;
use super::ground::WhyGround;
use super::origin::Made;

/// How long a turn takes at most, and how many commits it makes: what is beyond that somebody else has made.
const HOURS: i64 = 24;
const COMMITS: usize = 1_000;

/// The turns that joined commits, looked for once a commit may be one of those.
#[derive(Debug)]
pub struct OwnCommits {
    tip: Option<CommitId>,
    /// Joins made since then are known.
    since: Cell<Option<Timestamp>>,
    joined: RefCell<HashMap<CommitId, (CommitId, TurnFacts)>>,
}

impl OwnCommits {
    /// Those in the history of a commit, or of the checkout.
    pub fn new(tip: Option<CommitId>) -> Self {
        Self { tip, since: Cell::default(), joined: RefCell::default() }
    }

    /// Makes sure that those made since a time are known, where sessions are recorded at all.
    pub fn prepare(&self, ground: &WhyGround, since: Timestamp) -> Result<(), WhyError> {
        if self.since.get().is_some_and(|known| known <= since) || !ground.has_sessions()? {
            return Ok(());
        }
        self.since.set(Some(since));
        let Some(tip) = self.tip.or_else(|| ground.code.head().ok().map(|head| head.commit)) else { return Ok(()) };
        for (join, parents) in git::merges_since(&ground.code, tip, since.as_second(), "Orchestra-Turn: ")? {
            let known = ground.commit(join)?;
            if let (Made::Turn(facts), [before, own @ ..]) = (&known.made, &parents[..]) {
                let earliest = ground.commit(*before)?.commit.at.max(known.commit.at - HOURS.hours());
                for own in own {
                    self.learn(ground, *before, *own, earliest, &(join, facts.clone()))?;
                }
            }
        }
        Ok(())
    }

    fn learn(
        &self,
        ground: &WhyGround,
        before: CommitId,
        own: CommitId,
        earliest: Timestamp,
        join: &(CommitId, TurnFacts),
    ) -> Result<(), WhyError> {
        let mut next = Some(own);
        for _ in 0..COMMITS {
            let Some(id) = next.filter(|id| *id != before) else { break };
            let known = ground.commit(id)?;
            // What is not made by hand, or before the turn began, is not the agent's.
            let is_own = matches!(&known.made, Made::Plain(named, _) if named.is_empty());
            if !is_own || known.commit.at < earliest || ground.code.history().is_ancestor(id, before)? {
                break;
            }
            self.joined.borrow_mut().insert(id, join.clone());
            next = known.commit.parents.first().copied();
        }
        Ok(())
    }

    /// The turn that joined a commit.
    pub fn joined_by(&self, commit: CommitId) -> Option<(CommitId, TurnFacts)> {
        self.joined.borrow().get(&commit).cloned()
    }
}
