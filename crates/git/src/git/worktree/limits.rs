//! Limits on what is committed without a person looking at it.

use super::Past;

/// What is too much to commit without a person looking at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLimits {
    /// The largest file, in bytes as git would store it.
    pub max_file: u64,
    /// The largest number of new files at once.
    pub max_new_paths: usize,
    /// Whether files in the directory of a submodule replace its link.
    pub in_submodules: bool,
    /// Whether deletions are in the tree though something is held back: what is held back may be what was deleted
    /// elsewhere.
    pub with_deletions: bool,
    /// Where content is found that is not new, beside the recorded tree.
    pub past: Option<Past>,
}

impl Default for CommitLimits {
    fn default() -> Self {
        let (max_file, max_new_paths) = (50 * MIB, 5_000);
        Self { max_file, max_new_paths, in_submodules: false, with_deletions: false, past: None }
    }
}

impl CommitLimits {
    /// No limits, for saving everything before it is removed.
    pub const NONE: Self =
        Self { max_file: u64::MAX, max_new_paths: usize::MAX, in_submodules: true, with_deletions: true, past: None };

    /// Other numbers, as the settings have them; 0 is no limit.
    pub fn new(max_file_mb: u64, max_new_files: u64) -> Self {
        let max_file = if max_file_mb == 0 { u64::MAX } else { max_file_mb.saturating_mul(MIB) };
        let max_new_paths =
            if max_new_files == 0 { usize::MAX } else { usize::try_from(max_new_files).unwrap_or(usize::MAX) };
        Self { max_file, max_new_paths, ..Self::default() }
    }
}

/// What the size limit is counted in.
pub(super) const MIB: u64 = 1024 * 1024;
