//! The tests of merges that land together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::BatchItem;
use super::error::QueueError;
use super::results::TestResult;
use super::settings::QueueSettings;
use super::test_slot::{OUTPUT_KEPT, failed, log_of, passed};
use crate::env::{self, Engine, SessionRepos, git_variables};
use crate::session::{JointCommand, JointFiles, JointSlot};
use os::process::{Exit, SpawnError};
use pleach_core::ids::{RepoName, SessionId};
use pleach_core::queue::EntryTest;

/// A test, and where it runs.
#[derive(Debug, Clone)]
pub(super) struct JointTest {
    test: EntryTest,
    /// The repository; none for the directory that holds all of them.
    repo: Option<RepoName>,
}

/// The tests of merges that land together: the joint test, or in each repository its own tests.
pub(super) fn joint_tests<'i>(
    settings: &QueueSettings,
    items: impl IntoIterator<Item = &'i BatchItem>,
) -> Vec<JointTest> {
    if let Some(test) = &settings.joint_test {
        return vec![JointTest { test: test.clone(), repo: None }];
    }
    let own_tests = |item: &'i BatchItem| {
        let tests = settings.tests.of([&item.entry]);
        tests.into_iter().map(|test| JointTest { test, repo: Some(item.entry.repo.clone()) })
    };
    items.into_iter().flat_map(own_tests).collect()
}

/// Where tests of several repositories run.
pub(super) struct JointTests<'a> {
    pub engine: &'a Arc<Engine>,
    pub repos: &'a SessionRepos,
    pub session: &'a SessionId,
}

impl JointTests<'_> {
    /// Checks files out side by side and runs tests there, until one fails. None if they were stopped.
    pub(super) async fn run(
        &self,
        files: Vec<JointFiles>,
        tests: &[JointTest],
    ) -> Result<Option<TestResult>, QueueError> {
        let mut slot =
            tokio::task::block_in_place(|| JointSlot::open(Arc::clone(self.engine), self.repos, self.session, files))?;
        let tested = run_in(self.engine, &mut slot, tests).await;
        tokio::task::block_in_place(|| slot.remove());
        tested
    }
}

async fn run_in(engine: &Engine, slot: &mut JointSlot, tests: &[JointTest]) -> Result<Option<TestResult>, QueueError> {
    let (begun, cancel) = (Instant::now(), &engine.cancel);
    if !slot.set_up(cancel).await? {
        return Ok(None);
    }
    for JointTest { test, repo } in tests {
        let dir = repo.as_ref().map_or_else(|| slot.root().to_owned(), |repo| slot.root().join(repo.as_str()));
        let (env, wall) = (git_variables("merge queue", &dir), Some(Duration::from_secs(test.timeout)));
        let spec = JointCommand { dir, env, wall, output: OUTPUT_KEPT };
        let output = match slot.run(&test.command, spec, cancel, &mut |_, _| {}).await {
            Ok(output) if output.exit == Exit::Cancelled => return Ok(None),
            Ok(output) if output.exit == Exit::Code(0) => continue,
            Ok(output) => output,
            // A command that leaves processes running has failed.
            Err(env::Error::Spawn(error @ SpawnError::Unkillable { .. })) => {
                return Ok(Some(failed(begun, error.to_string(), String::new())));
            }
            Err(error) => return Err(error.into()),
        };
        let log = log_of(engine, &test.command, &output);
        let at = repo.as_ref().map(|repo| format!(" in `{repo}`")).unwrap_or_default();
        return Ok(Some(failed(begun, format!("{}{at}", output.exit), log)));
    }
    Ok(Some(passed(begun)))
}
