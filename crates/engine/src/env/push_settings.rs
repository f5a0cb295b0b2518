//! What is pushed where, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use git::remote::RemoteUrl;
use pleach_core::config::{PushPolicy, RecordPush};
use pleach_core::ids::RepoName;

/// How sessions are pushed.
#[derive(Debug, Clone)]
pub struct PushSettings {
    /// The least time between the starts of two pushes to a remote.
    pub interval: Duration,
    /// Whether records are pushed.
    pub records: RecordPush,
    /// The repositories that have settings of their own; the others are not pushed.
    pub repos: BTreeMap<RepoName, RepoPush>,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self { interval: Duration::ZERO, records: RecordPush::Auto, repos: BTreeMap::new() }
    }
}

/// How one repository is pushed.
#[derive(Debug, Clone)]
pub struct RepoPush {
    /// Where to; for records alone, the remote people push to is used if none is given.
    pub remote: Option<RemoteUrl>,
    /// When its branches are pushed.
    pub policy: PushPolicy,
}

/// When the refs of a repository are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefPolicies {
    pub branches: PushPolicy,
    pub records: PushPolicy,
}

impl PushSettings {
    /// When the branches and the records of a repository are pushed.
    pub(crate) fn policies(&self, repo: &RepoName, holds_records: bool) -> RefPolicies {
        let branches = self.repos.get(repo).map_or(PushPolicy::Never, |repo| repo.policy);
        let records = match (self.records, branches) {
            _ if !holds_records => PushPolicy::Never,
            (RecordPush::Never, _) => PushPolicy::Never,
            // There is no policy to follow, so they are pushed as they are written.
            (RecordPush::Always, PushPolicy::Never) => PushPolicy::OnCheckpoint,
            (RecordPush::Auto | RecordPush::Always, branches) => branches,
        };
        RefPolicies { branches, records }
    }
}

impl RefPolicies {
    /// Whether nothing is ever pushed.
    pub fn is_never(self) -> bool {
        self.branches == PushPolicy::Never && self.records == PushPolicy::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_the_branches_unless_told_otherwise() {
        use PushPolicy::{Never, OnCheckpoint, OnCompletion};
        let repo = RepoName::new("repo").expect("a name");
        let record_policy = |records, policy| {
            let repos = [(repo.clone(), RepoPush { remote: None, policy })].into();
            let settings = PushSettings { records, repos, ..PushSettings::default() };
            assert_eq!(settings.policies(&repo, false).records, Never, "other repositories have no records");
            settings.policies(&repo, true).records
        };
        for policy in [Never, OnCompletion, OnCheckpoint] {
            assert_eq!(record_policy(RecordPush::Auto, policy), policy);
            assert_eq!(record_policy(RecordPush::Never, policy), Never);
        }
        assert_eq!(record_policy(RecordPush::Always, OnCompletion), OnCompletion);
        assert_eq!(record_policy(RecordPush::Always, Never), OnCheckpoint);
        assert!(PushSettings::default().policies(&repo, true).is_never());
    }
}
