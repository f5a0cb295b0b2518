//! What a file looks like from outside.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// What a file looks like from outside. As long as that is the same, nobody reads it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    modified: SystemTime,
    length: u64,
}

impl Stamp {
    /// That of a file; none when there is no such file.
    pub fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { modified: file.modified().ok()?, length: file.len() })
    }
}
