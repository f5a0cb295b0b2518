//! Work that waits because of something only a person can decide, and what is said of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Error;
use super::run::TreeRun;
use crate::ids::{BranchName, SessionId, TaskId};
use crate::merge::RefusalReason;
use crate::progress::{OpenBranch, OtherTreeState, OtherTreeWork, StepPlace, StrandedWork, UnreadableBranch};
use crate::record::History;
use crate::text::shell_word;
use crate::workspace::branch_ref;

/// Work that waits to land, or to begin.
#[derive(Debug)]
pub struct Refusal {
    /// The task or phase.
    pub task: TaskId,
    /// It is finished; else it could not begin.
    pub finished: bool,
    /// Where its work is.
    pub branch: BranchName,
    /// Why it did not.
    pub code: RefusalCode,
    /// The same in words, and how to go on.
    pub why: String,
    /// Another tree that is to be worked first.
    pub first: Option<First>,
}

impl Refusal {
    pub(super) fn new(task: TaskId, finished: bool, branch: BranchName, (code, why): (RefusalCode, String)) -> Self {
        Self { task, finished, branch, code, why, first: None }
    }
}

/// Why work waits. Codes are an interface (`docs/codes.md`): they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCode {
    /// The branch it would land on is gone.
    TargetGone,
    /// It does not fit to what is there.
    Conflict,
    /// An object it needs is not what its id says.
    Overwritten,
    /// Its tests have to run again, and it has none now.
    NoTests,
    /// It cannot be tested where it would land.
    Untestable,
    /// The branch cannot move: a checkout or another git is in the way.
    Held,
    /// Nothing of the tree lands it any more.
    Stray,
    /// Another tree has the branch.
    Taken,
    /// Nobody can read the branch.
    Unreadable,
    /// The branch is to begin anew, and a checkout has it.
    CheckedOut,
    /// The branch of its phase lacks something it needs.
    Lacking,
}

impl RefusalCode {
    /// Every code with its meaning.
    pub const ALL: [(Self, &'static str); 11] = [
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
    ];

    /// The code as it is written.
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
        }
    }

    /// Why a landing was refused.
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

/// A tree that is to be worked before another.
#[derive(Debug)]
pub struct First {
    /// Its file.
    pub file: PathBuf,
    /// It gathers its phases.
    pub gathers: bool,
}

impl TreeRun {
    /// Says that work waits which nothing of the tree lands: without its task or phase nothing can test it.
    pub(super) fn unsettled(&self, stray: StrandedWork) -> Result<Refusal, Error> {
        let StrandedWork { id, lacks, branch: OpenBranch { name: branch, place, .. }, tasks } = stray;
        let of_task = matches!(place, StepPlace::Task(_));
        let drop = self.dropped(&branch, self.progress.task(&id).session.clone().filter(|_| of_task), &tasks)?;
        let why = format!(
            "{id} {lacks}; merge it with `git merge {}`, or drop it with `{drop}`, and run again",
            shell_word(&branch)
        );
        Ok(Refusal::new(id, true, branch, (RefusalCode::Stray, why)))
    }

    /// Says that another tree has a branch this one needs: what is there is that tree's to finish.
    pub(super) fn taken(&self, taken: OtherTreeWork) -> Result<Refusal, Error> {
        let OtherTreeWork { branch: OpenBranch { name: branch, place, .. }, id: task, tree, stands, session, tasks } =
            taken;
        let has = match (&place, stands) {
            (StepPlace::Phase(_), _) => format!("has tasks of `{tree}` that are not merged"),
            (_, OtherTreeState::Waiting) => format!("has {task} of `{tree}`, which is finished and waits to land"),
            _ => format!("has {task} of `{tree}`, which is under way"),
        };
        let file = self.repo.workdir().map(|root| root.join(&tree)).filter(|file| file.is_file());
        let first = match &file {
            Some(_) => format!("resume `{tree}` first"),
            None => format!("restore `{tree}`, which is missing, and resume it first"),
        };
        let drop = self.dropped(&branch, session, &tasks)?;
        let why = format!("that branch {has}; {first}, or drop it with `{drop}`, and run again");
        let gathers = matches!(place, StepPlace::Phase(_));
        let first = file.map(|file| First { file, gathers });
        Ok(Refusal { first, ..Refusal::new(task, false, branch, (RefusalCode::Taken, why)) })
    }

    /// Says that nobody can read a branch: whether what it had is done again is for a person to decide.
    pub(super) fn unread(&self, unread: UnreadableBranch) -> Refusal {
        let why = format!("{}; then {}", unread.why, self.progress.remedy(&unread, &self.plan.tree));
        Refusal::new(unread.id, false, unread.branch.name, (RefusalCode::Unreadable, why))
    }

    /// The command that drops what is on a branch, with its session where there is one. What a phase's branch has of
    /// tasks is on their own branches too, and would land from there.
    fn dropped(&self, branch: &BranchName, session: Option<SessionId>, tasks: &[TaskId]) -> Result<String, Error> {
        if let Some(id) = session.filter(|id| History::newest(&self.repo, id).is_ok()) {
            return Ok(format!("pleach rm --force {id}"));
        }
        let mut command = format!("git branch -D {}", shell_word(branch));
        let Some(at) = self.repo.reference(&branch_ref(branch))? else { return Ok(command) };
        let there: BTreeSet<u64> = self.steps_ahead(at, self.seen)?.iter().map(|found| found.print).collect();
        for own in tasks.iter().map(|task| self.branch_of(task)) {
            let own = own?;
            let Some(tip) = self.repo.reference(&branch_ref(&own))?.filter(|_| own != *branch) else { continue };
            // Another task of that name may have the branch by now.
            let newest = self.found(tip)?;
            if newest.is_some_and(|newest| there.contains(&newest.print)) {
                command.push_str(&format!(" {}", shell_word(own)));
            }
        }
        Ok(command)
    }

    /// How somebody merges a branch into one of pleach's own. Nothing can be run there, so the way leads back.
    pub(super) fn merged_by_hand(&self, from: &BranchName, into: &BranchName) -> String {
        let [there, what, back] = [into, from, &self.plan.target].map(shell_word);
        format!(
            "merge `{from}` into `{into}` by hand (`git switch {there}`, `git merge {what}`), go back with `git switch {back}`, and run again"
        )
    }
}

/// A branch that is to stand elsewhere stays where a checkout has it.
pub(super) fn begins_anew(task: &TaskId, branch: BranchName, checkout: &Path) -> Error {
    let why = format!(
        "it has to be restarted, and `{}` has it checked out; switch to another branch there and run again",
        checkout.display()
    );
    Error::Refused(Refusal::new(task.clone(), false, branch, (RefusalCode::CheckedOut, why)))
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
