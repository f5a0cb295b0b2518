//! The rules of fan-outs and fan-ins.

use serde::{Deserialize, Serialize};

/// Branches that run at once where a fan-out sets no `max_parallel`.
pub const DEFAULT_MAX_PARALLEL: usize = 4;

/// The share of branches a `quorum` needs where the fan-out sets no `quorum_percent`: more than half.
pub(crate) const DEFAULT_QUORUM_PERCENT: u32 = 51;

/// When a fan-out is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinPolicy {
    /// When every branch has ended.
    WaitAll,
    /// When one branch has succeeded.
    FirstSuccess,
    /// When so many branches have succeeded.
    KOfN(u32),
    /// When this percentage of the branches has succeeded.
    Quorum(u32),
}

impl JoinPolicy {
    /// The words `join_policy` takes.
    pub const WORDS: [&str; 4] = ["wait_all", "first_success", "k_of_n", "quorum"];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitAll => Self::WORDS[0],
            Self::FirstSuccess => Self::WORDS[1],
            Self::KOfN(_) => Self::WORDS[2],
            Self::Quorum(_) => Self::WORDS[3],
        }
    }

    /// How many of `branches` must succeed; none where all of them are waited for.
    pub fn needed(self, branches: usize) -> Option<usize> {
        match self {
            Self::WaitAll => None,
            Self::FirstSuccess => Some(1),
            Self::KOfN(k) => Some(k as usize),
            Self::Quorum(percent) => Some((branches * percent as usize).div_ceil(100).max(1)),
        }
    }
}

/// What a failed branch means for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// The others go on, and the failure counts.
    #[default]
    Continue,
    /// The others are stopped, and the fan-out fails.
    FailFast,
    /// The others go on, and the failure does not count.
    Ignore,
}

impl ErrorPolicy {
    /// The words `error_policy` takes.
    pub const WORDS: [&str; 3] = ["continue", "fail_fast", "ignore"];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The policy a word names.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Continue, Self::FailFast, Self::Ignore].into_iter().find(|policy| policy.as_str() == word)
    }
}

/// How a fan-out runs its branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FanOutRules {
    /// When it is over.
    pub join: JoinPolicy,
    /// What a failed branch means for the others.
    pub errors: ErrorPolicy,
    /// How many branches run at once.
    pub max_parallel: usize,
}

/// Which branches a fan-in brings together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanInPolicy {
    /// Every branch that succeeded.
    #[default]
    Merge,
    /// The best one.
    Pick,
    /// The one its agent chooses.
    Judge,
}

impl FanInPolicy {
    /// The words `fan_in.policy` takes.
    pub const WORDS: [&str; 3] = ["merge", "pick", "judge"];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The policy a word names.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Merge, Self::Pick, Self::Judge].into_iter().find(|policy| policy.as_str() == word)
    }
}

/// How a fan-in brings branches together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FanInRules {
    /// Which ones.
    pub policy: FanInPolicy,
    /// A command that must succeed on the merged files.
    pub gate: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_say_how_many_branches_must_succeed() {
        assert_eq!(JoinPolicy::WaitAll.needed(3), None);
        assert_eq!(JoinPolicy::FirstSuccess.needed(3), Some(1));
        assert_eq!(JoinPolicy::KOfN(2).needed(3), Some(2));
        let quorum = |percent, branches| JoinPolicy::Quorum(percent).needed(branches);
        assert_eq!(
            [quorum(51, 3), quorum(51, 4), quorum(50, 4), quorum(100, 4), quorum(0, 4)],
            [2, 3, 2, 4, 1].map(Some)
        );
    }
}
