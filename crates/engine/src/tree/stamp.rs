//! The size and modification time of a file.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The size and modification time of a file. While they are unchanged, the file is not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    modified: SystemTime,
    length: u64,
}

impl Stamp {
    /// The stamp of a file; `None` if it does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { modified: file.modified().ok()?, length: file.len() })
    }
}
