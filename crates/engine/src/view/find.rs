//! Finds sessions and their worktrees.

use git::record::{self, History};
use git::{ListedWorktree, Repo};
use pleach_core::ids::SessionId;
use pleach_core::text::listed;

/// The worktrees of a session: `{base}/{session}/{context}`, with several repositories one level below.
pub fn session_worktrees(repo: &Repo, id: &SessionId) -> Result<Vec<ListedWorktree>, git::Error> {
    let of_session = |listed: &ListedWorktree| {
        let mut above = listed.path.ancestors().skip(1).take(2).filter_map(|above| above.file_name());
        above.any(|name| name == id.as_str()) && (listed.is_own || listed.is_tied())
    };
    Ok(git::worktree::list_linked(repo)?.into_iter().filter(of_session).collect())
}

/// A text that matches no session, or more than one.
#[derive(Debug, thiserror::Error)]
pub enum NoSession {
    /// No session matches.
    #[error("there is no session `{given}` in this repository")]
    Unknown {
        /// The text.
        given: String,
        /// The existing sessions.
        known: Vec<SessionId>,
    },
    /// More than one session matches.
    #[error("`{given}` is the beginning of several sessions: {}", listed(candidates, usize::MAX))]
    Ambiguous {
        /// The text.
        given: String,
        /// The matching sessions.
        candidates: Vec<SessionId>,
    },
    /// The sessions could not be listed.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The session whose id starts with `given`.
pub fn resolve_session(repo: &Repo, given: &str) -> Result<SessionId, NoSession> {
    let known = History::sessions(repo)?;
    let mut candidates: Vec<SessionId> =
        known.iter().filter(|id| !given.is_empty() && id.as_str().starts_with(given)).cloned().collect();
    match candidates.len() {
        0 => Err(NoSession::Unknown { given: given.to_owned(), known }),
        1 => Ok(candidates.remove(0)),
        _ => Err(NoSession::Ambiguous { given: given.to_owned(), candidates }),
    }
}
