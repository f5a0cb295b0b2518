//! Whether a target passes its tests as it is, before anything is merged into it.

use std::sync::Arc;

use super::error::QueueError;
use super::results::{self, ResultKey, TestResult};
use super::settings::QueueSettings;
use super::test_slot::{TestPlace, TestSlot};
use crate::env::Engine;
use git::Repo;
use pleach_core::ids::{BranchName, CommitId, RepoName};
use pleach_core::queue::EntryTest;

/// How a test ended on a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TipTest {
    /// It passed.
    pub passed: bool,
    /// How the command ended.
    pub exit: String,
    /// Its seconds.
    pub seconds: u64,
    /// What it printed, if it failed.
    pub log: String,
}

impl From<TestResult> for TipTest {
    fn from(TestResult { passed, exit, seconds, log, .. }: TestResult) -> Self {
        Self { passed, exit, seconds, log }
    }
}

/// How a test ended on a commit of a target, if that is known. Nothing is run.
pub fn known_tip_test(
    repo: &Repo,
    target: &BranchName,
    commit: CommitId,
    test: &EntryTest,
    settings: &QueueSettings,
) -> Result<Option<TipTest>, QueueError> {
    let key = key_of(repo, commit, test, settings)?;
    Ok(results::known(repo, target, &key)?.map(TipTest::from))
}

/// Runs a test on a commit of a target, and stores the result. None if it was stopped.
pub async fn run_tip_test(
    engine: Arc<Engine>,
    repo: Repo,
    repo_name: RepoName,
    target: BranchName,
    commit: CommitId,
    test: &EntryTest,
    settings: &QueueSettings,
) -> Result<Option<TipTest>, QueueError> {
    let key = key_of(&repo, commit, test, settings)?;
    let cancel = engine.cancel.clone();
    let place = TestPlace { engine, repo, repo_name, target };
    let mut number = 1;
    let mut slot = loop {
        match TestSlot::take(&place, number)? {
            Some(slot) => break slot,
            None => number += 1,
        }
    };
    let Some(result) = slot.test(&place, commit, std::slice::from_ref(test), &cancel).await? else { return Ok(None) };
    results::note(&place.repo, &place.target, &key, &result)?;
    Ok(Some(result.into()))
}

fn key_of(repo: &Repo, commit: CommitId, test: &EntryTest, settings: &QueueSettings) -> Result<ResultKey, QueueError> {
    Ok(ResultKey::new(repo, repo.tree_of(commit)?, std::slice::from_ref(test), settings)?)
}
