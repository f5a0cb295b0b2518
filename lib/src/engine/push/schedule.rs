//! When which refs of a repository are pushed, decided: only values, the time included.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::settings::RefPolicies;
use crate::config::PushPolicy;
use crate::git::remote::PushRef;
use crate::ids::{CommitId, ContextId, SessionId};
use crate::record::SESSIONS;

/// The shortest and the longest time until a failed push is tried again.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The prefix of branches that hold records where a remote refuses their refs.
const RECORD_BRANCHES: &str = "refs/heads/pleach/records/";

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum PushOccasion {
    /// It runs.
    Running,
    /// It has reached its exit.
    Completed,
    /// It stops for any other reason.
    Stopped,
}

/// The refs of one repository, what its remote has of them, and when they are due.
#[derive(Debug)]
pub(super) struct PushSchedule {
    policies: RefPolicies,
    interval: Duration,
    pub occasion: PushOccasion,
    /// Where the refs are here.
    here: BTreeMap<String, CommitId>,
    /// Where they are at the remote, by their names here.
    pub there: BTreeMap<String, CommitId>,
    /// Record refs are branches at the remote.
    pub as_branches: bool,
    last_start: Option<Instant>,
    failures: u32,
    not_before: Option<Instant>,
    /// How often something may still be tried once the session has ended.
    last_tries: u32,
}

impl PushSchedule {
    pub fn new(policies: RefPolicies, interval: Duration) -> Self {
        Self {
            policies,
            interval,
            occasion: PushOccasion::Running,
            here: BTreeMap::new(),
            there: BTreeMap::new(),
            as_branches: false,
            last_start: None,
            failures: 0,
            not_before: None,
            last_tries: 1,
        }
    }

    /// A ref is at this commit now.
    pub fn note(&mut self, name: String, commit: CommitId) {
        self.here.insert(name, commit);
    }

    /// The session ends: what the policy allows is pushed at once, and what fails is not tried again.
    pub fn end(&mut self, occasion: PushOccasion) {
        self.occasion = occasion;
    }

    /// The refs the remote lacks and may have, by their names here.
    pub fn pending(&self) -> BTreeMap<String, CommitId> {
        let is_pending = |(name, commit): &(&String, &CommitId)| {
            let policy = if name.starts_with(SESSIONS) { self.policies.records } else { self.policies.branches };
            let is_allowed = match policy {
                PushPolicy::Never => false,
                PushPolicy::OnCompletion => self.occasion == PushOccasion::Completed,
                PushPolicy::OnCheckpoint => true,
            };
            is_allowed && self.there.get(*name) != Some(commit)
        };
        self.here.iter().filter(is_pending).map(|(name, commit)| (name.clone(), *commit)).collect()
    }

    /// When the next push may start; none if there is nothing to push, or no push is left to try.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        if self.pending().is_empty() {
            return None;
        }
        if self.occasion != PushOccasion::Running {
            return (self.last_tries > 0).then_some(now);
        }
        let spaced = self.last_start.map_or(now, |last| last + self.interval);
        Some(spaced.max(self.not_before.unwrap_or(now)))
    }

    /// Lets what is pending be pushed at once, whatever the interval. Returns whether there is anything, and no failure
    /// that is waited for.
    pub fn hurry(&mut self) -> bool {
        let is_wanted = !self.pending().is_empty() && self.not_before.is_none();
        if is_wanted {
            self.last_start = None;
        }
        is_wanted
    }

    pub fn started(&mut self, now: Instant) {
        self.last_start = Some(now);
        if self.occasion != PushOccasion::Running {
            self.last_tries = self.last_tries.saturating_sub(1);
        }
    }

    /// The remote has these refs now.
    pub fn succeeded(&mut self, pushed: BTreeMap<String, CommitId>) {
        self.there.extend(pushed);
        (self.failures, self.not_before) = (0, None);
        self.last_tries = 1;
    }

    /// Nothing was pushed. Returns how long to wait until it is tried again; none if it is not.
    pub fn failed(&mut self, now: Instant) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        let first = self.interval.clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let wait = first.saturating_mul(1 << (self.failures - 1).min(16)).min(LONGEST_WAIT);
        self.not_before = Some(now + wait);
        (self.occasion == PushOccasion::Running).then_some(wait)
    }

    /// The remote does not answer at all, so that trying once more would only take time.
    pub fn give_up(&mut self) {
        self.last_tries = 0;
    }

    /// Refs as the remote names them.
    pub fn named(&self, session: &SessionId, refs: &BTreeMap<String, CommitId>) -> Vec<PushRef> {
        let name = |name: &String| match self.as_branches {
            true => record_branch(session, name).unwrap_or_else(|| name.clone()),
            false => name.clone(),
        };
        refs.iter().map(|(here, commit)| PushRef { name: name(here), commit: *commit }).collect()
    }
}

/// The branch that holds a chain of records where a remote refuses its ref. None for other refs.
fn record_branch(session: &SessionId, name: &str) -> Option<String> {
    let context: ContextId =
        name.strip_prefix(SESSIONS)?.strip_prefix(session.as_str())?.strip_prefix('/')?.parse().ok()?;
    Some(format!("{RECORD_BRANCHES}{session}--{context}"))
}

/// Whether a ref of a remote holds records of a session.
pub(super) fn holds_records(session: &SessionId, name: &str) -> bool {
    name.starts_with(&format!("{SESSIONS}{session}/")) || name.starts_with(&format!("{RECORD_BRANCHES}{session}--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRANCH: &str = "refs/heads/pleach/p/abcdefgh";
    const RECORD: &str = "refs/pleach/sessions/abcdefgh/main";

    fn commit(number: u8) -> CommitId {
        CommitId::from_bytes([number; 20])
    }

    fn schedule(branches: PushPolicy, records: PushPolicy, seconds: u64) -> PushSchedule {
        let mut schedule = PushSchedule::new(RefPolicies { branches, records }, Duration::from_secs(seconds));
        schedule.note(BRANCH.into(), commit(1));
        schedule.note(RECORD.into(), commit(2));
        schedule
    }

    fn names(schedule: &PushSchedule) -> Vec<String> {
        schedule.pending().into_keys().collect()
    }

    #[test]
    fn policies_say_what_is_pushed_when() {
        use PushOccasion::{Completed, Running, Stopped};
        use PushPolicy::{Never, OnCheckpoint, OnCompletion};
        for (branches, records, occasion, pushed) in [
            (OnCheckpoint, OnCheckpoint, Running, vec![BRANCH, RECORD]),
            (OnCheckpoint, Never, Running, vec![BRANCH]),
            (OnCompletion, OnCompletion, Running, vec![]),
            (OnCompletion, OnCompletion, Stopped, vec![]),
            (OnCompletion, OnCompletion, Completed, vec![BRANCH, RECORD]),
            (OnCheckpoint, OnCheckpoint, Stopped, vec![BRANCH, RECORD]),
            (Never, OnCheckpoint, Running, vec![RECORD]),
            (Never, Never, Completed, vec![]),
        ] {
            let mut schedule = schedule(branches, records, 10);
            schedule.end(occasion);
            assert_eq!(names(&schedule), pushed, "{branches} {records} {occasion:?}");
            assert_eq!(schedule.due(Instant::now()).is_some(), !pushed.is_empty());
        }
    }

    #[test]
    fn pushes_are_spaced_and_nothing_is_pushed_twice() {
        let mut schedule = schedule(PushPolicy::OnCheckpoint, PushPolicy::OnCheckpoint, 10);
        let now = Instant::now();
        assert_eq!(schedule.due(now), Some(now));
        schedule.started(now);
        let pushed = schedule.pending();
        schedule.note(RECORD.into(), commit(3));
        schedule.succeeded(pushed);
        assert_eq!(names(&schedule), [RECORD], "only what is new");
        assert_eq!(schedule.due(now), Some(now + Duration::from_secs(10)));
        schedule.end(PushOccasion::Stopped);
        assert_eq!(schedule.due(now), Some(now), "the end does not wait");
        schedule.succeeded(schedule.pending());
        assert_eq!(schedule.due(now), None);
    }

    #[test]
    fn failures_are_tried_again_ever_later_then_once_more() {
        let mut schedule = schedule(PushPolicy::OnCheckpoint, PushPolicy::OnCheckpoint, 0);
        let now = Instant::now();
        let waits: Vec<u64> = (0..12).filter_map(|_| schedule.failed(now)).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(schedule.due(now), Some(now + LONGEST_WAIT));
        schedule.end(PushOccasion::Stopped);
        assert_eq!(schedule.due(now), Some(now));
        schedule.started(now);
        assert_eq!(schedule.failed(now), None);
        assert_eq!(schedule.due(now), None);
    }

    #[test]
    fn records_become_branches_where_their_refs_are_refused() {
        let mut schedule = schedule(PushPolicy::OnCheckpoint, PushPolicy::OnCheckpoint, 0);
        schedule.as_branches = true;
        let session: SessionId = "abcdefgh".parse().expect("an id");
        let named = schedule.named(&session, &schedule.pending());
        let names: Vec<&str> = named.iter().map(|pushed| pushed.name.as_str()).collect();
        assert_eq!(names, [BRANCH, "refs/heads/pleach/records/abcdefgh--main"]);
        assert!(named.iter().map(|pushed| holds_records(&session, &pushed.name)).eq([false, true]));
        assert!(holds_records(&session, RECORD));
    }
}
