//! Whether another attempt follows.

use std::collections::BTreeSet;
use std::fmt;

use super::Limits;
use crate::ids::CommitId;

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The tree it started from.
    pub before: CommitId,
    /// The tree it left.
    pub after: CommitId,
    /// What it failed of.
    pub failure: Failure,
}

/// What an attempt failed of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
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
pub enum Reason {
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

impl fmt::Display for Reason {
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
pub enum After {
    /// The next attempt.
    Again,
    /// The task is given up.
    GiveUp(Reason),
}

/// What follows the attempts of a budget so far, `in_budget` of which had a result. `ended` are those whose trees are
/// known, oldest first: where a record is lost, fewer than there were.
pub fn after(in_budget: u32, ended: &[Ended], limits: &Limits) -> After {
    if in_budget >= limits.max_retries {
        return After::GiveUp(Reason::OutOfAttempts);
    }
    let [.., earlier, last] = ended else { return After::Again };
    let idle = |attempt: &Ended| attempt.before == attempt.after;
    let same_tests = matches!(last.failure, Failure::Tests(_)) && earlier.failure == last.failure;
    if !limits.early_stop {
        After::Again
    } else if same_tests && earlier.after == last.after {
        After::GiveUp(Reason::SameFailures)
    } else if idle(earlier) && idle(last) {
        let broke_off = |attempt: &Ended| matches!(attempt.failure, Failure::Agent | Failure::Outside);
        match [broke_off(earlier), broke_off(last)] {
            [true, true] if earlier.failure == Failure::Agent && last.failure == Failure::Agent => {
                After::GiveUp(Reason::NothingDone)
            }
            [true, true] => After::GiveUp(Reason::BrokeOff),
            [false, false] => After::GiveUp(Reason::NothingChanged),
            // Who failed would have changed something, perhaps.
            _ => After::Again,
        }
    } else {
        After::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(before: u8, after: u8, failure: Failure) -> Ended {
        let tree = |byte| CommitId::from_bytes([byte; 20]);
        Ended { before: tree(before), after: tree(after), failure }
    }

    fn tests(names: &[&str]) -> Failure {
        Failure::Tests(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn check(attempts: &[Ended], expected: After) {
        let in_budget = u32::try_from(attempts.len()).unwrap();
        assert_eq!(after(in_budget, attempts, &Limits::default()), expected, "{attempts:?}");
        let patient = Limits { early_stop: false, ..Limits::default() };
        assert_eq!(after(in_budget, attempts, &patient), After::Again, "no early stop: {attempts:?}");
    }

    #[test]
    fn two_attempts_that_change_nothing_end_the_task() {
        let idle = ended(1, 1, Failure::Other);
        check(&[idle.clone(), idle.clone()], After::GiveUp(Reason::NothingChanged));
        check(std::slice::from_ref(&idle), After::Again);
        check(&[idle.clone(), ended(1, 2, Failure::Other)], After::Again);
        check(&[idle.clone(), ended(1, 2, Failure::Other), ended(2, 2, Failure::Other)], After::Again);
        check(&[ended(0, 1, Failure::Other), idle.clone(), idle.clone()], After::GiveUp(Reason::NothingChanged));
        let failed = ended(1, 1, Failure::Agent);
        check(&[failed.clone(), failed.clone()], After::GiveUp(Reason::NothingDone));
        check(&[failed.clone(), idle.clone()], After::Again);
        check(&[idle.clone(), failed.clone()], After::Again);
        let outside = ended(1, 1, Failure::Outside);
        check(&[outside.clone(), outside.clone()], After::GiveUp(Reason::BrokeOff));
        check(&[outside.clone(), failed.clone()], After::GiveUp(Reason::BrokeOff));
        check(&[failed, outside.clone()], After::GiveUp(Reason::BrokeOff));
        check(&[idle, outside.clone()], After::Again);
        check(&[outside, ended(1, 2, Failure::Outside)], After::Again);
    }

    #[test]
    fn two_failures_of_the_same_tests_on_the_same_tree_end_the_task() {
        let first = ended(1, 2, tests(&["a", "b"]));
        check(&[first.clone(), ended(2, 2, tests(&["b", "a"]))], After::GiveUp(Reason::SameFailures));
        check(&[first.clone(), ended(2, 2, tests(&["a"]))], After::Again);
        check(&[first.clone(), ended(2, 3, tests(&["a", "b"]))], After::Again);
        check(&[first.clone(), ended(2, 2, Failure::Other)], After::Again);
        check(&[ended(1, 2, tests(&[])), ended(2, 2, tests(&[]))], After::GiveUp(Reason::SameFailures));
        check(&[ended(1, 2, Failure::Other), ended(2, 2, Failure::Other)], After::Again);
    }

    #[test]
    fn a_used_up_budget_ends_the_task_whatever_is_known_of_it() {
        let limits = Limits { max_retries: 3, early_stop: false, ..Limits::default() };
        assert_eq!(after(2, &[], &limits), After::Again);
        assert_eq!(after(3, &[], &limits), After::GiveUp(Reason::OutOfAttempts));
        assert_eq!(after(4, &[ended(1, 2, Failure::Other)], &limits), After::GiveUp(Reason::OutOfAttempts));
    }
}
