//! A session's worktree of one repository: where its agents and tools write, and how what they wrote becomes
//! commits of the session branch.
//!
//! While a node runs, HEAD and index stay at the node's base, so an agent sees its work as uncommitted changes; only
//! the session branch moves, turn by turn. At the node's end HEAD and index follow.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::change::TurnChange;
use super::error::Error;
use super::guard::{Guard, GuardWatch};
use super::held_files::HeldFiles;
use super::lock::Lock;
use crate::git::{self, CommitLimits, Head, Past, Repo, TreeId, Worktree};
use pleach_core::event::Commits;
use pleach_core::ids::{BranchName, CommitId, RepoName, RepoPath, SessionId};

/// A worktree and the branch its commits go to.
#[derive(Debug)]
pub struct WorkingCopy {
    /// The repository, opened before any agent ran.
    pub repo: Repo,
    /// Its name in the workspace.
    pub name: RepoName,
    /// The session branch.
    pub branch: BranchName,
    pub(super) session: SessionId,
    pub(super) worktree: Worktree,
    pub(super) carries: Commits,
    pub(super) at: CopyPosition,
    pub(super) watch: GuardWatch,
    /// The guarded state when the last node ended, for the next one.
    pub(super) seen: Option<Guard>,
    /// A scan found nothing but what is recorded, and nothing else has run in it since.
    pub(super) settled: bool,
    /// Files were laid into it that no turn has written: the next scan must look at everything.
    pub(super) is_overlaid: bool,
    /// The files that were left out of the newest commits.
    pub(super) held: HeldFiles,
    /// What of the setup was no more before the running node.
    pub(super) undone_before: BTreeSet<RepoPath>,
    /// What is too much to commit.
    pub(super) limits: CommitLimits,
    /// Held as long as anything runs in it.
    pub(super) lock: Lock,
    /// What refs led to before the running node, where it could move them.
    pub(super) refs_before: Option<Vec<CommitId>>,
    /// The newest of the agents' own commits that were kept instead of joined.
    pub(super) kept_head: Option<CommitId>,
}

/// The note of the session that works in a worktree.
pub const SESSION_NOTE: &str = "session";

/// The note that a merge with conflicts lies in the worktree, uncommitted.
const LAID_MERGE: &str = "laid-merge";

/// The note that an agent repeats recorded work in the worktree.
const REDRIVE: &str = "redrive";

/// What it has at most.
const LAID_MERGE_BYTES: u64 = 256;

fn laid_merge(session: &SessionId, theirs: CommitId) -> String {
    format!("{session} {theirs}")
}

/// The commits a worktree is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyPosition {
    /// What HEAD and index are at: where the running node began.
    pub base: CommitId,
    /// The newest recorded commit, whose files it has.
    pub tip: CommitId,
}

impl CopyPosition {
    /// Everything at one commit.
    pub fn all(commit: CommitId) -> Self {
        Self { base: commit, tip: commit }
    }
}

/// Who works in a worktree.
#[derive(Debug)]
pub struct CopyOwner {
    pub session: SessionId,
    pub branch: BranchName,
    /// Whether the branch carries commits of turns, or only of steps.
    pub carries: Commits,
    pub limits: CommitLimits,
    pub lock: Lock,
}

impl WorkingCopy {
    /// A worktree at these commits.
    pub fn new(
        repo: Repo,
        name: RepoName,
        worktree: Worktree,
        at: CopyPosition,
        owner: CopyOwner,
    ) -> Result<Self, Error> {
        let CopyOwner { session, branch, carries, limits, lock } = owner;
        let watch = GuardWatch::new(&repo)?;
        let held = HeldFiles::read(worktree.notes(), &session)?;
        let (seen, settled, is_overlaid) = (None, false, false);
        let (undone_before, refs_before, kept_head) = (BTreeSet::new(), None, None);
        Ok(Self {
            repo,
            name,
            branch,
            session,
            worktree,
            carries,
            at,
            watch,
            seen,
            lock,
            settled,
            is_overlaid,
            held,
            undone_before,
            limits,
            refs_before,
            kept_head,
        })
    }

    /// The same worktree once more, for somebody who only reads in it.
    pub fn share(&self) -> Result<Self, Error> {
        let worktree = git::worktree::open(&self.repo, self.path())?;
        let (repo, name, branch) = (self.repo.clone(), self.name.clone(), self.branch.clone());
        let (limits, lock) = (self.limits.clone(), self.lock.clone());
        let owner = CopyOwner { session: self.session.clone(), branch, carries: self.carries, limits, lock };
        Self::new(repo, name, worktree, self.at, owner)
    }

    /// Notes which session works in it: that of a task works in a slot, which many use.
    pub fn note_session(&self) -> Result<(), Error> {
        Ok(self.worktree.notes().write(SESSION_NOTE, self.session.as_str().as_bytes())?)
    }

    /// Whether the merge with a commit was laid into it, and nothing has reset it since.
    pub fn has_laid(&self, theirs: CommitId) -> Result<bool, Error> {
        let note = self.worktree.notes().read(LAID_MERGE, LAID_MERGE_BYTES)?;
        Ok(note.is_some_and(|note| note == laid_merge(&self.session, theirs).into_bytes()))
    }

    /// Notes that the merge with a commit lies in it.
    pub fn note_laid(&mut self, theirs: CommitId) -> Result<(), Error> {
        self.is_overlaid = true;
        Ok(self.worktree.notes().write(LAID_MERGE, laid_merge(&self.session, theirs).as_bytes())?)
    }

    /// Forgets that a merge was laid into it, or that work is repeated there: its files are about to be reset.
    pub(super) fn forget_laid(&mut self) -> Result<(), Error> {
        for note in [LAID_MERGE, REDRIVE] {
            if self.worktree.notes().has(note) {
                self.worktree.notes().remove(note)?;
            }
        }
        Ok(())
    }

    /// Notes that an agent is about to repeat recorded work in it: what is there then is nobody's until that has ended.
    pub(super) fn note_redrive(&mut self) -> Result<(), Error> {
        Ok(self.worktree.notes().write(REDRIVE, self.session.as_str().as_bytes())?)
    }

    /// Whether recorded work was repeated in it when its run was killed.
    pub(super) fn is_redriven(&self) -> bool {
        self.worktree.notes().has(REDRIVE)
    }

    /// What agents must leave alone, as it is now.
    pub fn look(&mut self, own: &str, kept: &str) -> Result<Guard, Error> {
        git::worktree::restore_missing_link(&self.worktree)?;
        self.watch.look(&self.worktree, own, kept)
    }

    /// The part of it that also a bound agent can change.
    pub fn look_near(&self) -> Result<Guard, Error> {
        git::worktree::restore_missing_link(&self.worktree)?;
        self.watch.look_near(&self.worktree)
    }

    /// The same before a node that may write: what was seen at the end of the one right before it, or a new look.
    pub fn look_before(&mut self, own: &str, kept: &str) -> Result<Guard, Error> {
        self.settled = false;
        self.worktree.release();
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => self.look(own, kept)?,
        };
        self.refs_before = Some(seen.ref_targets());
        Ok(seen)
    }

    /// Keeps a look for the node that comes next. A pause in between makes it worthless: [`WorkingCopy::release`].
    pub fn keep_look(&mut self, look: Guard) {
        self.seen = Some(look);
    }

    /// Lets others work in it from now on: programs of a node, or the user.
    pub fn release(&mut self) {
        self.forget_look();
        self.refs_before = None;
        self.worktree.release();
    }

    /// The programs of a node have ended: only pleach writes there.
    pub fn acquire(&mut self) {
        self.worktree.acquire();
    }

    /// What was seen last is no longer so.
    pub fn forget_look(&mut self) {
        self.seen = None;
        self.settled = false;
    }

    /// The directory agents work in.
    pub fn path(&self) -> &Path {
        self.worktree.root()
    }

    /// What the repository keeps of this worktree alone: HEAD, index, what is under way.
    pub fn git_dir(&self) -> &Path {
        self.worktree.git_dir()
    }

    /// How many files of it are not committed, though they are new or changed: too large, or no files git can hold.
    pub fn held_back(&self) -> usize {
        self.held.files().count()
    }

    /// What is too much to commit. What the repository had before the running node is not new, whatever that did in
    /// between.
    pub(super) fn limits(&self) -> CommitLimits {
        let past = Past { own: vec![self.at.tip, self.at.base], refs: self.refs_before.clone() };
        CommitLimits { past: Some(past), ..self.limits.clone() }
    }

    /// The commits it is at.
    pub fn at(&self) -> CopyPosition {
        self.at
    }

    /// The tree of the newest recorded commit.
    pub fn tree(&self) -> Result<TreeId, Error> {
        Ok(self.repo.tree_of(self.at.tip)?)
    }

    /// Whether the running node has changed anything that is recorded.
    pub fn has_changed(&self) -> Result<bool, Error> {
        Ok(self.at.tip != self.at.base && self.repo.tree_of(self.at.base)? != self.repo.tree_of(self.at.tip)?)
    }

    /// Whether git shows changes in it, as far as is known without looking at its files. What cannot be read counts as
    /// changed; whoever commits it says what is wrong.
    pub fn is_dirty(&self) -> bool {
        self.is_overlaid || self.held_back() > 0 || self.has_changed().unwrap_or(true)
    }

    /// Whether the commits of turns are on the session's branch, where people see them.
    pub fn carries_turns(&self) -> bool {
        self.carries == Commits::Turns
    }

    /// Takes a change as recorded: what comes next is compared with it.
    pub fn accept(&mut self, change: &TurnChange) -> Result<(), Error> {
        match change.commit {
            Some(commit) => self.take(commit, change.tree),
            None => Ok(()),
        }
    }

    /// Ends a node: HEAD and index follow to the newest recorded commit.
    pub fn follow(&mut self) -> Result<(), Error> {
        let at_base = Some(Head { commit: self.at.base, branch: None });
        if self.at.base != self.at.tip || git::worktree::agent_head(&self.worktree)? != at_base {
            git::worktree::follow(&mut self.worktree, self.at.tip)?;
            self.at.base = self.at.tip;
        }
        Ok(())
    }

    /// Ties the worktree to its repository again, whatever an agent has made of that. Returns where things are that
    /// had to make way, now or since this was last asked.
    pub fn tie(&mut self) -> Result<Vec<PathBuf>, Error> {
        git::worktree::restore_link(&mut self.worktree)?;
        Ok(self.worktree.take_moved_aside())
    }

    /// Takes a commit that was prepared here and is recorded by now.
    pub fn take(&mut self, commit: CommitId, tree: TreeId) -> Result<(), Error> {
        self.at.tip = commit;
        self.worktree.accept(tree)?;
        Ok(())
    }

    /// The user's checkout has followed the branch. What came with it is not a change.
    pub fn checkout_followed(&mut self) {
        self.forget_look();
        self.watch.renew();
    }

    /// The lock that is held as long as anything runs in it.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Takes a commit whose files it has as its position, while its branch is elsewhere.
    pub fn place(&mut self, commit: CommitId) {
        self.at = CopyPosition::all(commit);
    }
}
