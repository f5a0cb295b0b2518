//! Files that changed and are not committed.

use std::fmt;

use super::FileStamp;
use super::limits::MIB;
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::RepoPath;
use pleach_core::text::shorten;

/// A file that was not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// Which file.
    pub path: RepoPath,
    /// Why.
    pub reason: HoldReason,
    /// What it looked like, unless it is gone by now.
    pub seen: Option<FileStamp>,
}

/// Why a file was not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldReason {
    /// It is larger than the limit.
    TooLarge(u64),
    /// It is one of this many new files, more than the limit.
    TooMany(usize),
    /// The tree has something else there or above it, whose deletion is not committed while something is held back.
    NoRoom,
    /// No path leads to it: it lies too deep.
    TooDeep,
    /// Git does not allow its name, because on some systems it would mean `.git`.
    Name,
    /// A submodule belongs there, and is not checked out.
    Submodule,
    /// It cannot be read.
    Unreadable(String),
    /// The filter that git's attributes ask for failed.
    Filter(String),
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(size) => {
                write!(f, "{} MiB is over the size limit (`commit.max_file_mb`)", size.div_ceil(MIB))
            }
            Self::TooMany(count) => write!(
                f,
                "one of {count} new files, more than the limit (`commit.max_new_files`); add generated files to .gitignore"
            ),
            Self::NoRoom => f.write_str("it replaces files whose deletion is not committed either"),
            Self::TooDeep => f.write_str("its path is too long"),
            Self::Name => f.write_str("git does not allow this name"),
            Self::Submodule => {
                f.write_str("it is in the directory of a submodule, whose recorded commit does not change")
            }
            Self::Unreadable(detail) => write!(f, "cannot be read: {detail}"),
            Self::Filter(detail) => write!(f, "its git filter failed: {detail}"),
        }
    }
}

/// How many files of a kind a warning names.
pub(super) const SHOWN: usize = 5;

/// Which files are held back and why, one line each, and how many more.
pub(super) fn in_words(held_back: &[HeldBack]) -> impl Iterator<Item = Warning> {
    const LONGEST_NAME: usize = 160;
    let name = |path: &RepoPath| shorten(&path.to_string(), LONGEST_NAME);
    let held = held_back.iter().take(SHOWN);
    let held = held.map(move |held| format!("`{}` is not committed: {}", name(&held.path), held.reason));
    let rest = held_back.len().saturating_sub(SHOWN);
    let held = held.chain((rest > 0).then(|| format!("{rest} more files are not committed")));
    held.map(|text| WarningCode::FileHeldBack.with(text))
}
