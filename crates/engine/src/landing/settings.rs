//! How a queue works: its part of the configuration.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::candidate::MergeOptions;
use crate::merging::TierOptions;
use pleach_core::config::{HistoryShape, UntestedFiles};
use pleach_core::queue::{EntryTest, MergeTests, QueueEntry, without_secret_values};
use pleach_core::redact::Redactor;

/// How a queue works.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// The tests merges must pass.
    pub tests: MergeTests,
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
    pub(crate) fn may_test(&self, entry: &QueueEntry) -> bool {
        self.tests.always.is_some() || entry.tests.iter().all(|test| self.approved_tests.contains(&test.command))
    }

    /// The same with what was approved as entries have it that hold no secrets.
    pub(super) fn approving_without_secrets(mut self, redactor: &Redactor) -> Self {
        let clean: Vec<String> =
            self.approved_tests.iter().map(|command| without_secret_values(command, redactor)).collect();
        self.approved_tests.extend(clean);
        self
    }

    /// What an entry is tested with, alone. Without any test it lands unverified.
    pub fn tests_of(&self, entry: &QueueEntry) -> Vec<EntryTest> {
        match entry.together {
            Some(_) => self.joint_tests().of([entry]),
            None => self.tests.of([entry]),
        }
    }

    /// The tests of what lands in several repositories together.
    pub(super) fn joint_tests(&self) -> MergeTests {
        let MergeTests { always, usual } = self.tests.clone();
        MergeTests { always: self.joint_test.clone().or(always), usual }
    }

    pub(super) fn merge_options(&self) -> MergeOptions {
        MergeOptions { history: self.history, tiers: self.tiers.clone(), tests: self.tests.clone() }
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
