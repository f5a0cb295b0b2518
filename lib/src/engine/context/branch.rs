//! The session's branch follows its record, and a checkout somebody has it in follows with it. Where that cannot be
//! without overwriting what is not committed there, the branch stays: the record has everything, and the branch comes
//! after with the next move.

use std::path::PathBuf;
use std::time::Duration;

use super::Context;
use crate::engine::Error;
use crate::event::{Warning, WarningCode};
use crate::git::{self, LandError, SwapError};
use crate::ids::{BranchName, CommitId};
use crate::text::{listed, shell_word};
use crate::workspace::{self, BranchNews, WorkingCopy, branch_ref};

/// How long what is in the way of a checkout is waited for. The work goes on without it.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// The same at the end, when nothing comes after.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// How many things a message names.
const NAMED: usize = 5;

/// A branch that could not follow its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingBranch {
    /// Where it stands.
    pub at: CommitId,
    /// Where it should stand.
    pub tip: CommitId,
    /// The checkout that has it.
    pub checkout: PathBuf,
    /// Why that cannot follow.
    pub why: String,
}

impl Context {
    /// Where the session's branch stands while it cannot follow; none when it is where it should be.
    pub(in crate::engine) fn behind(&self) -> Option<&LaggingBranch> {
        self.behind.as_ref()
    }

    /// Where the branch stands and the newest commit the record has for it, which it lacks. None for a branch that was
    /// removed.
    pub(in crate::engine) fn branch_apart(&self) -> Result<Option<(CommitId, CommitId)>, Error> {
        let tip = self.state.on_branches().values().next().copied();
        let at = self.repo.reference(&branch_ref(self.branch()))?;
        Ok(match at.zip(tip) {
            Some((at, tip)) if !self.repo.is_ancestor(tip, at)? => Some((at, tip)),
            _ => None,
        })
    }

    /// Makes sure that nobody moved the session's branch.
    pub(in crate::engine) fn check_branch(&self) -> Result<(), Error> {
        Ok(self.copy.as_ref().map_or(Ok(()), WorkingCopy::check_branch)?)
    }

    pub(in crate::engine) fn branch(&self) -> &BranchName {
        self.state.branches.values().next().expect("every context has a branch")
    }

    /// Moves the branch to a commit that is recorded, from where the record had it.
    pub(in crate::engine) fn move_branch(&mut self, old: CommitId, new: CommitId) -> Result<(), Error> {
        let from = match &self.behind {
            Some(behind) => self.left_at(behind.at, new)?,
            None => old,
        };
        self.bring_from(from, new, "pleach: turn", PATIENCE)
    }

    /// Tries once more to bring a branch forward that could not follow.
    pub(in crate::engine) fn catch_up(&mut self) -> Result<(), Error> {
        let Some(LaggingBranch { at, tip, .. }) = self.behind.clone() else { return Ok(()) };
        let brought = self.left_at(at, tip).and_then(|from| self.bring_from(from, tip, "pleach: turn", LAST_PATIENCE));
        match brought {
            // Somebody has moved it by now. All that was to be done is done, and recorded.
            Err(Error::Workspace(moved)) if moved.is_of_own_branch() => {
                self.behind = None;
                Ok(())
            }
            brought => brought,
        }
    }

    /// Brings the branch of a session that has ended up to its record. One that was removed stays away.
    pub(in crate::engine) fn bring_up(&mut self) -> Result<(), Error> {
        match self.branch_apart()? {
            Some((at, tip)) if self.repo.is_ancestor(at, tip)? => {
                self.bring_from(at, tip, "pleach: resume", LAST_PATIENCE)
            }
            _ => Ok(()),
        }
    }

    /// Tries once more to bring a branch forward, and says how to do so by hand if it still cannot be.
    pub(in crate::engine) fn leave_branch(&mut self) -> Result<Option<Warning>, Error> {
        self.catch_up()?;
        let Some(LaggingBranch { at, tip, checkout, why }) = &self.behind else { return Ok(None) };
        let (branch, behind, at, place) = (self.branch(), *at, at.short(), checkout.display());
        let stays = format!("`{branch}`, which is checked out in `{place}`, stays at {at}: {why}");
        let how = match self.repo.is_ancestor(behind, *tip)? {
            true => format!("`git -C {} merge --ff-only {}` brings it", shell_word(place), tip.short()),
            false => format!("its newest commit is {}", tip.short()),
        };
        Ok(Some(WarningCode::BranchLeftBehind.with(format!("{stays}; {how}"))))
    }

    /// Where a branch stands that was left behind: there, or further on, as somebody has brought it.
    fn left_at(&self, behind: CommitId, tip: CommitId) -> Result<CommitId, Error> {
        let now = self.repo.reference(&branch_ref(self.branch()))?;
        match now {
            Some(now) if now == behind => Ok(now),
            Some(now) if self.repo.is_ancestor(behind, now)? && self.repo.is_ancestor(now, tip)? => Ok(now),
            now => Err(moved(self.branch(), now, behind)),
        }
    }

    /// Moves the branch, with the checkout somebody has it in.
    pub(in crate::engine) fn bring_from(
        &mut self,
        from: CommitId,
        to: CommitId,
        why: &str,
        patience: Duration,
    ) -> Result<(), Error> {
        if from == to {
            self.behind = None;
            return Ok(());
        }
        let branch = self.branch().clone();
        let Some(checkout) = self.repo.checkouts_of(&branch)?.into_iter().next() else {
            let swapped = self.repo.swap(&branch_ref(&branch), Some(from), to, why);
            swapped.map_err(|error| match error {
                SwapError::Stale { actual, .. } => moved(&branch, actual, from),
                error => git::Error::from(error).into(),
            })?;
            self.behind = None;
            return Ok(());
        };
        match self.repo.fast_forward_within(&branch, from, to, patience) {
            Ok(()) => {
                (self.behind, self.followed) = (None, true);
                Ok(())
            }
            Err(LandError::Moved { now, .. }) => Err(moved(&branch, Some(now), from)),
            Err(LandError::Gone { .. }) => Err(moved(&branch, None, from)),
            Err(refused) => {
                self.stay_behind(LaggingBranch { at: from, tip: to, checkout, why: reason(&refused) });
                Ok(())
            }
        }
    }

    fn stay_behind(&mut self, behind: LaggingBranch) {
        if self.behind.is_none() {
            self.warnings.push(WarningCode::BranchBehind.with(format!(
                "`{}` is checked out in `{}`, which cannot follow: {}; the branch stays at {} and comes after with the next commit once you have mended that, or switched to another branch there",
                self.branch(),
                behind.checkout.display(),
                behind.why,
                behind.at.short()
            )));
        }
        self.behind = Some(behind);
    }

    /// What the working copy has to know of the branch.
    pub(in crate::engine) fn branch_news(&mut self) -> BranchNews {
        BranchNews {
            behind: self.behind.as_ref().map(|behind| behind.at),
            followed: std::mem::take(&mut self.followed),
        }
    }

    /// What a person should know and was not told yet.
    pub(in crate::engine) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}

fn moved(branch: &BranchName, now: Option<CommitId>, tip: CommitId) -> Error {
    let branch = branch.clone();
    match now {
        Some(to) => workspace::Error::BranchMoved { branch, to, tip }.into(),
        None => workspace::Error::BranchGone { branch, tip }.into(),
    }
}

fn reason(refused: &LandError) -> String {
    match refused {
        LandError::LocalChanges { paths, .. } => {
            let paths = listed(paths.iter().map(|path| format!("`{path}`")), NAMED);
            format!("that would overwrite what is not committed there ({paths})")
        }
        LandError::Busy { what, .. } => what.clone(),
        LandError::SeveralCheckouts { .. } => "more than one checkout has it".to_owned(),
        LandError::Overwritten { what, .. } => what.clone(),
        LandError::NotForward { .. } => "the branch begins anew elsewhere".to_owned(),
        other => other.to_string(),
    }
}
