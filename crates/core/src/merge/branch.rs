//! One branch that is to move, with the files of the checkout that has it: what is seen there, what git says, and what that
//! means. Where a checkout has it, git moves branch, index and files together; where none has it, its ref is swapped.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::ids::{CommitId, RepoPath};

/// What there is to see before a branch moves. What its ref says decides alone, so that it may be looked at again after
/// anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchSight {
    /// It is not there.
    Gone,
    /// It has what is to land.
    Has,
    /// It is neither there nor where the work was built.
    Elsewhere(CommitId),
    /// It is where the work was built.
    Ready {
        /// Somebody rebases it: HEAD is detached meanwhile, and at its end the rebase expects the branch where it was.
        rebased: bool,
        /// The checkouts that have it.
        checkouts: Vec<PathBuf>,
        /// What continues in the one that has it.
        obstacle: Option<LandingObstacle>,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchStep {
    /// Nothing: it is there.
    Landed,
    /// Look again in a while, for this may pass.
    Wait(LandingObstacle),
    /// Nothing: a person has to do something first.
    Refuse(InTheWay),
    /// Swap the ref.
    Swap,
    /// Have git move a checkout.
    FastForward {
        /// Which.
        checkout: PathBuf,
        /// What was in the way there with the very content that lands has been taken over.
        adopted: bool,
    },
    /// Take over files in the way that have the very content that lands.
    Adopt {
        /// Of which checkout.
        checkout: PathBuf,
        /// The files.
        paths: Vec<RepoPath>,
    },
    /// Look at the ref once more: should it be where it was, this is in the way.
    LookAgain(LandingObstacle),
    /// Report what an interrupted git left.
    Report {
        /// In which checkout.
        checkout: PathBuf,
    },
}

/// What only a person can put out of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InTheWay {
    /// The branch is not there.
    Gone,
    /// It has moved.
    Moved(CommitId),
    /// More than one checkout has it, and only one can follow.
    SeveralCheckouts(Vec<PathBuf>),
    /// Files of a checkout would be overwritten.
    LocalChanges {
        /// The checkout.
        checkout: PathBuf,
        /// The files.
        paths: Vec<RepoPath>,
    },
}

/// What is in the way and may pass: what it is, and how to end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandingObstacle {
    /// A rebase of the branch, wherever.
    Rebase,
    /// The checkout is on a disk that is not there.
    MissingCheckout(PathBuf),
    /// Something was started in the checkout and not concluded.
    InProgress {
        /// What.
        what: &'static str,
        /// What ends it.
        command: &'static str,
        /// The checkout.
        checkout: PathBuf,
    },
    /// A lock of git's.
    Locked(PathBuf),
    /// A lock on the branch, seen once index and files were done. The same call again completes it.
    LockedAfterFiles {
        /// The checkout.
        checkout: PathBuf,
        /// The lock.
        lock: PathBuf,
    },
    /// The ref is being moved.
    RefMoves(String),
    /// Another git works in the checkout.
    OtherGit(PathBuf),
    /// Another git moves what the checkout has, as git says.
    OtherGitMoves {
        /// The checkout.
        checkout: PathBuf,
        /// What git says.
        words: String,
    },
    /// A merge or cherry-pick.
    NotConcluded(PathBuf),
    /// The checkout has something else than the branch by now.
    OtherBranch {
        /// The checkout.
        checkout: PathBuf,
        /// The branch.
        branch: String,
    },
    /// What is to land is not ahead of what the checkout has, as git says.
    NotAhead {
        /// The checkout.
        checkout: PathBuf,
        /// What is to land.
        to: CommitId,
    },
}

/// What a swap of the ref has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwapReply {
    /// It is there.
    Done,
    /// A lock was in the way.
    Locked(PathBuf),
    /// Another process moved this ref first.
    Stale(String),
}

/// What git says that was to move a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeReply {
    /// It has.
    Done,
    /// It would overwrite these.
    WouldOverwrite(Vec<RepoPath>),
    /// These are something else by now than a file that could be taken over.
    Holds(Vec<RepoPath>),
    /// Something is in the way.
    Blocked(LandingObstacle),
    /// It broke off, or could not start.
    BrokeOff,
}

/// What is to be done about a branch as it is seen.
pub fn decide(sight: BranchSight) -> BranchStep {
    match sight {
        BranchSight::Gone => BranchStep::Refuse(InTheWay::Gone),
        BranchSight::Has => BranchStep::Landed,
        BranchSight::Elsewhere(now) => BranchStep::Refuse(InTheWay::Moved(now)),
        BranchSight::Ready { rebased: true, .. } => BranchStep::Wait(LandingObstacle::Rebase),
        BranchSight::Ready { mut checkouts, obstacle, .. } => match (checkouts.len(), obstacle) {
            (0, _) => BranchStep::Swap,
            (1, Some(obstacle)) => BranchStep::Wait(obstacle),
            (1, None) => BranchStep::FastForward { checkout: checkouts.remove(0), adopted: false },
            _ => BranchStep::Refuse(InTheWay::SeveralCheckouts(checkouts)),
        },
    }
}

/// The same once more, after something that has moved it or was outrun.
pub fn decide_again(sight: BranchSight, obstacle: LandingObstacle) -> BranchStep {
    match sight {
        BranchSight::Ready { .. } => BranchStep::Wait(obstacle),
        other => decide(other),
    }
}

/// What follows a swap.
pub fn after_swap(swapped: SwapReply) -> BranchStep {
    match swapped {
        SwapReply::Done => BranchStep::Landed,
        SwapReply::Locked(lock) => BranchStep::Wait(LandingObstacle::Locked(lock)),
        SwapReply::Stale(name) => BranchStep::LookAgain(LandingObstacle::RefMoves(name)),
    }
}

/// What follows what git says.
pub fn after_merge(said: MergeReply, checkout: PathBuf, adopted: bool) -> BranchStep {
    match said {
        MergeReply::Done => BranchStep::LookAgain(LandingObstacle::OtherGit(checkout)),
        MergeReply::WouldOverwrite(paths) if !adopted => BranchStep::Adopt { checkout, paths },
        MergeReply::WouldOverwrite(paths) | MergeReply::Holds(paths) => {
            BranchStep::Refuse(InTheWay::LocalChanges { checkout, paths })
        }
        MergeReply::Blocked(obstacle) => BranchStep::Wait(obstacle),
        MergeReply::BrokeOff => BranchStep::Report { checkout },
    }
}

/// What follows once files in the way were looked at: these have other content.
pub fn after_adopting(others: Vec<RepoPath>, checkout: PathBuf) -> BranchStep {
    if others.is_empty() {
        BranchStep::FastForward { checkout, adopted: true }
    } else {
        BranchStep::Refuse(InTheWay::LocalChanges { checkout, paths: others })
    }
}

/// What a lock file of git's means, and how to get on.
pub fn locked(lock: &Path) -> String {
    format!(
        "git's lock `{}` is held by another git process, or was left by one that was killed; wait for it, or delete that file if no git runs",
        lock.display()
    )
}

impl fmt::Display for LandingObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rebase => {
                f.write_str("a rebase of it is in progress; finish it with `git rebase --continue` or `--abort`")
            }
            Self::MissingCheckout(checkout) => write!(
                f,
                "it is checked out in `{}`, which is not there now; mount it or prune the worktree",
                checkout.display()
            ),
            Self::InProgress { what, command, checkout } => write!(
                f,
                "{what} is in progress in `{}`; finish it with `{command} --continue` or `--abort`",
                checkout.display()
            ),
            Self::Locked(lock) => f.write_str(&locked(lock)),
            Self::LockedAfterFiles { checkout, lock } => {
                write!(f, "the files in `{}` are up to date already, but {}", checkout.display(), locked(lock))
            }
            Self::RefMoves(name) => write!(f, "`{name}` is being moved by another git process; wait for it"),
            Self::OtherGit(checkout) => {
                write!(f, "another git process works in `{}`; wait for it", checkout.display())
            }
            Self::OtherGitMoves { checkout, words } => write!(
                f,
                "another git process moves what is checked out in `{}` ({words}); wait for it",
                checkout.display()
            ),
            Self::NotConcluded(checkout) => {
                write!(f, "a merge or cherry-pick is in progress in `{}`; conclude or abort it", checkout.display())
            }
            Self::OtherBranch { checkout, branch } => {
                write!(f, "something else than `{branch}` is checked out in `{}` by now", checkout.display())
            }
            Self::NotAhead { checkout, to } => {
                write!(f, "{to} is not ahead of what `{}` has checked out", checkout.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(checkouts: &[&str], obstacle: Option<LandingObstacle>) -> BranchSight {
        BranchSight::Ready { rebased: false, checkouts: checkouts.iter().map(PathBuf::from).collect(), obstacle }
    }

    #[test]
    fn a_branch_moves_with_the_one_checkout_that_has_it() {
        assert_eq!(decide(ready(&[], None)), BranchStep::Swap);
        assert_eq!(decide(ready(&["a"], None)), BranchStep::FastForward { checkout: "a".into(), adopted: false });
        let several = InTheWay::SeveralCheckouts(vec!["a".into(), "b".into()]);
        assert_eq!(decide(ready(&["a", "b"], None)), BranchStep::Refuse(several));
        let lock = LandingObstacle::Locked("a/.git/index.lock".into());
        assert_eq!(decide(ready(&["a"], Some(lock.clone()))), BranchStep::Wait(lock));
        let rebased = BranchSight::Ready { rebased: true, checkouts: Vec::new(), obstacle: None };
        assert_eq!(decide(rebased), BranchStep::Wait(LandingObstacle::Rebase));
    }

    #[test]
    fn only_the_ref_decides_whether_a_branch_exists() {
        let now = CommitId::from_bytes([1; 20]);
        assert_eq!(decide(BranchSight::Has), BranchStep::Landed);
        assert_eq!(decide(BranchSight::Elsewhere(now)), BranchStep::Refuse(InTheWay::Moved(now)));
        let busy = || LandingObstacle::OtherGit("a".into());
        assert_eq!(
            after_merge(MergeReply::Done, "a".into(), false),
            BranchStep::LookAgain(busy()),
            "whatever git says"
        );
        assert_eq!(decide_again(BranchSight::Has, busy()), BranchStep::Landed);
        assert_eq!(decide_again(ready(&["a"], None), busy()), BranchStep::Wait(busy()));
        assert_eq!(decide_again(BranchSight::Gone, busy()), BranchStep::Refuse(InTheWay::Gone));
    }

    #[test]
    fn identical_files_in_the_way_are_adopted_once() {
        let paths = || vec![RepoPath::from("f")];
        let refused = BranchStep::Refuse(InTheWay::LocalChanges { checkout: "a".into(), paths: paths() });
        let overwrite = |adopted| after_merge(MergeReply::WouldOverwrite(paths()), "a".into(), adopted);
        assert_eq!(overwrite(false), BranchStep::Adopt { checkout: "a".into(), paths: paths() });
        assert_eq!(overwrite(true), refused);
        assert_eq!(
            after_adopting(Vec::new(), "a".into()),
            BranchStep::FastForward { checkout: "a".into(), adopted: true }
        );
        assert_eq!(after_adopting(paths(), "a".into()), refused);
        assert_eq!(after_merge(MergeReply::Holds(paths()), "a".into(), false), refused);
    }
}
