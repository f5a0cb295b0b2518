//! Moving a context's branch after its record, along with a checkout that has it. Where that would overwrite
//! uncommitted files the branch stays: the record has everything, and the branch catches up with the next move.

use std::path::PathBuf;
use std::time::Duration;

use super::change::ObservedBranch;
use super::error::Error;
use super::names::branch_ref;
use crate::git::{self, LandError, Repo, SwapError};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::{BranchName, CommitId};
use pleach_core::text::{listed, shell_word};

/// How long to wait for what blocks a checkout. Work continues without it.
const PATIENCE: Duration = Duration::from_millis(500);

/// The same at the end of a session.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// How many things a message names.
const NAMED: usize = 5;

/// What the log of a branch says of a turn's commit.
const TURN: &str = "pleach: turn";

/// The same of one that was recorded before.
const RESUME: &str = "pleach: resume";

/// A branch that could not follow its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingBranch {
    /// Where it is.
    pub at: CommitId,
    /// Where it should be.
    pub tip: CommitId,
    /// The checkout that has it.
    pub checkout: PathBuf,
    /// Why that cannot follow.
    pub why: String,
}

/// Moves a branch after its record. Knows where it should be.
#[derive(Debug)]
pub struct BranchFollower {
    repo: Repo,
    branch: BranchName,
    /// The newest commit the record has for it.
    tip: CommitId,
    behind: Option<LaggingBranch>,
    /// A checkout was moved along, which its watcher does not know yet.
    followed: bool,
    /// Warnings not reported yet.
    warnings: Vec<Warning>,
}

impl BranchFollower {
    /// A branch the record has at this commit.
    pub fn new(repo: Repo, branch: BranchName, tip: CommitId) -> Self {
        Self { repo, branch, tip, behind: None, followed: false, warnings: Vec::new() }
    }

    /// The branch.
    pub fn branch(&self) -> &BranchName {
        &self.branch
    }

    /// The newest commit the record has for it.
    pub fn tip(&self) -> CommitId {
        self.tip
    }

    /// Its lag; none when it is where it should be.
    pub fn behind(&self) -> Option<&LaggingBranch> {
        self.behind.as_ref()
    }

    /// Whether a checkout was moved along since this was last asked.
    pub fn take_followed(&mut self) -> bool {
        std::mem::take(&mut self.followed)
    }

    /// Warnings not reported yet.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Where the branch is, and the newest recorded commit, if the branch lacks it. None for a branch that was removed.
    pub fn divergence(&self) -> Result<Option<(CommitId, CommitId)>, Error> {
        Ok(match self.now()? {
            Some(at) if !self.repo.history().is_ancestor(self.tip, at)? => Some((at, self.tip)),
            _ => None,
        })
    }

    /// Fails if somebody else moved the branch.
    pub fn check(&self) -> Result<(), Error> {
        self.own(self.now()?).map(drop)
    }

    /// From where the branch can be moved after a change; an error if somebody else moved it. An agent that had
    /// it checked out and committed there has its commits adopted.
    pub fn moves_from(&self, seen: Option<ObservedBranch>) -> Result<CommitId, Error> {
        match seen {
            Some(ObservedBranch { at: Some(at), checked_out: true }) => Ok(at),
            Some(seen) => self.own(seen.at),
            None => self.own(self.now()?),
        }
    }

    fn own(&self, at: Option<CommitId>) -> Result<CommitId, Error> {
        match at {
            Some(at) if self.is_own(at)? => Ok(at),
            at => Err(self.moved(at, self.tip)),
        }
    }

    /// Whether the branch is where the session left it, or further on towards its tip.
    fn is_own(&self, at: CommitId) -> Result<bool, Error> {
        let behind = self.behind.as_ref().map(|behind| behind.at);
        if at == self.tip || behind == Some(at) {
            return Ok(true);
        }
        let Some(behind) = behind else { return Ok(false) };
        Ok(self.repo.history().is_ancestor(behind, at)? && self.repo.history().is_ancestor(at, self.tip)?)
    }

    /// Creates the branch, or moves it forward to the newest record. One that is anywhere else is left alone and is an
    /// error, but where its commit `is_kept`. Returns whether it was created.
    pub fn create_or_advance(
        &mut self,
        is_kept: impl FnOnce(CommitId) -> Result<bool, git::Error>,
    ) -> Result<bool, Error> {
        match self.now()? {
            None => {
                let created = self.repo.refs().swap(&branch_ref(&self.branch), None, self.tip, "pleach: session");
                created.map_err(git::Error::from)?;
                Ok(true)
            }
            Some(at) if at == self.tip => Ok(false),
            // Steps may have been rebuilt: the old tip was saved before they were recorded.
            Some(at) if self.repo.history().is_ancestor(at, self.tip)? || is_kept(at)? => {
                self.move_branch(at, self.tip, RESUME, PATIENCE)?;
                Ok(false)
            }
            Some(to) => Err(self.moved(Some(to), self.tip)),
        }
    }

    /// Moves the branch to a commit that is recorded, from where it was seen.
    pub fn advance(&mut self, from: CommitId, to: CommitId) -> Result<(), Error> {
        let from = match &self.behind {
            Some(behind) => self.position_of(behind.at, to)?,
            None => from,
        };
        self.move_branch(from, to, TURN, PATIENCE)?;
        self.tip = to;
        Ok(())
    }

    /// The record has a commit for a branch that is somebody else's now, and stays where it is.
    pub fn leave_in_place(&mut self, tip: CommitId) {
        self.tip = tip;
    }

    /// Tries once more to bring a branch forward that could not follow.
    pub fn catch_up(&mut self) -> Result<(), Error> {
        let Some(LaggingBranch { at, tip, .. }) = self.behind.clone() else { return Ok(()) };
        let brought = self.position_of(at, tip).and_then(|from| self.move_branch(from, tip, TURN, LAST_PATIENCE));
        match brought {
            // Somebody has moved it by now. All that was to be done is done, and recorded.
            Err(moved) if moved.is_of_own_branch() => {
                self.behind = None;
                Ok(())
            }
            brought => brought,
        }
    }

    /// Brings the branch of a session that has ended up to its record. One that was removed stays away.
    pub fn catch_up_after_end(&mut self) -> Result<(), Error> {
        match self.divergence()? {
            Some((at, tip)) if self.repo.history().is_ancestor(at, tip)? => {
                self.move_branch(at, tip, RESUME, LAST_PATIENCE)
            }
            _ => Ok(()),
        }
    }

    /// Tries once more to bring the branch forward, and says how to do so by hand if it still cannot be.
    pub fn warn_if_lagging(&mut self) -> Result<Option<Warning>, Error> {
        self.catch_up()?;
        let Some(LaggingBranch { at, tip, checkout, why }) = &self.behind else { return Ok(None) };
        let (branch, behind, at, place) = (&self.branch, *at, at.short(), checkout.display());
        let stays = format!("`{branch}` (checked out in `{place}`) stays at {at}: {why}");
        let how = if self.repo.history().is_ancestor(behind, *tip)? {
            format!("`git -C {} merge --ff-only {}` brings it forward", shell_word(place), tip.short())
        } else {
            format!("its newest commit is {}", tip.short())
        };
        Ok(Some(WarningCode::BranchLeftBehind.with(format!("{stays}; {how}"))))
    }

    fn now(&self) -> Result<Option<CommitId>, git::Error> {
        self.repo.refs().find(&branch_ref(&self.branch))
    }

    /// Where a lagging branch is: where it was left, or further on if somebody moved it forward.
    fn position_of(&self, behind: CommitId, tip: CommitId) -> Result<CommitId, Error> {
        match self.now()? {
            Some(now) if now == behind => Ok(now),
            Some(now)
                if self.repo.history().is_ancestor(behind, now)? && self.repo.history().is_ancestor(now, tip)? =>
            {
                Ok(now)
            }
            now => Err(self.moved(now, behind)),
        }
    }

    /// Moves the branch, with the checkout somebody has it in.
    fn move_branch(&mut self, from: CommitId, to: CommitId, why: &str, patience: Duration) -> Result<(), Error> {
        if from == to {
            self.behind = None;
            return Ok(());
        }
        let Some(checkout) = git::checkouts_of(&self.repo, &self.branch)?.into_iter().next() else {
            let swapped = self.repo.refs().swap(&branch_ref(&self.branch), Some(from), to, why);
            swapped.map_err(|error| match error {
                SwapError::Stale { actual, .. } => self.moved(actual, from),
                error => git::Error::from(error).into(),
            })?;
            self.behind = None;
            return Ok(());
        };
        match git::land::fast_forward_within(&self.repo, &self.branch, from, to, patience) {
            Ok(()) => {
                (self.behind, self.followed) = (None, true);
                Ok(())
            }
            Err(LandError::Moved { now, .. }) => Err(self.moved(Some(now), from)),
            Err(LandError::Gone { .. }) => Err(self.moved(None, from)),
            Err(refused) => {
                self.record_lag(LaggingBranch { at: from, tip: to, checkout, why: reason(&refused) });
                Ok(())
            }
        }
    }

    fn record_lag(&mut self, behind: LaggingBranch) {
        if self.behind.is_none() {
            self.warnings.push(WarningCode::BranchBehind.with(format!(
                "`{}` is checked out in `{}` and cannot move: {}; it stays at {} until you fix that or switch to another branch there",
                self.branch,
                behind.checkout.display(),
                behind.why,
                behind.at.short()
            )));
        }
        self.behind = Some(behind);
    }

    fn moved(&self, now: Option<CommitId>, tip: CommitId) -> Error {
        let branch = self.branch.clone();
        match now {
            Some(to) => Error::BranchMoved { branch, to, tip },
            None => Error::BranchGone { branch, tip },
        }
    }
}

fn reason(refused: &LandError) -> String {
    match refused {
        LandError::LocalChanges { paths, .. } => {
            let paths = listed(paths.iter().map(|path| format!("`{path}`")), NAMED);
            format!("it would overwrite uncommitted files there ({paths})")
        }
        LandError::Busy { what, .. } => what.clone(),
        LandError::SeveralCheckouts { .. } => "more than one checkout has it".to_owned(),
        LandError::Overwritten { what, .. } => what.clone(),
        LandError::NotForward { .. } => "its new commits are not a fast-forward".to_owned(),
        other => other.to_string(),
    }
}
