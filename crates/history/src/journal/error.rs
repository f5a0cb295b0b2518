//! What of the log cannot be read.

use git::record;
use git::record::entries::EntryError;
use pleach_core::ids::SessionId;

/// What of the log cannot be read. The rest of it can.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A session.
    #[error("session {session} is left out from here on")]
    Session {
        /// The session.
        session: SessionId,
        /// Why.
        source: Box<record::Error>,
    },
    /// An entry of the merge queue.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// Something in git.
    #[error(transparent)]
    Git(git::Error),
}

impl LogError {
    pub(super) fn of(session: &SessionId, source: record::Error) -> Self {
        Self::Session { session: session.clone(), source: source.into() }
    }
}
