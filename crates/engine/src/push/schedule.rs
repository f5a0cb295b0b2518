//! When which refs of a repository are pushed, decided: only values, the time included.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::backlog::{Backlog, Transition};
use super::names::RemoteNames;
use crate::env::RefPolicies;
use git::record::SESSIONS;
use pleach_core::config::PushPolicy;
use pleach_core::ids::CommitId;

/// The shortest and the longest time until a failed push is tried again.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushOccasion {
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
    here: Backlog,
    /// Where they are at the remote, by their names here.
    pub there: BTreeMap<String, CommitId>,
    /// Other commits the remote has.
    pub known: BTreeSet<CommitId>,
    /// What the remote calls them.
    pub names: RemoteNames,
    /// What came with this transition, or after it, waits: another remote lacks commits its records speak of.
    held_from: Option<Transition>,
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
            here: Backlog::default(),
            there: BTreeMap::new(),
            known: BTreeSet::new(),
            names: RemoteNames::default(),
            held_from: None,
            last_start: None,
            failures: 0,
            not_before: None,
            last_tries: 1,
        }
    }

    /// Whether nothing was noted of a ref yet.
    pub fn is_new(&self, name: &str) -> bool {
        self.here.is_new(name)
    }

    /// A ref is at this commit from this transition on.
    pub fn note(&mut self, name: String, commit: CommitId, transition: Transition) {
        let is_there = self.known.contains(&commit) || self.there.values().any(|there| *there == commit);
        self.here.note(name, commit, transition, is_there);
    }

    /// The first transition with a commit that others expect at the remote, and that it lacks.
    pub fn lacks_since(&self) -> Option<Transition> {
        match self.policies.branches {
            PushPolicy::OnCheckpoint => self.here.lacks_since(),
            // While the session runs nobody expects them there.
            PushPolicy::Never | PushPolicy::OnCompletion => None,
        }
    }

    /// Lets what came with this transition, or after it, wait. Without records nothing has to.
    pub fn hold_back(&mut self, from: Option<Transition>) {
        self.held_from = from.filter(|_| self.policies.records != PushPolicy::Never);
    }

    /// Whether something waits that could be pushed otherwise.
    pub fn is_held_back(&self) -> bool {
        self.allowed(None) != self.allowed(self.held_from)
    }

    /// Whether records would be pushed, waiting or not.
    pub fn has_records(&self) -> bool {
        self.allowed(None).keys().any(|name| name.starts_with(SESSIONS))
    }

    /// The session ends: what the policy allows is pushed at once, and what fails is not tried again.
    pub fn end(&mut self, occasion: PushOccasion) {
        self.occasion = occasion;
    }

    /// The refs the remote lacks and may have, by their names here.
    pub fn pending(&self) -> BTreeMap<String, CommitId> {
        self.allowed(self.held_from)
    }

    /// What the policy allows of the refs as they were before a transition.
    fn allowed(&self, before: Option<Transition>) -> BTreeMap<String, CommitId> {
        let is_pending = |(name, commit): &(&String, CommitId)| {
            let policy = if name.starts_with(SESSIONS) { self.policies.records } else { self.policies.branches };
            let is_allowed = match policy {
                PushPolicy::Never => false,
                PushPolicy::OnCompletion => self.occasion == PushOccasion::Completed,
                PushPolicy::OnCheckpoint => true,
            };
            is_allowed && self.there.get(*name) != Some(commit)
        };
        self.here.at(before).filter(is_pending).map(|(name, commit)| (name.clone(), commit)).collect()
    }

    /// When the next push may start; none if there is nothing to push, or no push is left to try.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.next_start(now).filter(|_| !self.pending().is_empty())
    }

    /// Whether a push is due, also of what waits.
    pub fn is_wanted(&self, now: Instant) -> bool {
        self.next_start(now).is_some_and(|start| start <= now) && !self.allowed(None).is_empty()
    }

    fn next_start(&self, now: Instant) -> Option<Instant> {
        if self.occasion != PushOccasion::Running {
            return (self.last_tries > 0).then_some(now);
        }
        let spaced = self.last_start.map_or(now, |last| last + self.interval);
        Some(spaced.max(self.not_before.unwrap_or(now)))
    }

    /// Lets what is pending be pushed at once, whatever the interval. Returns whether there is anything, waiting or not,
    /// and no failure that is waited for.
    pub fn hurry(&mut self) -> bool {
        let may_start = match self.occasion {
            PushOccasion::Running => self.not_before.is_none(),
            PushOccasion::Completed | PushOccasion::Stopped => self.last_tries > 0,
        };
        let is_wanted = may_start && !self.allowed(None).is_empty();
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
        pushed.iter().for_each(|(name, commit)| self.here.pushed(name, *commit));
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
        schedule.note(BRANCH.into(), commit(1), 1);
        schedule.note(RECORD.into(), commit(2), 1);
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
        schedule.note(RECORD.into(), commit(3), 2);
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

    /// What a repository with records may push, given what the remotes of others lack.
    fn pushed(records: &mut PushSchedule, others: &[&PushSchedule]) -> Vec<(String, CommitId)> {
        records.hold_back(others.iter().filter_map(|other| other.lacks_since()).min());
        let pushed = records.pending();
        records.succeeded(pushed.clone());
        pushed.into_iter().collect()
    }

    fn empty(policy: PushPolicy) -> PushSchedule {
        let policies = RefPolicies { branches: policy, records: policy };
        PushSchedule::new(policies, Duration::from_secs(10))
    }

    #[test]
    fn records_go_as_far_as_other_remotes_have_their_commits() {
        let [mut app, mut web] = [PushPolicy::OnCheckpoint; 2].map(empty);
        web.known.insert(commit(50));
        app.note(RECORD.into(), commit(1), 1);
        web.note(BRANCH.into(), commit(50), 1);
        assert_eq!(pushed(&mut app, &[&web]), [(RECORD.to_owned(), commit(1))], "what it names was there before");
        // A turn in both repositories, then two records that name nothing new.
        for (transition, record) in [(2, 2), (3, 3), (4, 4)] {
            app.note(RECORD.into(), commit(record), transition);
        }
        app.note(BRANCH.into(), commit(20), 3);
        web.note(BRANCH.into(), commit(51), 3);
        assert_eq!(pushed(&mut app, &[&web]), [(RECORD.to_owned(), commit(2))]);
        assert!(app.is_held_back() && app.has_records());
        assert_eq!(pushed(&mut app, &[&web]), [], "the others fail, so nothing more");
        let now = Instant::now();
        assert_eq!((app.due(now), app.is_wanted(now)), (None, true));
        // While its commit is pushed, the next turn is recorded.
        let under_way = web.pending();
        app.note(RECORD.into(), commit(5), 5);
        web.note(BRANCH.into(), commit(52), 5);
        web.succeeded(under_way);
        let all = [(BRANCH.to_owned(), commit(20)), (RECORD.to_owned(), commit(4))];
        assert_eq!(pushed(&mut app, &[&web]), all);
        web.succeeded(web.pending());
        assert_eq!(pushed(&mut app, &[&web]), [(RECORD.to_owned(), commit(5))]);
        assert!(!app.is_held_back());
    }

    #[test]
    fn only_remotes_that_get_every_checkpoint_are_waited_for() {
        use PushPolicy::{Never, OnCheckpoint, OnCompletion};
        for (policy, since) in [(OnCheckpoint, Some(1)), (OnCompletion, None), (Never, None)] {
            let mut other = empty(policy);
            other.note(BRANCH.into(), commit(1), 1);
            assert_eq!(other.lacks_since(), since, "{policy}");
        }
        // Branches that go without records wait for nobody.
        let mut schedule = schedule(OnCheckpoint, Never, 10);
        schedule.hold_back(Some(1));
        assert_eq!((names(&schedule), schedule.is_held_back()), (vec![BRANCH.to_owned()], false));
    }
}
