//! The agents that are at work on conflicts, beside the tests.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::answer::AgentAnswer;
use super::conflict::OpenConflict;
use crate::env::Supervisor;
use pleach_core::ids::{EntryId, SessionId};
use pleach_core::queue::QueueEntry;

/// The agents at work on conflicts, each beside the tests.
#[derive(Debug, Default)]
pub(super) struct Resolvers {
    pub(super) jobs: JoinSet<ResolverEnd>,
    /// The sessions of those that are still wanted, by entry.
    pub(super) sessions: BTreeMap<EntryId, SessionId>,
}

/// An agent's answer to the conflict of an entry.
#[derive(Debug)]
pub(super) struct ResolverEnd {
    pub(super) entry: QueueEntry,
    pub(super) session: SessionId,
    pub(super) conflict: OpenConflict,
    pub(super) answer: AgentAnswer,
}

impl Resolvers {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Waits for the next wanted agent to end; none if none runs.
    pub(super) async fn next(&mut self) -> Option<ResolverEnd> {
        while let Some(ended) = self.jobs.join_next().await {
            let ended = ended.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()));
            if self.sessions.get(&ended.entry.id) == Some(&ended.session) {
                self.sessions.remove(&ended.entry.id);
                return Some(ended);
            }
        }
        None
    }

    /// Stops agents whose result is not wanted.
    pub(super) fn stop(&mut self, supervisor: &Supervisor, is_wanted: impl Fn(&EntryId, &SessionId) -> bool) {
        for (_, session) in self.sessions.extract_if(.., |entry, session| !is_wanted(entry, session)) {
            supervisor.kill(&session.into());
        }
    }
}
