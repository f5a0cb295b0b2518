//! What is left in a checkout by a git that broke off while it wrote files there, or the ref after them: the disk is full,
//! a filter fails, or nobody may write there.
//! It is told and not undone, for nobody knows who else has written there meanwhile.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::adopt::place;
use super::diff::ChangeKind;
use super::error::Error;
use super::merge::listed;
use super::object::EntryKind;
use super::repo::Repo;
use crate::ids::{BranchName, CommitId, RepoPath};

/// Time stamps of files lag behind the clock by up to this.
const LAG: SignedDuration = SignedDuration::from_millis(100);

/// A landing that git broke off, or could not begin.
#[derive(Debug, thiserror::Error)]
pub struct BrokenOff {
    target: BranchName,
    checkout: PathBuf,
    /// How git ended, and its own words; none where that was some time ago.
    end: Option<String>,
    /// The branch that has the work, or its commit; none where no file was to change.
    work: Option<String>,
    from: CommitId,
    to: CommitId,
    /// None where that cannot be found out.
    left: Option<Left>,
}

/// What git has written or removed.
#[derive(Debug)]
enum Left {
    Nothing,
    /// All files and the index are done, and only the branch has not moved.
    Whole,
    Half {
        /// What is to be as the checkout's commit has it.
        changed: Vec<RepoPath>,
        /// What that commit has not.
        added: Vec<RepoPath>,
    },
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, checkout, end, work, from, to, left } = self;
        let place = checkout.display();
        let stuck = format!("git could not move `{target}`, which is checked out in `{place}`, and has");
        match left {
            Some(Left::Nothing) => write!(f, "{stuck} changed no file there"),
            Some(Left::Whole) => write!(f, "{stuck} all files there up to date already"),
            Some(Left::Half { .. }) | None if end.is_none() => {
                write!(
                    f,
                    "files in `{place}` have only the beginning of what lands, as a git leaves them that broke off"
                )
            }
            Some(Left::Half { .. }) | None => {
                write!(f, "git broke off while it wrote files in `{place}`, which may be half written now")
            }
        }?;
        if let Some(end) = end {
            write!(f, " ({end})")?;
        }
        if let Some(work) = work {
            write!(f, "; the work is whole, at `{work}`")?;
        }
        let undo = "; when git can write again, undo what it did";
        let (changed, added) = match left {
            Some(Left::Nothing | Left::Whole) => return write!(f, "; mend what git names and run again"),
            None => return write!(f, "{undo}, which `git status` shows there; then run again"),
            Some(Left::Half { changed, added }) => (changed, added),
        };
        write!(f, "{undo}")?;
        if !changed.is_empty() {
            write!(f, ", with `git restore -- FILE` for {}", listed(changed))?;
        }
        if !added.is_empty() {
            let and = if changed.is_empty() { "," } else { ", and" };
            write!(f, "{and} by deleting what was not there before: {}", listed(added))?;
        }
        write!(f, "; then run again; `git diff --name-only {} {}` lists all that lands", from.short(), to.short())
    }
}

impl Repo {
    /// The failure of a git that was to move the checkout of a branch, with what it has left there since `begun`, and where
    /// the work is.
    pub(super) fn broken_off(
        &self,
        failure: Error,
        (target, checkout): (&BranchName, &Path),
        (from, to): (CommitId, CommitId),
        begun: Timestamp,
    ) -> Error {
        let Error::Program { exit, stderr, .. } = failure else { return failure };
        // What cannot be found out now keeps nobody from saying what has happened.
        let left = self.left(checkout, (from, to), begun).ok();
        self.told(Some(format!("{exit}: {stderr}")), (target, checkout), (from, to), left)
    }

    /// The same of a git that broke off some time ago, if that is all that is wrong with the files that are in the way of
    /// `to`: each has the beginning of what lands there, and nothing of it is staged.
    pub(super) fn broken_off_before(
        &self,
        (target, checkout): (&BranchName, &Path),
        (from, to): (CommitId, CommitId),
        in_the_way: &[RepoPath],
    ) -> Result<Option<Error>, Error> {
        let (before, after, staged) = (self.tree_of(from)?, self.tree_of(to)?, self.staged(checkout, from)?);
        let (mut changed, mut added) = (Vec::new(), Vec::new());
        for path in in_the_way {
            let lands = self.tree_entry(after, path)?;
            let lands = lands.filter(|entry| matches!(entry.kind, EntryKind::File | EntryKind::Executable));
            let Some(lands) = lands.filter(|entry| !staged.contains_key(&entry.path)) else { return Ok(None) };
            let (there, whole) = (place(checkout, path), self.blob(lands.id)?);
            let is_shorter = |data: &Metadata| data.is_file() && data.len() < whole.len() as u64;
            let there = there.symlink_metadata().ok().filter(is_shorter).and_then(|_| std::fs::read(there).ok());
            if there.is_none_or(|there| !whole.starts_with(&there)) {
                return Ok(None);
            }
            let is_new = self.tree_entry(before, path)?.is_none();
            if is_new { &mut added } else { &mut changed }.push(path.clone());
        }
        Ok(Some(self.told(None, (target, checkout), (from, to), Some(Left::Half { changed, added }))))
    }

    fn told(
        &self,
        end: Option<String>,
        (target, checkout): (&BranchName, &Path),
        (from, to): (CommitId, CommitId),
        left: Option<Left>,
    ) -> Error {
        let is_same = self.tree_of(from).ok() == self.tree_of(to).ok();
        let work = (!is_same).then(|| {
            let branches = self.references("refs/heads/").unwrap_or_default();
            let branch = branches.into_iter().find(|(_, tip)| *tip == to).map(|(name, _)| name);
            let branch = branch.as_deref().and_then(|name| name.strip_prefix("refs/heads/")).map(str::to_owned);
            branch.unwrap_or_else(|| to.to_string())
        });
        let (target, checkout) = (target.clone(), checkout.to_owned());
        Box::new(BrokenOff { target, checkout, end, work, from, to, left }).into()
    }

    /// The paths that are not as `from` has them, of those that `to` changes, but for what somebody changed before `begun`.
    fn left(&self, checkout: &Path, (from, to): (CommitId, CommitId), begun: Timestamp) -> Result<Left, Error> {
        let commit = from.to_string();
        let args = ["diff-index", "--name-only", "--no-renames", "-z", &commit, "--"];
        let names = self.shared.program.run(checkout, args)?.success()?;
        let differing: BTreeSet<&[u8]> = names.split(|byte| *byte == 0).collect();
        let changes = self.changes(self.tree_of(from)?, self.tree_of(to)?)?;
        // The index comes after the files and before the ref.
        let unstaged = self.staged(checkout, to)?;
        if !changes.is_empty() && changes.iter().all(|change| !unstaged.contains_key(&change.path)) {
            return Ok(Left::Whole);
        }
        let (mut changed, mut added) = (Vec::new(), Vec::new());
        for change in changes {
            let place = place(checkout, &change.path);
            // What is gone shows where it was.
            let nearest = place.ancestors().find_map(|place| place.symlink_metadata().ok());
            let is_new = nearest.is_some_and(|data| {
                let nanoseconds = i32::try_from(data.ctime_nsec()).unwrap_or_default();
                Timestamp::new(data.ctime(), nanoseconds).is_ok_and(|at| at >= begun - LAG)
            });
            match change.kind {
                _ if !is_new => {}
                ChangeKind::Added(..) if place.symlink_metadata().is_ok() => added.push(change.path),
                ChangeKind::Added(..) => {}
                _ if differing.contains(change.path.as_bytes()) => changed.push(change.path),
                _ => {}
            }
        }
        Ok(if changed.is_empty() && added.is_empty() { Left::Nothing } else { Left::Half { changed, added } })
    }
}
