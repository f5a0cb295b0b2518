//! What is told of a git that broke off while it wrote files in a checkout, or the ref after them: the disk is full, a
//! filter fails, or nobody may write there.

use std::fmt;
use std::path::PathBuf;

use crate::ids::{BranchName, CommitId, RepoPath};
use crate::text::named;

/// A landing that git broke off, or could not begin.
#[derive(Debug, thiserror::Error)]
pub struct BrokenOff {
    pub(super) target: BranchName,
    pub(super) checkout: PathBuf,
    /// How git ended, and its own words.
    pub(super) end: String,
    /// The branch that has the work, or its commit; none where no file was to change.
    pub(super) work: Option<String>,
    pub(super) from: CommitId,
    pub(super) to: CommitId,
    /// None where that cannot be found out.
    pub(super) left: Option<Left>,
}

/// What git has written or removed.
#[derive(Debug)]
pub(super) enum Left {
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
            Some(Left::Half { .. }) | None => {
                write!(f, "git broke off while it wrote files in `{place}`, which may be half written now")
            }
        }?;
        write!(f, " ({end})")?;
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
            write!(f, ", with `git restore -- FILE` for {}", named(changed))?;
        }
        if !added.is_empty() {
            let and = if changed.is_empty() { "," } else { ", and" };
            write!(f, "{and} by deleting what was not there before: {}", named(added))?;
        }
        write!(f, "; then run again; `git diff --name-only {} {}` lists all that lands", from.short(), to.short())
    }
}
