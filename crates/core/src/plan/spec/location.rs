//! Where something is in a spec.

/// A line of one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpecLocation {
    pub file: usize,
    pub line: u64,
}
