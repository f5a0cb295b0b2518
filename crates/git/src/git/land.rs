//! Moving a branch people work on. Where a checkout has it, the git program moves branch, index and files together and
//! refuses to overwrite anything; otherwise its ref is swapped.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::crash::{self, CrashKind, CrashSide};
use super::durability::Durability;
use super::error::{Error, IoContext as _, Unsupported};
use super::landing_note::LandingNote;
use super::object::Person;
use super::program::GitOutput;
use super::ref_update::{RefUpdate, SwapError, full_name, lock_path};
use super::repo::Repo;
use super::worktree::{self, git_dirs, linked_git_dir};
use super::{checkouts, diff, interrupted_merge, landing_conflicts, verify};
use os::confined_fs::{ConfinedDir, FEW_LINES};
use os::deadline::Deadline;
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, RepoPath};
use pleach_core::merge::branch::{self, BranchSight, BranchStep, InTheWay, LandingObstacle, MergeReply, SwapReply};
use pleach_core::text::{named, shell_word};

/// How long what is in the way of a landing is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(50);

/// How long another pleach that lands something is waited for at least.
const A_LANDING: Duration = Duration::from_secs(2);

/// A lock of pleach's own that is as old as this was left by a killed run: it is held for the time of a rename.
const ABANDONED: Duration = Duration::from_secs(5);

/// As many bytes git prints of an error, and nothing of the rest.
const LONGEST_ERROR: usize = 4095;

/// A variable with the options of the target, in the place of those the user may have set for it.
const OF_TARGET: &str = "PLEACH_OF_TARGET";

/// Why a branch was not moved. Unless it says otherwise, nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum LandError {
    /// Somebody else moved it.
    #[error("`{target}` moved to {} after the work was built on it; run again to rebuild the work there", now.short())]
    Moved {
        /// The branch.
        target: BranchName,
        /// Where it is.
        now: CommitId,
    },
    /// It does not exist any more.
    #[error(
        "`{target}` was deleted; recreate it with `git branch {0} {from}`, switch to it with `git switch {0}`, then run again",
        shell_word(target)
    )]
    Gone {
        /// The branch.
        target: BranchName,
        /// Where it was.
        from: CommitId,
    },
    /// Files of a checkout would be overwritten.
    #[error(
        "`{target}` cannot move: it would overwrite uncommitted files in `{}`: {}; commit them or move them away and run again, or merge the work with `git -C {} merge --ff-only {}`",
        checkout.display(), named(paths), shell_word(checkout.display()), to.short()
    )]
    LocalChanges {
        /// The branch.
        target: BranchName,
        /// The checkout.
        checkout: PathBuf,
        /// The files in the way, as git names them.
        paths: Vec<RepoPath>,
        /// Where it was to go.
        to: CommitId,
    },
    /// Another operation blocks it, for as long as was waited.
    #[error("`{target}` cannot move: {what}; then run again, or merge the work with `git merge --ff-only {}`", to.short())]
    Busy {
        /// The branch.
        target: BranchName,
        /// What blocks it, and how to end that.
        what: String,
        /// Where it was to go.
        to: CommitId,
    },
    /// More than one checkout has it, and only one can follow.
    #[error(
        "`{target}` cannot move: it is checked out in {}; run `git switch --detach` in all but one and run again",
        checkouts.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(" and ")
    )]
    SeveralCheckouts {
        /// The branch.
        target: BranchName,
        /// The checkouts.
        checkouts: Vec<PathBuf>,
    },
    /// What it should move to is not built on where it is.
    #[error("`{target}` cannot move from {from} to {to}: that is not a fast-forward")]
    NotForward {
        /// The branch.
        target: BranchName,
        /// Where it is.
        from: CommitId,
        /// Where it was to go.
        to: CommitId,
    },
    /// What is to land is not what it was when it was made.
    #[error("`{target}` cannot move to {}: {what}", to.short())]
    Overwritten {
        /// The branch.
        target: BranchName,
        /// What was overwritten.
        what: String,
        /// Where it was to go.
        to: CommitId,
    },
    /// Anything else, in git's own words.
    #[error(transparent)]
    Git(#[from] Error),
}

impl LandError {
    /// Why a commit that changes no file could not land: there is no work to merge by hand.
    pub fn without_work(&self) -> String {
        match self {
            Self::Busy { target, what, .. } => format!("`{target}` cannot move: {what}; then run again"),
            Self::LocalChanges { target, checkout, paths, .. } => format!(
                "`{target}` cannot move: uncommitted files in `{}` are in the way: {}; commit them or move them away, then run again",
                checkout.display(),
                named(paths)
            ),
            other => other.to_string(),
        }
    }
}

/// Moves a branch forward, with index and files of the checkout that has it. It must still be at `from`; if it has
/// `to` already, there is nothing to do. Nothing moves if an object that is new there is not what its id says. Waits
/// ten seconds for what is in the way; blocks meanwhile.
pub fn fast_forward(repo: &Repo, target: &BranchName, from: CommitId, to: CommitId) -> Result<(), LandError> {
    fast_forward_within(repo, target, from, to, PATIENCE)
}

/// Why a branch cannot move wherever to, as its checkouts tell.
pub fn blocked(repo: &Repo, target: &BranchName) -> Result<Option<LandError>, Error> {
    let sight =
        BranchSight::Ready { rebased: false, checkouts: checkouts::checkouts_of(repo, target)?, obstacle: None };
    Ok(match branch::decide(sight) {
        BranchStep::Refuse(InTheWay::SeveralCheckouts(checkouts)) => {
            Some(LandError::SeveralCheckouts { target: target.clone(), checkouts })
        }
        _ => None,
    })
}

/// What is in the way of a branch that is about to move; `None` if it could move now. Moves nothing.
pub fn in_the_way(
    repo: &Repo,
    target: &BranchName,
    from: CommitId,
    to: CommitId,
) -> Result<Option<LandError>, LandError> {
    let drops = check_move(repo, target, from, to)?;
    let landing = FastForward { repo, target, name: full_name(target), from, to, drops };
    Ok(match branch::decide(landing.inspect()?) {
        BranchStep::Refuse(in_the_way) => Some(landing.refusal(in_the_way)),
        BranchStep::Wait(obstacle) | BranchStep::LookAgain(obstacle) => {
            Some(LandError::Busy { target: target.clone(), what: obstacle.to_string(), to })
        }
        BranchStep::FastForward { checkout, .. } => {
            let mut paths = landing_conflicts::own_paths(repo, &checkout, from, to)?;
            if let Some((_, note)) = landing.interrupted(&checkout)? {
                let written = note.written(repo, &checkout)?;
                paths.retain(|path| !written.contains(path));
            }
            if drops {
                paths.extend(landing_conflicts::obstructing_submodules(repo, &checkout, from, to)?);
            }
            (!paths.is_empty()).then(|| landing.refusal(InTheWay::LocalChanges { checkout, paths }))
        }
        BranchStep::Landed | BranchStep::Swap | BranchStep::Adopt { .. } | BranchStep::Report { .. } => None,
    })
}

/// As [`fast_forward`], with another limit to the waiting.
pub fn fast_forward_within(
    repo: &Repo,
    target: &BranchName,
    from: CommitId,
    to: CommitId,
    patience: Duration,
) -> Result<(), LandError> {
    let patience = repo.shared.patience.map_or(patience, |given| patience.min(given));
    let drops = check_move(repo, target, from, to)?;
    let landing = FastForward { repo, target, name: full_name(target), from, to, drops };
    let deadline = Deadline::after(patience);
    crash::point(CrashKind::Landing, CrashSide::Before);
    loop {
        let is_last = deadline.is_over();
        let obstacle = match LandingTurn::wait(repo.common_dir(), patience)? {
            None => Some("another pleach lands something; wait until that is done".to_owned()),
            Some(turn) => {
                let mut obstacle = None;
                repo.shared.own_landings.land(&landing.name, to, || {
                    obstacle = landing.attempt(&turn)?;
                    Ok::<_, LandError>(obstacle.is_none())
                })?;
                obstacle.map(|obstacle| obstacle.to_string())
            }
        };
        match obstacle {
            None => break,
            Some(what) if is_last => return Err(LandError::Busy { target: target.clone(), what, to }),
            Some(_) => std::thread::sleep(POLL.min(deadline.left())),
        }
    }
    crash::point(CrashKind::Landing, CrashSide::After);
    Ok(())
}

/// Moves a branch that nobody has checked out forward, together with other refs: all of them or, where one is not where it
/// must be, none. Returns whether they moved.
pub fn swap_with(
    repo: &Repo,
    target: &BranchName,
    from: CommitId,
    to: CommitId,
    others: &[RefUpdate],
    why: &str,
) -> Result<bool, LandError> {
    check_move(repo, target, from, to)?;
    let name = full_name(target);
    let landing = FastForward { repo, target, name: name.clone(), from, to, drops: false };
    let deadline = Deadline::after(repo.shared.patience.map_or(PATIENCE, |given| PATIENCE.min(given)));
    crash::point(CrashKind::Landing, CrashSide::Before);
    loop {
        let mut reply = None;
        let moved = repo
            .shared
            .own_landings
            .land(&name, to, || Ok::<_, Error>(reply.insert(landing.swap_beside(others, why)?) == &SwapReply::Done))?;
        match reply {
            Some(SwapReply::Locked(_)) if !deadline.is_over() => std::thread::sleep(POLL),
            Some(SwapReply::Locked(lock)) => {
                return Err(LandError::Busy { target: target.clone(), what: branch::locked(&lock), to });
            }
            _ => {
                crash::point(CrashKind::Landing, CrashSide::After);
                return Ok(moved);
            }
        }
    }
}

/// Whether a checkout has the branch, or a rebase is about to come back to it: then it cannot move by its ref alone.
pub fn is_checked_out(repo: &Repo, target: &BranchName) -> Result<bool, Error> {
    if !checkouts::checkouts_of(repo, target)?.is_empty() {
        return Ok(true);
    }
    let id = CommitId::from_bytes([0; 20]);
    FastForward { repo, target, name: full_name(target), from: id, to: id, drops: false }.is_rebased()
}

/// Checks that a branch may move: forward, and to objects that are what their ids say. Returns whether links to other
/// repositories may be gone with it.
pub fn check_move(repo: &Repo, target: &BranchName, from: CommitId, to: CommitId) -> Result<bool, LandError> {
    let damaged = |error| match verify::diagnose_corruption(repo, error) {
        error @ Error::Overwritten { .. } => {
            LandError::Overwritten { target: target.clone(), what: error.to_string(), to }
        }
        error => error.into(),
    };
    if !repo.history().is_ancestor(from, to).map_err(damaged)? {
        return Err(LandError::NotForward { target: target.clone(), from, to });
    }
    verify::check_between(repo, from, to).map_err(damaged)
}

/// The turn to land, which one process has at a time. git moves index and branch of a checkout one after the other: two
/// that did so at once would leave the index of the one under the branch of the other.
struct LandingTurn(Arc<File>);

impl LandingTurn {
    /// Waits for the turn, at least for the moment that a landing takes; none if another process keeps it.
    fn wait(common_dir: &Path, patience: Duration) -> Result<Option<Self>, Error> {
        let deadline = Deadline::after(patience.max(A_LANDING));
        loop {
            match Self::take(common_dir)? {
                None if !deadline.is_over() => std::thread::sleep(POLL / 10),
                taken => return Ok(taken),
            }
        }
    }

    /// Takes the turn; none if another process has it.
    fn take(common_dir: &Path) -> Result<Option<Self>, Error> {
        let (dir, name) = (common_dir.join("pleach/lock"), "landing");
        std::fs::create_dir_all(&dir).at("create", &dir)?;
        let path = dir.join(name);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).at("open", &path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(Arc::new(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).at("lock", &path),
        }
    }
}

struct FastForward<'a> {
    repo: &'a Repo,
    target: &'a BranchName,
    name: String,
    from: CommitId,
    to: CommitId,
    /// Whether links to other repositories may be gone with it.
    drops: bool,
}

impl FastForward<'_> {
    /// Inspects the branch and its checkouts, and moves them if nothing is in the way; otherwise returns the obstacle.
    fn attempt(&self, turn: &LandingTurn) -> Result<Option<LandingObstacle>, LandError> {
        self.undo_interrupted()?;
        let mut step = branch::decide(self.inspect()?);
        let mut last = None;
        loop {
            step = match step {
                BranchStep::Landed => return Ok(None),
                BranchStep::Wait(obstacle) => return Ok(Some(obstacle)),
                BranchStep::Refuse(in_the_way) => return Err(self.refusal(in_the_way)),
                BranchStep::Swap => branch::after_swap(self.swap_beside(&[], "pleach: land")?),
                BranchStep::FastForward { checkout, adopted } => {
                    let reply = self.merge(&checkout, turn, &mut last)?;
                    branch::after_merge(reply, checkout, adopted)
                }
                BranchStep::Adopt { checkout, paths } => {
                    let others =
                        landing_conflicts::stage_matching_files(self.repo, &checkout, &paths, self.from, self.to)?;
                    branch::after_adopting(others, checkout)
                }
                BranchStep::LookAgain(obstacle) => branch::decide_again(self.inspect()?, obstacle),
                BranchStep::Report { checkout } => {
                    let (finished, begun) = last.take().expect("git ran before it could fail");
                    let failure = GitOutput::failure(finished);
                    return Err(interrupted_merge::merge_interrupted(
                        self.repo,
                        failure,
                        self.target,
                        &checkout,
                        self.from,
                        self.to,
                        begun,
                    )
                    .into());
                }
            };
        }
    }

    fn refusal(&self, in_the_way: InTheWay) -> LandError {
        let target = self.target.clone();
        match in_the_way {
            InTheWay::Gone => LandError::Gone { target, from: self.from },
            InTheWay::Moved(now) => LandError::Moved { target, now },
            InTheWay::SeveralCheckouts(checkouts) => LandError::SeveralCheckouts { target, checkouts },
            InTheWay::LocalChanges { checkout, paths } => {
                LandError::LocalChanges { target, checkout, paths, to: self.to }
            }
        }
    }

    /// Inspects the branch and its checkouts. Removes a lock that a killed pleach left.
    fn inspect(&self) -> Result<BranchSight, Error> {
        match self.repo.refs().find(&self.name)? {
            None => return Ok(BranchSight::Gone),
            Some(tip) if tip == self.from && tip != self.to => {}
            Some(tip) if self.repo.history().is_ancestor(self.to, tip)? => return Ok(BranchSight::Has),
            Some(now) => return Ok(BranchSight::Elsewhere(now)),
        }
        if self.is_rebased()? {
            return Ok(BranchSight::Ready { rebased: true, checkouts: Vec::new(), obstacle: None });
        }
        self.release_own_lock()?;
        let checkouts = checkouts::checkouts_of(self.repo, self.target)?;
        let obstacle = match checkouts.as_slice() {
            [checkout] => self.obstacle(checkout)?,
            _ => None,
        };
        Ok(BranchSight::Ready { rebased: false, checkouts, obstacle })
    }

    /// Undoes what a git that broke off or was killed has left in the checkout that has the branch.
    fn undo_interrupted(&self) -> Result<(), LandError> {
        let checkouts = checkouts::checkouts_of(self.repo, self.target)?;
        let [checkout] = checkouts.as_slice() else { return Ok(()) };
        let Some((git_dir, note)) = self.interrupted(checkout)? else { return Ok(()) };
        note.release_locks(self.repo.common_dir(), &git_dir)?;
        if self.obstacle(checkout)?.is_none() {
            note.undo(self.repo, checkout)?;
            note.remove();
        }
        Ok(())
    }

    /// The landing that did not come to its end in a checkout, with the git directory. Where the branch has moved since, what
    /// is there is somebody else's.
    fn interrupted(&self, checkout: &Path) -> Result<Option<(PathBuf, LandingNote)>, Error> {
        let Some(git_dir) = linked_git_dir(checkout)? else { return Ok(None) };
        let Some(note) = LandingNote::read(&git_dir) else { return Ok(None) };
        if self.repo.refs().find(&self.name)? == Some(note.from) {
            return Ok(Some((git_dir, note)));
        }
        note.remove();
        Ok(None)
    }

    /// What blocks a checkout.
    fn obstacle(&self, checkout: &Path) -> Result<Option<LandingObstacle>, Error> {
        if !checkout.is_dir() {
            return Ok(Some(LandingObstacle::MissingCheckout(checkout.to_owned())));
        }
        let git_dir = linked_git_dir(checkout)?.ok_or_else(|| Error::Unsupported {
            path: checkout.to_owned(),
            feature: Unsupported::FilesApart { git_dir: self.repo.common_dir().to_owned() },
        })?;
        let own = ["index", "HEAD", "ORIG_HEAD"].map(|name| git_dir.join(name));
        let locks = own.into_iter().chain([self.repo.common_dir().join(&self.name)]);
        let lock = locks.map(|path| lock_path(&path)).find(|lock| lock.exists());
        Ok(in_progress(&git_dir, checkout).or(lock.map(LandingObstacle::Locked)))
    }

    /// Removes the lock a killed pleach left on the branch, so that the user need not. A lock file has the commit
    /// the branch was to become; only a pleach would move it to a commit of pleach's own, and not for so long.
    fn release_own_lock(&self) -> Result<(), Error> {
        let lock = lock_path(&self.repo.common_dir().join(&self.name));
        let Ok(text) = std::fs::read_to_string(&lock) else { return Ok(()) };
        let age = lock.metadata().and_then(|lock| lock.modified()).ok().and_then(|time| time.elapsed().ok());
        let Ok(id) = text.trim().parse::<CommitId>() else { return Ok(()) };
        let is_own = age.is_some_and(|age| age >= ABANDONED)
            && self.repo.commit(id).is_ok_and(|commit| commit.committer == Person::pleach());
        if !is_own {
            return Ok(());
        }
        match std::fs::remove_file(&lock) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.at("remove", &lock),
        }
    }

    /// Swaps the branch, together with refs of pleach's own.
    fn swap_beside(&self, own: &[RefUpdate], why: &str) -> Result<SwapReply, Error> {
        self.release_own_lock()?;
        let target = RefUpdate { name: self.name.clone(), old: Some(self.from), new: Some(self.to) };
        match self.repo.refs().swap_target(target, own, why) {
            Ok(()) => Ok(SwapReply::Done),
            Err(SwapError::Locked { lock, .. } | SwapError::Other(Error::Locked { lock })) => {
                Ok(SwapReply::Locked(lock))
            }
            Err(SwapError::Stale { name, .. }) => Ok(SwapReply::Stale(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// Has git move branch, index and files of the checkout that has the target. How git ended, and when it was called, is
    /// in `last` then.
    fn merge(
        &self,
        checkout: &Path,
        turn: &LandingTurn,
        last: &mut Option<(GitOutput, Timestamp)>,
    ) -> Result<MergeReply, Error> {
        let links = if self.drops {
            landing_conflicts::obstructing_submodules(self.repo, checkout, self.from, self.to)?
        } else {
            Vec::new()
        };
        if !links.is_empty() {
            return Ok(MergeReply::Holds(links));
        }
        let program = self.repo.shared.program.clone().with_variable(OF_TARGET, "--no-verify-signatures");
        // What an earlier call has left counts as well.
        let begun = last.take().map_or_else(clock::now, |(_, begun)| begun);
        let git_dir = linked_git_dir(checkout)?.unwrap_or_else(|| self.repo.common_dir().to_owned());
        let note = LandingNote::write(&git_dir, self.from, self.to, begun)?;
        let finished = program.run_holding(checkout, self.arguments(), Arc::clone(&turn.0))?;
        let reply = self.classify_reply(&finished, checkout)?;
        if reply != MergeReply::BrokeOff {
            note.remove();
        }
        *last = Some((finished, begun));
        Ok(reply)
    }

    /// Everything that could have git do something else than move forward and touch nothing else is switched off.
    fn arguments(&self) -> Vec<OsString> {
        let mut settings = vec!["-c".to_owned(), "submodule.recurse=false".to_owned()];
        if self.repo.durability == Durability::Fsync {
            settings.extend(["-c", "core.fsync=reference,index"].map(str::to_owned));
        }
        // Steps are not signed, so that they move no branch but the target, should the user have switched to another one
        // since it was looked at. By way of a variable, because a branch may have a `=` in its name.
        settings.extend(["-c", "merge.verifySignatures=true"].map(str::to_owned));
        settings.push(format!("--config-env=branch.{}.mergeOptions={OF_TARGET}", self.target));
        let options = ["--ff-only", "--no-autostash", "--no-overwrite-ignore"];
        let command = ["merge", "-q"].into_iter().chain(options).map(str::to_owned);
        settings.into_iter().chain(command).chain([self.to.to_string()]).map(OsString::from).collect()
    }

    /// The files that git has refused to overwrite. Where it has not named them all, they are looked for.
    fn refused(&self, finished: &GitOutput, checkout: &Path) -> Result<Vec<RepoPath>, Error> {
        let words = &finished.stderr;
        if !words.contains("\n\t") {
            return Ok(Vec::new());
        }
        let changes = diff::changes(self.repo, self.repo.tree_of(self.from)?, self.repo.tree_of(self.to)?)?;
        if words.split("error: ").any(|error| error.len() + "error: ".len() >= LONGEST_ERROR) {
            return landing_conflicts::obstructing_paths(self.repo, checkout, self.from, &changes);
        }
        Ok(refused_paths(words, changes.iter().map(|change| &change.path)))
    }

    /// What git says. Its words are the only thing that tells: the codes are few and shared.
    fn classify_reply(&self, finished: &GitOutput, checkout: &Path) -> Result<MergeReply, Error> {
        if finished.code == Some(0) {
            return Ok(MergeReply::Done);
        }
        let paths = self.refused(finished, checkout)?;
        if !paths.is_empty() {
            return Ok(MergeReply::WouldOverwrite(paths));
        }
        let words = &finished.stderr;
        if words.contains("unmerged files") {
            return Ok(MergeReply::Holds(self.unmerged(checkout)?));
        }
        let checkout = checkout.to_owned();
        Ok(MergeReply::Blocked(if let Some(lock) = finished.held_lock() {
            if words.contains("cannot lock ref") && !lock.ends_with("ORIG_HEAD.lock") {
                LandingObstacle::LockedAfterFiles { checkout, lock }
            } else {
                LandingObstacle::Locked(lock)
            }
        } else if words.contains("but expected") {
            LandingObstacle::OtherGitMoves { checkout, words: words.clone() }
        } else if words.contains("You have not concluded your") {
            LandingObstacle::NotConcluded(checkout)
        } else if words.contains("does not have a GPG signature") {
            LandingObstacle::OtherBranch { checkout, branch: self.target.to_string() }
        } else if words.contains("Not possible to fast-forward") {
            LandingObstacle::NotAhead { checkout, to: self.to }
        } else {
            return Ok(MergeReply::BrokeOff);
        }))
    }

    fn unmerged(&self, checkout: &Path) -> Result<Vec<RepoPath>, Error> {
        let args = ["diff", "--name-only", "--diff-filter=U", "-z"];
        let names = self.repo.shared.program.run(checkout, args)?.success()?;
        Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(RepoPath::new).collect())
    }

    /// Whether the target is rebased, in any checkout.
    fn is_rebased(&self) -> Result<bool, Error> {
        const HOLDERS: [&str; 3] = ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
        let names_it = |dir: &Path, holder: &str| {
            let text = ConfinedDir::at(dir).and_then(|dir| dir.read(holder, FEW_LINES)).ok().flatten();
            text.is_some_and(|text| text.split(|byte| *byte == b'\n').any(|line| line == self.name.as_bytes()))
        };
        let has_it = |dir: &Path| HOLDERS.iter().any(|holder| names_it(dir, holder));
        let mut is_rebased = has_it(self.repo.common_dir());
        for git_dir in git_dirs(self.repo.common_dir())?.into_iter().filter(|dir| has_it(dir)) {
            // Rebases in worktrees of agents do not matter.
            is_rebased |= !worktree::is_registered(self.repo, &git_dir)?;
        }
        Ok(is_rebased)
    }
}

/// An operation the user has begun in a checkout and not concluded.
fn in_progress(git_dir: &Path, checkout: &Path) -> Option<LandingObstacle> {
    const MARKS: [(&str, &str, &str); 5] = [
        ("MERGE_HEAD", "a merge", "git merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick"),
        ("REVERT_HEAD", "a revert", "git revert"),
        ("rebase-merge", "a rebase", "git rebase"),
        ("rebase-apply", "a rebase or `git am`", "git rebase (or git am)"),
    ];
    let (_, what, command) = MARKS.iter().find(|(mark, ..)| git_dir.join(mark).exists())?;
    Some(LandingObstacle::InProgress { what, command, checkout: checkout.to_owned() })
}

/// The files git lists in a refusal: each on a line of its own, after a tab, as it is but for what is lost on the way. What
/// it names is one of those that change, or a directory above one: so also a name of several lines is known again.
fn refused_paths<'a>(words: &str, changed: impl Iterator<Item = &'a RepoPath>) -> Vec<RepoPath> {
    let mut known: BTreeMap<String, BTreeSet<RepoPath>> = BTreeMap::new();
    for path in changed.map(RepoPath::as_bytes) {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        for path in above.chain([path]) {
            known.entry(shown(path)).or_default().insert(RepoPath::new(path));
        }
    }
    let most = known.keys().map(|name| name.matches('\n').count()).max().unwrap_or_default();
    let mut paths = BTreeSet::new();
    let mut rest = Some(words);
    while let Some(text) = rest {
        let Some(text) = text.strip_prefix('\t') else {
            rest = text.split_once('\n').map(|(_, rest)| rest);
            continue;
        };
        let ends = text.match_indices('\n').map(|(at, _)| at).chain([text.len()]).take(most + 1);
        let ends: Vec<usize> = ends.collect();
        let found = ends.iter().rev().find_map(|end| Some((*end, known.get(&text[..*end])?)));
        let end = found.as_ref().map_or(ends[0], |(end, _)| *end);
        match found {
            Some((_, found)) => paths.extend(found.iter().cloned()),
            None => paths.extend([RepoPath::new(&text[..end])]),
        }
        rest = text.get(end + 1..);
    }
    paths.into_iter().collect()
}

/// A path as git puts it into a message, and as that is read.
fn shown(path: &[u8]) -> String {
    let is_kept = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n');
    let bytes: Vec<u8> = path.iter().map(|byte| if is_kept(*byte) { *byte } else { b'?' }).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_files_are_read_from_all_of_gits_lists() {
        let words = "error: Your local changes to the following files would be overwritten by merge:\n\tb c\n\ta\n\
            Please commit your changes or stash them before you merge.\n\
            error: The following untracked working tree files would be overwritten by merge:\n\tnew/file\n\
            Please move or remove them before you merge.\nAborting";
        assert_eq!(refused_paths(words, [].iter()), ["a".into(), "b c".into(), "new/file".into()]);
        assert_eq!(refused_paths("fatal: Not possible to fast-forward, aborting.", [].iter()), []);
    }

    #[test]
    fn refused_files_are_known_again_whatever_their_names_are() {
        let words = "error: The following untracked working tree files would be overwritten by merge:\n\ta\n\ta\n\tb\n\tc\n\
            new\n\t\u{fffd}?\nPlease move or remove them before you merge.\nAborting";
        let changed = ["a", "a\n\tb", "c\nnew/file", "d"].map(RepoPath::from).into_iter();
        let changed: Vec<RepoPath> = changed.chain([RepoPath::new(b"\xff\x01")]).collect();
        let mut expected = ["a", "a\n\tb", "c\nnew"].map(RepoPath::from).to_vec();
        expected.push(RepoPath::new(b"\xff\x01"));
        assert_eq!(refused_paths(words, changed.iter()), expected);
    }
}
