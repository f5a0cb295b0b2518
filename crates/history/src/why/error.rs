//! Why there is no answer.

use git::record::EntryError;

/// Why it cannot be said why a line is there.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// The merge queue cannot be read.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The record of a session cannot be read.
    #[error(transparent)]
    Record(#[from] git::record::Error),
}
