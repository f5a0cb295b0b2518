//! Only the turns of agents, for counting. Records without any are not parsed.

use jiff::Timestamp;
use serde_json::Value;

use super::{CONTEXT_TRAILER, Error, RECORD_TRAILER, TASK_TRAILER};
use crate::git::Repo;
use pleach_core::event::{AgentTurn, Event, EventError, Recorded};
use pleach_core::ids::{CommitId, RepoPath, TaskId};
use pleach_core::trailer::CommitMessage;

/// What every record with a turn of an agent in it contains.
const MARK: &[u8] = b"dev.orchestra.AgentTurn";

/// The turns of agents in a chain of records.
#[derive(Debug, Default)]
pub struct AgentTurns {
    /// The task of a tree the session works on.
    pub task: Option<TaskId>,
    /// The turns with the moment each was recorded, oldest first.
    pub turns: Vec<(Timestamp, AgentTurn)>,
    /// The chain goes on from the record that was known.
    pub reached_known: bool,
}

impl AgentTurns {
    /// Reads a chain from its newest record back to the one that is `known`, as far as records are not older than
    /// `since`.
    pub fn read(repo: &Repo, tip: CommitId, known: Option<CommitId>, since: Option<Timestamp>) -> Result<Self, Error> {
        let mut read = Self::default();
        let (mut next, mut context) = (Some(tip), None);
        while let Some(id) = next {
            if known == Some(id) {
                read.reached_known = true;
                break;
            }
            let commit = repo.commit(id)?;
            let message = CommitMessage::read(&commit.text());
            if message.trailer(RECORD_TRAILER).is_none() || since.is_some_and(|since| commit.at < since) {
                break;
            }
            // What another context has spent is told by its own ref.
            let of_context = message.trailer(CONTEXT_TRAILER).map(str::to_owned);
            if *context.get_or_insert_with(|| of_context.clone()) != of_context {
                break;
            }
            read.task = read.task.or_else(|| message.trailer(TASK_TRAILER).and_then(|task| task.parse().ok()));
            let bytes = repo.tree_file(commit.tree, &RepoPath::from("events.json"))?.unwrap_or_default();
            if bytes.windows(MARK.len()).any(|part| part == MARK) {
                let malformed = |source| EventError::Malformed { kind: "events.json".to_owned(), source };
                let values: Vec<Value> = serde_json::from_slice(&bytes)
                    .map_err(|error| Error::Event { commit: id, source: malformed(error) })?;
                // Newest first here too, for the whole is turned around at the end.
                for value in values.into_iter().rev() {
                    let recorded = Recorded::from_json(value).map_err(|source| Error::Event { commit: id, source })?;
                    if let Event::AgentTurn(turn) = recorded.event {
                        read.turns.push((recorded.at, turn));
                    }
                }
            }
            next = commit.parents.first().copied();
        }
        read.turns.reverse();
        Ok(read)
    }
}
