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
    /// The joint test of several repositories, run in the directory that holds them; without it, each is tested on its
    /// own.
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
    /// The agent that resolves conflicts; else a person does.
    pub resolver: Option<ResolverSettings>,
    /// The approved tests of entries; other tests wait for approval.
    pub approved_tests: BTreeSet<String>,
    /// How conflicts are resolved automatically.
    pub tiers: TierOptions,
    /// What happens to a conflict resolved in a file that no test covers.
    pub untested_files: UntestedFiles,
}

impl QueueSettings {
    /// Whether all tests of an entry may run.
    pub(crate) fn may_test(&self, entry: &QueueEntry) -> bool {
        self.tests.always.is_some() || entry.tests.iter().all(|test| self.approved_tests.contains(&test.command))
    }

    /// The same, also approving the tests as redacted entries have them.
    pub(super) fn approving_without_secrets(mut self, redactor: &Redactor) -> Self {
        let clean: Vec<String> =
            self.approved_tests.iter().map(|command| without_secret_values(command, redactor)).collect();
        self.approved_tests.extend(clean);
        self
    }

    /// The tests of an entry alone. Without any it lands unverified.
    pub fn tests_of(&self, entry: &QueueEntry) -> Vec<EntryTest> {
        match entry.together {
            Some(_) => self.joint_tests().of([entry]),
            None => self.tests.of([entry]),
        }
    }

    /// The tests of a joint landing.
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
    /// Its name; `None` for the runs' agent.
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
