//! Has commands make files again that were in conflict: the target's are taken, and what the commands leave in their place
//! is what the merge has.

use super::conflict::{commit_of_both, keep_resolution};
use super::error::QueueError;
use super::landing::update;
use super::run::QueueRun;
use super::store::MergeQueue;
use super::test_slot::Derivation;
use crate::merging::TierResult;
use pleach_core::ids::{CommitId, EntryId};
use pleach_core::merge::{ResolvedHunk, Tier};
use pleach_core::queue::EntryState;

impl QueueRun {
    /// Runs the commands for an entry's derived files, and queues it with their output.
    pub(super) async fn derive(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        tip: CommitId,
        tried: TierResult,
    ) -> Result<(), QueueError> {
        let Some(entry) = queue.entry(id).map(|stored| stored.entry.clone()) else { return Ok(()) };
        let repo = self.place.repo.clone();
        let message = format!("Before the derived files of {} are made\n", entry.name());
        let commit = commit_of_both(&repo, &entry, tip, tried.tree, message)?;
        let commands: Vec<String> = tried.derived.iter().map(|run| run.command.clone()).collect();
        let files = tried.derived.iter().flat_map(|run| &run.paths);
        let rules = self.settings.tiers.derived.for_files(files);
        match self.runs.derive(commit, &commands, &rules, self.settings.command_limit).await? {
            Derivation::Made(tree) => {
                let hunks = tried.resolved.iter().map(ResolvedHunk::to_value).collect();
                let resolution = keep_resolution(&repo, &entry, tip, tree, Tier::Derived, hunks)?;
                update(&repo, queue, std::slice::from_ref(id), |entry| {
                    entry.state = EntryState::Submitted;
                    entry.resolution = Some(resolution.clone());
                    entry.why = Some("its derived files were made again".to_owned());
                })?;
                Ok(())
            }
            Derivation::Failed(why) => self.escalate(queue, id, &why, |_| {}),
            Derivation::Stopped => Ok(()),
        }
    }
}
