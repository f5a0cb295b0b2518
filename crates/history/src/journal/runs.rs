//! Whose events are meant: a run of a session, or all of them.

use git::record::ChainTip;
use pleach_core::ids::{RunId, SessionId};

/// A run, or all runs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunScope {
    /// All runs of a session.
    Session(SessionId),
    /// One run.
    Run(RunId),
}

impl RunScope {
    /// The session.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Session(session) => session,
            Self::Run(run) => &run.session,
        }
    }

    /// Whether a chain of records belongs to it.
    pub(super) fn has(&self, chain: &ChainTip) -> bool {
        match self {
            Self::Session(session) => chain.session == *session,
            Self::Run(run) => chain.session == run.session && run.has(&chain.context),
        }
    }
}
