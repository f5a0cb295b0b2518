//! The tests of merges that land together.

use std::time::{Duration, Instant};

use super::error::QueueError;
use super::results::TestResult;
use super::test_slot::{OUTPUT_KEPT, failed, log_of, passed};
use crate::engine::bounds::git_variables;
use crate::engine::joint_slot::{JointCommand, JointSlot};
use crate::engine::{self, Engine};
use crate::process::{Exit, SpawnError};
use crate::queue::EntryTest;

/// Runs tests side by side, until one fails. None if they were stopped.
pub(super) async fn run_joint_tests(
    engine: &Engine,
    slot: &mut JointSlot,
    tests: &[EntryTest],
) -> Result<Option<TestResult>, QueueError> {
    let (begun, cancel) = (Instant::now(), &engine.cancel);
    if !slot.set_up(cancel).await? {
        return Ok(None);
    }
    for test in tests {
        let dir = slot.root().to_owned();
        let (env, wall) = (git_variables("merge queue", &dir), Some(Duration::from_secs(test.timeout)));
        let spec = JointCommand { dir, env, wall, output: OUTPUT_KEPT };
        let output = match slot.run(&test.command, spec, cancel, &mut |_, _| {}).await {
            Ok(output) if output.exit == Exit::Cancelled => return Ok(None),
            Ok(output) if output.exit == Exit::Code(0) => continue,
            Ok(output) => output,
            // A command that leaves processes running has failed itself.
            Err(engine::Error::Spawn(error @ SpawnError::Unkillable { .. })) => {
                return Ok(Some(failed(begun, error.to_string(), String::new())));
            }
            Err(error) => return Err(error.into()),
        };
        let log = log_of(engine, &test.command, &output);
        return Ok(Some(failed(begun, output.exit.to_string(), log)));
    }
    Ok(Some(passed(begun)))
}
