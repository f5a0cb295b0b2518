//! Brings what a killed process has left of a queue to an end, without working it.

use super::error::QueueError;
use super::landing::{self, tip_of};
use super::run::QueueRun;
use super::store::MergeQueue;

impl QueueRun {
    /// Closes landed entries that a killed process could not close.
    pub(crate) fn settle(mut self) -> Result<(), QueueError> {
        let (repo, target) = (self.place.repo.clone(), self.place.target.clone());
        let mut queue = MergeQueue::read(&repo, &target)?;
        let tip = tip_of(&repo, &target)?;
        for entry in landing::settle(&repo, &mut queue, tip)? {
            self.tell_landed(entry);
        }
        Ok(())
    }
}
