//! What has to be known of a merge that git did not make alone, before it may be tested with others: whether there is a
//! test that could tell that it is wrong.

use super::batch::BatchItem;
use super::error::QueueError;
use super::results::{self, ResultKey, TestResult};
use super::run::QueueRun;
use super::store::MergeQueue;
use super::test_runs::{TestId, TestJob};
use git::{CommitSpec, EntryKind, Person, Repo, TreeEdit};
use pleach_core::config::UntestedFiles;
use pleach_core::ids::{CommitId, EntryId, RepoPath};
use pleach_core::merge::{ResolvedHunk, Tier};
use pleach_core::queue::{EntryTest, MergeQuestion};
use pleach_core::text::named;

impl QueueRun {
    /// Whether an agent may resolve an entry's conflict: one is set, it has attempts left, and a test would notice a
    /// mistake.
    pub(super) fn may_resolve(&self, queue: &MergeQueue, id: &EntryId) -> bool {
        let Some(resolver) = &self.settings.resolver else { return false };
        let is_fit = |tries: u32, tests: &[EntryTest]| tries < resolver.attempts && !tests.is_empty();
        queue.entry(id).is_some_and(|stored| {
            let tests = self.settings.tests.of([&stored.entry]);
            is_fit(stored.entry.attempts, &tests)
        })
    }

    /// Whether a merge may be tested with others. One that may not is handed to a person.
    pub(super) async fn vet(&mut self, queue: &mut MergeQueue, item: &BatchItem) -> Result<bool, QueueError> {
        if !is_doubtful(item) {
            return Ok(true);
        }
        let tests = self.settings.tests.of([&item.entry]);
        if tests.is_empty() {
            let why = format!("{NO_TEST}: set `test_command`, or agree with `pleach merge approve`");
            return self.ask_of_coverage(queue, item, &why);
        }
        if self.settings.untested_files == UntestedFiles::Allow {
            return Ok(true);
        }
        let mut uncovered = Vec::new();
        for path in to_cover(item) {
            match self.is_covered(item, &path, &tests).await? {
                Some(true) => {}
                Some(false) => uncovered.push(path),
                None => return Ok(false),
            }
        }
        if uncovered.is_empty() {
            return Ok(true);
        }
        self.ask_of_coverage(queue, item, &uncovered_words(&uncovered))
    }

    /// Hands a merge to a person, with what they need to decide.
    fn ask_of_coverage(&mut self, queue: &mut MergeQueue, item: &BatchItem, why: &str) -> Result<bool, QueueError> {
        self.escalate(queue, &item.entry.id, why, |entry| {
            item.built.show_in(entry);
            entry.question = Some(MergeQuestion::Uncovered);
        })?;
        Ok(false)
    }

    /// Whether the tests fail without the content of a file. None if they were stopped.
    async fn is_covered(
        &mut self,
        item: &BatchItem,
        path: &RepoPath,
        tests: &[EntryTest],
    ) -> Result<Option<bool>, QueueError> {
        let repo = self.place.repo.clone();
        let Some(commit) = emptied(&repo, item, path)? else { return Ok(Some(true)) };
        let Some(file) = repo.tree_entry(item.built.tree, path)? else { return Ok(Some(true)) };
        // Cached by this file alone: the others change with every merge.
        let mut writer = repo.writer();
        let alone = writer.tree(None, &[TreeEdit::Put(path.clone(), EntryKind::File, file.id)])?;
        writer.flush()?;
        let key = ResultKey::new(&repo, alone, tests, &self.settings)?.of_coverage();
        if let Some(known) = results::known(&repo, &self.place.target, &key)? {
            return Ok(Some(!known.passed));
        }
        let id = TestId::Emptied(item.entry.id.clone(), path.clone());
        let result = self.run_alone(TestJob { id, commit, tests: tests.to_vec(), key }).await?;
        Ok(result.map(|TestResult { passed, .. }| !passed))
    }
}

/// Why a resolved conflict does not land without tests.
pub(super) const NO_TEST: &str = "its conflict was resolved, but there is no test that could tell whether rightly";

/// Why an uncovered resolution does not land.
pub(super) fn uncovered_words(paths: &[RepoPath]) -> String {
    format!(
        "no test covers {}, where a conflict was resolved; agree with `pleach merge approve`, or set \
         `merge.untested_files: allow`",
        named(paths)
    )
}

/// Whether a merge needs a test that would notice a mistake: neither git alone nor a person made it, and nobody
/// accepted it.
pub(super) fn is_doubtful(item: &BatchItem) -> bool {
    let tier = item.built.origin.tier;
    tier > Tier::Clean && tier != Tier::Person && !item.entry.accepted.contains(&MergeQuestion::Uncovered)
}

/// The files that a test must cover.
pub(super) fn to_cover(item: &BatchItem) -> Vec<RepoPath> {
    // The tests cover the files of a repair: they failed until it was made.
    let repair = item.entry.resolution.as_ref().filter(|resolution| resolution.repairs);
    let repaired: Vec<RepoPath> =
        repair.into_iter().flat_map(|resolution| resolution.resolved()).map(|hunk| hunk.path).collect();
    guessed(&item.built.origin.resolved).into_iter().filter(|path| !repaired.contains(path)).collect()
}

/// A merge with one file emptied, so that tests that cover it fail. None if it has no such file.
pub(super) fn emptied(repo: &Repo, item: &BatchItem, path: &RepoPath) -> Result<Option<CommitId>, QueueError> {
    let Some(file) = repo.tree_entry(item.built.tree, path)? else { return Ok(None) };
    let mut writer = repo.writer();
    let empty = writer.blob(b"")?;
    let tree = writer.tree(Some(item.built.tree), &[TreeEdit::Put(path.clone(), file.kind, empty)])?;
    let commit = writer.commit(&CommitSpec {
        tree,
        parents: vec![item.built.commit],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: format!("Without the content of {path}\n").into_bytes(),
        at: item.entry.completed_at,
    })?;
    writer.flush()?;
    Ok(Some(commit))
}

/// The files with a resolution that may be wrong.
fn guessed(resolved: &[ResolvedHunk]) -> Vec<RepoPath> {
    let is_guess = |hunk: &&ResolvedHunk| matches!(hunk.source, Tier::Tokens | Tier::Structural | Tier::Agent);
    let mut paths: Vec<RepoPath> = resolved.iter().filter(is_guess).map(|hunk| hunk.path.clone()).collect();
    paths.dedup();
    paths
}
