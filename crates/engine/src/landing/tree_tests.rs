//! Tests of files nobody merges: what runs have made is tested to compare them, as a landing would test it.

use std::collections::BTreeMap;

use super::error::QueueError;
use super::results::{self, ResultKey, TestResult};
use super::settings::QueueSettings;
use super::test_runs::{TestId, TestJob, TestRuns};
use super::test_slot::TestPlace;
use pleach_core::ids::CommitId;
use pleach_core::queue::EntryTest;

/// How tests ended on the files of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeTest {
    /// All of them passed.
    pub passed: bool,
    /// How the deciding command ended.
    pub exit: String,
    /// Their seconds.
    pub seconds: u64,
    /// What they printed, if they failed.
    pub log: String,
    /// They had run on the same files before.
    pub cached: bool,
}

impl TreeTest {
    fn new(result: TestResult, cached: bool) -> Self {
        let TestResult { passed, exit, seconds, log, .. } = result;
        Self { passed, exit, seconds, log, cached }
    }
}

/// Runs tests on the files of each commit, in slots of the queue, as many at once as it tests itself. The same files are
/// tested once. None for those that were stopped before they ended.
pub async fn test_trees(
    place: TestPlace,
    commits: &[CommitId],
    tests: &[EntryTest],
    settings: &QueueSettings,
) -> Result<Vec<Option<TreeTest>>, QueueError> {
    let key = |commit: &CommitId| ResultKey::new(&place.repo, place.repo.tree_of(*commit)?, tests, settings);
    let keys = tokio::task::block_in_place(|| commits.iter().map(key).collect::<Result<Vec<_>, git::Error>>())?;
    let (mut done, mut jobs) = (BTreeMap::new(), BTreeMap::new());
    for (number, (key, commit)) in keys.iter().zip(commits).enumerate() {
        match results::known(&place.repo, &place.target, key)? {
            Some(known) => drop(done.insert(key.clone(), TreeTest::new(known, true))),
            None => {
                let (id, tests) = (TestId::Tree(number), tests.to_vec());
                jobs.entry(key.clone()).or_insert(TestJob { id, commit: *commit, tests, key: key.clone() });
            }
        }
    }
    let (cancel, mut waiting) = (place.engine.cancel.clone(), jobs.into_values());
    let mut runs = TestRuns::new(place);
    loop {
        while runs.beside() < settings.slots.max(1) && !cancel.is_stopped() {
            let Some(job) = waiting.next() else { break };
            runs.start(job)?;
        }
        let Some((job, result)) = runs.next().await? else { break };
        done.extend(result.map(|result| (job.key, TreeTest::new(result, false))));
    }
    Ok(keys.iter().map(|key| done.get(key).cloned()).collect())
}
