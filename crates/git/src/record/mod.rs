//! The record of a session: a chain of commits on a hidden ref, each an ordered batch of events. The ref is
//! `refs/pleach/sessions/{sid}/{context}`; a commit has the messages that are new in it as well. One compare-and-swap of the
//! ref is one transition of the session.
//!
//! The states of an entry of the merge queue are chains of the same kind, in `entries`.
//!
//! Layout and field by field description: `docs/records.md`.

mod chain;
mod cut;
pub mod entries;
mod message;
mod planning;
mod reader;
mod stored;
mod turns;
mod walk;
mod writer;

pub use chain::{check_chain, work_commits};
pub use cut::{CutTarget, NoCut, cut_at, left_events};
pub use entries::{EntryError, StoredEntry, entry_history, entry_log, read_entry};
pub use planning::{PLANNING, record_planning};
pub use reader::{History, Record, TaskSummary};
pub use stored::{ChainRecord, StoredRecord, chain_records};
pub use turns::AgentTurns;
pub use walk::{ChainTip, ChainWalk, RecordCommit, StoredMessage, chain_tips};
pub use writer::{Batch, ChainEnd, Recorder};

use crate::git::{self, Repo};
use pleach_core::event::EventError;
use pleach_core::ids::{ContextId, RunId, SessionId};

/// The trailer that marks a commit as a record; its value is the layout's version.
const RECORD_TRAILER: &str = "Pleach-Record";

/// The trailer that names the session.
const SESSION_TRAILER: &str = "Pleach-Session";

/// The trailer that names the context whose record it is.
const CONTEXT_TRAILER: &str = "Pleach-Context";

/// The trailer that names the task of a tree a session works on.
const TASK_TRAILER: &str = "Pleach-Task";

/// The trailer of a record that tells where a task has landed: the commit the branch it belongs on has moved to.
const LANDED_TRAILER: &str = "Pleach-Landed";

/// The layout this program writes, and the newest it reads.
const RECORD_VERSION: u32 = 1;

/// Under this prefix every session has its refs.
pub const SESSIONS: &str = "refs/pleach/sessions/";

/// The ref that holds a context's chain of records.
pub fn context_ref(session: &SessionId, context: &ContextId) -> String {
    format!("{SESSIONS}{session}/{context}")
}

/// The ref that holds the records of a run's root, which tells whether the run goes on.
pub fn root_ref(run: impl Into<RunId>) -> String {
    let RunId { session, root } = run.into();
    context_ref(&session, &root)
}

/// The contexts of a session, by name.
pub fn contexts(repo: &Repo, session: &SessionId) -> Result<Vec<ContextId>, git::Error> {
    let prefix = format!("{SESSIONS}{session}/");
    let names = repo.refs().names(&prefix)?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok()).collect())
}

/// The contexts of a run, by name.
pub fn run_contexts(repo: &Repo, run: &RunId) -> Result<Vec<ContextId>, git::Error> {
    Ok(contexts(repo, &run.session)?.into_iter().filter(|context| run.has(context)).collect())
}

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// The ref moved although this process holds the session.
    #[error("another process wrote to session {session}; nothing was overwritten")]
    Moved {
        /// The session.
        session: SessionId,
    },
    /// A session with that id is there already.
    #[error("session {session} exists already")]
    Exists {
        /// The session.
        session: SessionId,
    },
    /// No such session.
    #[error("there is no session {session} in this repository")]
    Missing {
        /// The session.
        session: SessionId,
    },
    /// A record cannot be read.
    #[error("record {commit} of session {session} cannot be read: {why}")]
    Unreadable {
        /// The session.
        session: SessionId,
        /// The record's commit.
        commit: pleach_core::ids::CommitId,
        /// What is wrong.
        why: String,
    },
    /// What a record is made of is not there, or not what it was.
    #[error("the record of session {session} is damaged: {source}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// What is wrong.
        source: Box<git::Error>,
    },
    /// An event in a record cannot be read.
    #[error("record {commit} cannot be read")]
    Event {
        /// The record's commit.
        commit: pleach_core::ids::CommitId,
        /// What is wrong.
        source: EventError,
    },
}

fn unreadable(session: &SessionId, commit: pleach_core::ids::CommitId, why: String) -> Error {
    Error::Unreadable { session: session.clone(), commit, why }
}

impl Error {
    /// The same, with the session it is about: what git says of an object does not tell whose it was.
    fn of(self, session: &SessionId) -> Self {
        match self {
            Self::Git(source) if source.is_damage() => {
                Self::Damaged { session: session.clone(), source: source.into() }
            }
            other => other,
        }
    }
}
