//! How a queue works: its part of the configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::candidate::MergeOptions;
use crate::config::{HistoryShape, UntestedFiles};
use crate::engine::merging::TierOptions;
use crate::queue::{EntryTest, QueueEntry};

/// How a queue works.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// The test every merge must pass, instead of the tests of the merged tasks.
    pub test: Option<EntryTest>,
    /// The test of what several repositories come to, in the directory that holds all of them; without it, each of them
    /// is tested for itself.
    pub joint_test: Option<EntryTest>,
    /// How long a command that makes derived files may take.
    pub command_limit: Duration,
    /// How many entries are merged and tested together.
    pub batch: usize,
    /// How many tests run at once.
    pub slots: usize,
    /// Whether clean merges land without approval.
    pub auto_merge_clean: bool,
    /// What the target's history looks like.
    pub history: HistoryShape,
    /// The directory of pleach's own logs, relative to the root of the repository.
    pub logs: String,
    /// The directory of its reports, likewise.
    pub reports: String,
    /// The agent that resolves conflicts; a person does without it.
    pub resolver: Option<ResolverSettings>,
    /// The tests of entries that may run: what others bring waits for approval.
    pub approved_tests: BTreeSet<String>,
    /// What is tried with a conflict before anybody is asked.
    pub tiers: TierOptions,
    /// What happens to a conflict resolved in a file that no test covers.
    pub untested_files: UntestedFiles,
}

impl QueueSettings {
    /// Whether everything may run that the tests of an entry are.
    pub(in crate::engine) fn may_test(&self, entry: &QueueEntry) -> bool {
        self.test.is_some() || entry.tests.iter().all(|test| self.approved_tests.contains(&test.command))
    }

    pub(super) fn merge_options(&self) -> MergeOptions {
        MergeOptions { history: self.history, tiers: self.tiers.clone() }
    }
}

/// The agent that resolves conflicts.
#[derive(Debug, Clone)]
pub struct ResolverSettings {
    /// Who it is; the agent of runs if `None`.
    pub agent: Option<String>,
    /// How often it may try.
    pub attempts: u32,
    /// How many conflicts are resolved at once.
    pub at_once: usize,
    /// The prefix of its branches.
    pub branch_prefix: String,
    /// The configuration, without keys and machine paths.
    pub config: Value,
}
