//! Whether another attempt follows.

use std::collections::BTreeSet;
use std::fmt;

use super::ScheduleOptions;
use crate::ids::CommitId;

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedAttempt {
    /// The tree it started from.
    pub before: CommitId,
    /// The tree it left.
    pub after: CommitId,
    /// What it failed of.
    pub failure: AttemptFailure,
}

/// What an attempt failed of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptFailure {
    /// Tests, by name; without a name where none could be read.
    Tests(BTreeSet<String>),
    /// The agent that was to do the work has failed itself.
    Agent,
    /// No step of it: a node that has none.
    Outside,
    /// Anything else: the reviewer, a step of the pipeline's own.
    Other,
}

/// Why a task gets no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The budget is used up.
    OutOfAttempts,
    /// Two attempts in a row changed nothing.
    NothingChanged,
    /// In two attempts in a row the agent failed, and changed nothing.
    NothingDone,
    /// Two attempts in a row broke off, outside of their steps or at the agent, and changed nothing.
    BrokeOff,
    /// Two attempts in a row failed the same tests on the same tree.
    SameFailures,
}

impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OutOfAttempts => "All attempts of the budget failed.",
            Self::NothingChanged => "Stopped early: two attempts in a row changed nothing.",
            Self::NothingDone => "Stopped early: in two attempts in a row the agent failed and left nothing.",
            Self::BrokeOff => "Stopped early: two attempts in a row broke off and left nothing.",
            Self::SameFailures => "Stopped early: two attempts in a row failed the same tests on the same files.",
        })
    }
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// The next attempt.
    Again,
    /// The task is given up.
    GiveUp(GiveUpReason),
}

/// What follows the attempts of a budget so far, `in_budget` of which had a result. `ended` are those whose trees are
/// known, oldest first: where a record is lost, fewer than there were.
pub fn after(in_budget: u32, ended: &[EndedAttempt], limits: &ScheduleOptions) -> AfterFailure {
    if in_budget >= limits.max_retries {
        return AfterFailure::GiveUp(GiveUpReason::OutOfAttempts);
    }
    let [.., earlier, last] = ended else { return AfterFailure::Again };
    let idle = |attempt: &EndedAttempt| attempt.before == attempt.after;
    let same_tests = matches!(last.failure, AttemptFailure::Tests(_)) && earlier.failure == last.failure;
    if !limits.early_stop {
        AfterFailure::Again
    } else if same_tests && earlier.after == last.after {
        AfterFailure::GiveUp(GiveUpReason::SameFailures)
    } else if idle(earlier) && idle(last) {
        let broke_off =
            |attempt: &EndedAttempt| matches!(attempt.failure, AttemptFailure::Agent | AttemptFailure::Outside);
        match [broke_off(earlier), broke_off(last)] {
            [true, true] if earlier.failure == AttemptFailure::Agent && last.failure == AttemptFailure::Agent => {
                AfterFailure::GiveUp(GiveUpReason::NothingDone)
            }
            [true, true] => AfterFailure::GiveUp(GiveUpReason::BrokeOff),
            [false, false] => AfterFailure::GiveUp(GiveUpReason::NothingChanged),
            // Who failed would have changed something, perhaps.
            _ => AfterFailure::Again,
        }
    } else {
        AfterFailure::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(before: u8, after: u8, failure: AttemptFailure) -> EndedAttempt {
        let tree = |byte| CommitId::from_bytes([byte; 20]);
        EndedAttempt { before: tree(before), after: tree(after), failure }
    }

    fn tests(names: &[&str]) -> AttemptFailure {
        AttemptFailure::Tests(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn check(attempts: &[EndedAttempt], expected: AfterFailure) {
        let in_budget = u32::try_from(attempts.len()).unwrap();
        assert_eq!(after(in_budget, attempts, &ScheduleOptions::default()), expected, "{attempts:?}");
        let patient = ScheduleOptions { early_stop: false, ..ScheduleOptions::default() };
        assert_eq!(after(in_budget, attempts, &patient), AfterFailure::Again, "no early stop: {attempts:?}");
    }

    #[test]
    fn two_attempts_that_change_nothing_end_the_task() {
        let idle = ended(1, 1, AttemptFailure::Other);
        check(&[idle.clone(), idle.clone()], AfterFailure::GiveUp(GiveUpReason::NothingChanged));
        check(std::slice::from_ref(&idle), AfterFailure::Again);
        check(&[idle.clone(), ended(1, 2, AttemptFailure::Other)], AfterFailure::Again);
        check(
            &[idle.clone(), ended(1, 2, AttemptFailure::Other), ended(2, 2, AttemptFailure::Other)],
            AfterFailure::Again,
        );
        check(
            &[ended(0, 1, AttemptFailure::Other), idle.clone(), idle.clone()],
            AfterFailure::GiveUp(GiveUpReason::NothingChanged),
        );
        let failed = ended(1, 1, AttemptFailure::Agent);
        check(&[failed.clone(), failed.clone()], AfterFailure::GiveUp(GiveUpReason::NothingDone));
        check(&[failed.clone(), idle.clone()], AfterFailure::Again);
        check(&[idle.clone(), failed.clone()], AfterFailure::Again);
        let outside = ended(1, 1, AttemptFailure::Outside);
        check(&[outside.clone(), outside.clone()], AfterFailure::GiveUp(GiveUpReason::BrokeOff));
        check(&[outside.clone(), failed.clone()], AfterFailure::GiveUp(GiveUpReason::BrokeOff));
        check(&[failed, outside.clone()], AfterFailure::GiveUp(GiveUpReason::BrokeOff));
        check(&[idle, outside.clone()], AfterFailure::Again);
        check(&[outside, ended(1, 2, AttemptFailure::Outside)], AfterFailure::Again);
    }

    #[test]
    fn the_same_failure_twice_on_a_tree_ends_the_task() {
        let first = ended(1, 2, tests(&["a", "b"]));
        check(&[first.clone(), ended(2, 2, tests(&["b", "a"]))], AfterFailure::GiveUp(GiveUpReason::SameFailures));
        check(&[first.clone(), ended(2, 2, tests(&["a"]))], AfterFailure::Again);
        check(&[first.clone(), ended(2, 3, tests(&["a", "b"]))], AfterFailure::Again);
        check(&[first.clone(), ended(2, 2, AttemptFailure::Other)], AfterFailure::Again);
        check(&[ended(1, 2, tests(&[])), ended(2, 2, tests(&[]))], AfterFailure::GiveUp(GiveUpReason::SameFailures));
        check(&[ended(1, 2, AttemptFailure::Other), ended(2, 2, AttemptFailure::Other)], AfterFailure::Again);
    }

    #[test]
    fn a_used_up_budget_ends_the_task() {
        let limits = ScheduleOptions { max_retries: 3, early_stop: false, ..ScheduleOptions::default() };
        assert_eq!(after(2, &[], &limits), AfterFailure::Again);
        assert_eq!(after(3, &[], &limits), AfterFailure::GiveUp(GiveUpReason::OutOfAttempts));
        assert_eq!(
            after(4, &[ended(1, 2, AttemptFailure::Other)], &limits),
            AfterFailure::GiveUp(GiveUpReason::OutOfAttempts)
        );
    }
}
