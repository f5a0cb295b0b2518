//! Work that waits for a person's decision, and the message about it.

use std::path::PathBuf;

use pleach_core::ids::{BranchName, TaskId};
use pleach_core::merge::RefusalReason;

/// Work that waits to land or to start.
#[derive(Debug)]
pub struct Refusal {
    /// The task or phase.
    pub task: TaskId,
    /// It is finished; otherwise it could not start.
    pub finished: bool,
    /// The branch with its work.
    pub branch: BranchName,
    /// Why it waits.
    pub code: RefusalCode,
    /// The reason in words, and how to continue.
    pub why: String,
    /// Another tree that must be run first.
    pub first: Option<First>,
}

impl Refusal {
    pub(super) fn new(task: TaskId, finished: bool, branch: BranchName, code: RefusalCode, why: String) -> Self {
        Self { task, finished, branch, code, why, first: None }
    }
}

/// Why work waits. Codes are an interface (`docs/codes.md`): they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCode {
    /// The branch it would land on is gone.
    TargetGone,
    /// It conflicts with its target.
    Conflict,
    /// The content of an object it needs does not match its id.
    Overwritten,
    /// Its tests have to run again, and it has none now.
    NoTests,
    /// It cannot be tested where it would land.
    Untestable,
    /// The branch cannot move: a checkout or another git process is in the way.
    Held,
    /// No task or phase of the tree lands it any more.
    Stray,
    /// Another tree uses the branch.
    Taken,
    /// The branch is unreadable.
    Unreadable,
    /// The branch must be restarted, but is checked out.
    CheckedOut,
    /// The branch of its phase lacks a dependency.
    Lacking,
    /// A person has to let it land.
    Unapproved,
    /// The tests fail on its target without it as well.
    TargetRed,
}

impl RefusalCode {
    /// Every code with its meaning.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::TargetGone, "the branch it would land on is gone"),
        (Self::Conflict, "it conflicts with its target"),
        (Self::Overwritten, "an object it needs is not what its id says"),
        (Self::NoTests, "its tests have to run again, and it has none now"),
        (Self::Untestable, "it cannot be tested where it would land"),
        (Self::Held, "the branch cannot move: a checkout or another git is in the way"),
        (Self::Stray, "nothing of the tree lands it any more"),
        (Self::Taken, "another tree uses the branch"),
        (Self::Unreadable, "the branch cannot be read"),
        (Self::CheckedOut, "the branch has to be restarted, and a checkout has it"),
        (Self::Lacking, "the branch of its phase lacks something it needs"),
        (Self::Unapproved, "a person has to let it land"),
        (Self::TargetRed, "the tests fail on its target without it as well"),
    ];

    /// The code in its written form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TargetGone => "target-gone",
            Self::Conflict => "conflict",
            Self::Overwritten => "overwritten",
            Self::NoTests => "no-tests",
            Self::Untestable => "untestable",
            Self::Held => "held",
            Self::Stray => "stray",
            Self::Taken => "taken",
            Self::Unreadable => "unreadable",
            Self::CheckedOut => "checked-out",
            Self::Lacking => "lacking",
            Self::Unapproved => "unapproved",
            Self::TargetRed => "target-red",
        }
    }

    /// The code of a refused landing.
    pub(super) fn of(why: &RefusalReason) -> Self {
        match why {
            RefusalReason::Gone => Self::TargetGone,
            RefusalReason::Conflict(_) => Self::Conflict,
            RefusalReason::Overwritten(_) => Self::Overwritten,
            RefusalReason::NoTests => Self::NoTests,
            RefusalReason::Untestable(_) => Self::Untestable,
            RefusalReason::Held(_) => Self::Held,
        }
    }
}

/// A tree that must be run before another.
#[derive(Debug)]
pub struct First {
    /// Its file.
    pub file: PathBuf,
    /// Its phases have their own branches.
    pub gathers: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_codes_lists_why_work_waits() {
        let page = include_str!("../../../../docs/codes.md");
        for (code, meaning) in RefusalCode::ALL {
            let row = format!("| `{}` | {meaning} |", code.as_str());
            assert!(page.contains(&row), "docs/codes.md lacks `{row}`");
        }
    }
}
