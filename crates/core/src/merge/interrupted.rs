//! The report of a git that was interrupted while it wrote files in a checkout, or the ref after them: the disk is
//! full, a filter fails, or nobody may write there.

use std::fmt;
use std::path::PathBuf;

use crate::ids::{BranchName, CommitId, RepoPath};
use crate::text::named;

/// A landing that git broke off, or could not start.
#[derive(Debug, thiserror::Error)]
pub struct BrokenOff {
    /// The branch that was to move.
    pub target: BranchName,
    /// The checkout that has it.
    pub checkout: PathBuf,
    /// How git ended, and its own words.
    pub end: String,
    /// The branch that has the work, or its commit; none where no file was to change.
    pub work: Option<String>,
    /// Where it is.
    pub from: CommitId,
    /// Where it was to go.
    pub to: CommitId,
    /// What git has written there; none where that cannot be found out.
    pub left: Option<WrittenFiles>,
}

/// What git has written or removed.
#[derive(Debug, PartialEq, Eq)]
pub enum WrittenFiles {
    /// Nothing.
    None,
    /// All files and the index are done, and only the branch has not moved.
    All,
    /// These.
    Some(Vec<RepoPath>),
}

/// A path git was to change, as it is found.
#[derive(Debug)]
pub struct FoundPath {
    /// The path.
    pub path: RepoPath,
    /// The commit that is checked out has nothing there.
    pub is_new: bool,
    /// Something is there.
    pub exists: bool,
    /// What is there is not what that commit has.
    pub differs: bool,
    /// A file was written after git was called. Earlier differences are not git's.
    pub touched: bool,
}

impl WrittenFiles {
    /// The state of the paths. Git writes the index after the files and before the ref.
    pub fn of(index_is_done: bool, paths: Vec<FoundPath>) -> Self {
        if index_is_done && !paths.is_empty() {
            return Self::All;
        }
        let is_written = |found: &FoundPath| found.touched && if found.is_new { found.exists } else { found.differs };
        let written: Vec<RepoPath> = paths.into_iter().filter(is_written).map(|found| found.path).collect();
        if written.is_empty() { Self::None } else { Self::Some(written) }
    }
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, checkout, end, work, from, to, left } = self;
        let place = checkout.display();
        let stuck = format!("git could not move `{target}`, which is checked out in `{place}`, and has");
        match left {
            Some(WrittenFiles::None) => write!(f, "{stuck} changed no file there"),
            Some(WrittenFiles::All) => write!(f, "{stuck} all files there up to date already"),
            Some(WrittenFiles::Some(written)) => write!(
                f,
                "git was interrupted while it wrote files in `{place}`, which may be incomplete: {}",
                named(written)
            ),
            None => write!(f, "git was interrupted while it wrote files in `{place}`, which may be incomplete"),
        }?;
        write!(f, " ({end})")?;
        if let Some(work) = work {
            write!(f, "; no work is lost, it is at `{work}`")?;
        }
        match left {
            Some(WrittenFiles::None | WrittenFiles::All) => f.write_str("; fix what git reports, then run again"),
            Some(WrittenFiles::Some(_)) | None => write!(
                f,
                "; `git diff --name-only {} {}` lists all that lands; fix what git reports, then run again: what git has left there is written anew",
                from.short(),
                to.short()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, is_new: bool, exists: bool, differs: bool) -> FoundPath {
        FoundPath { path: path.into(), is_new, exists, differs, touched: true }
    }

    #[test]
    fn only_files_git_has_written_are_reported() {
        let paths = || vec![found("new", true, true, true), found("old", false, true, true)];
        assert_eq!(WrittenFiles::of(true, paths()), WrittenFiles::All);
        assert_eq!(WrittenFiles::of(false, paths()), WrittenFiles::Some(vec!["new".into(), "old".into()]));
        let untouched = paths().into_iter().map(|found| FoundPath { touched: false, ..found }).collect();
        assert_eq!(WrittenFiles::of(false, untouched), WrittenFiles::None, "somebody has changed them before");
        let not_yet = vec![found("new", true, false, false), found("old", false, true, false)];
        assert_eq!(WrittenFiles::of(false, not_yet), WrittenFiles::None);
        let removed = WrittenFiles::Some(vec!["old".into()]);
        assert_eq!(WrittenFiles::of(false, vec![found("old", false, false, true)]), removed);
        assert_eq!(WrittenFiles::of(true, Vec::new()), WrittenFiles::None, "a step may change no file");
    }
}
