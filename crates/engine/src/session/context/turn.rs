//! Turns an agent's turn into a record, and its changes into a commit.

use serde_json::{Value, json};

use super::pending::Writers;
use super::{Context, recording};
use crate::env::Error;
use crate::session::executor::Conversation;
use crate::session::worker::TurnReport;
use agents::llm::Message;
use git::record::Batch;
use git::workspace::Changes;
use pleach_core::event::{AgentTurn, Event, MessageRange, Snapshot, TurnCommitted};
use pleach_core::ids::{CommitId, NodeId, RepoName, TurnId};
use pleach_core::state::Position;

/// A recorded turn.
#[derive(Debug)]
pub(crate) struct RecordedTurn {
    /// Its changes, which become the new state of the worktrees.
    pub changes: Changes,
    /// Another process moved its branch, so nothing more can be built on it.
    pub is_stopped: bool,
}

pub(crate) fn record_turn(
    context: &mut Context,
    report: TurnReport,
    conversation: &Conversation,
) -> Result<RecordedTurn, Error> {
    let TurnReport { turn, at, messages, mut changes } = report;
    let writers = take_writers(context, &mut changes);
    remember(context, conversation, &messages);
    let summary = turn_summary(&turn.turn.to_string(), &turn.node_id, &changes);
    let mut events = vec![numbered(context, turn, messages.len()).into()];
    events.extend(committed(context, &changes));
    let commits = changes.commits();
    let batch = Batch { summary, messages, work: recorded_work(context, &commits), ..Batch::default() };
    let tips = if recording::carries_turns(context) { commits } else { Snapshot::new() };
    recording::record_with(context, writers, batch, events, at, &tips)?;
    let (from, broken) = movable(context, Some(&changes))?;
    recording::move_branches(context, &from, &tips)?;
    Ok(RecordedTurn { changes, is_stopped: broken.is_some() })
}

/// The commits the branches can be moved from after a change, and why one of them cannot be moved.
pub(super) fn movable(context: &Context, changes: Option<&Changes>) -> Result<(Snapshot, Option<String>), Error> {
    let (mut from, mut broken) = (Snapshot::new(), None);
    for (repo, follower) in &context.followers {
        let seen = changes.and_then(|changes| changes.of(repo)?.branch);
        match follower.moves_from(seen) {
            Ok(at) => drop(from.insert(repo.clone(), at)),
            Err(error) if error.is_of_own_branch() => broken = broken.or(Some(error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((from, broken))
}

/// The commits that can be parents of a record: those of its own repository.
pub(crate) fn recorded_work(context: &Context, commits: &Snapshot) -> Vec<CommitId> {
    commits.get(context.plan.repos.record_name()).copied().into_iter().collect()
}

/// Takes the writers that hold the objects of a change.
pub(super) fn take_writers(context: &Context, changes: &mut Changes) -> Writers {
    changes.take_writers(|repo| context.plan.repo_of(repo).writer())
}

/// The turn with the numbers of its messages.
pub(super) fn numbered(context: &Context, mut turn: AgentTurn, messages: usize) -> AgentTurn {
    let first = context.recorder.next_message();
    turn.messages = (messages > 0).then(|| MessageRange { first, last: first + messages as u64 - 1 });
    // The built-in agent resumes from its conversation: everything since the node's prompt.
    let begin = first_message(context).unwrap_or(first);
    let spoken = turn.messages.map(|range| json!({"messages": MessageRange { first: begin, ..range }}));
    turn.agent_state_ref = match (turn.agent_state_ref.take(), spoken) {
        // Agents with their own state resume from it; the messages serve agents that lost it.
        (Some(Value::Object(mut own)), Some(Value::Object(spoken))) => {
            own.extend(spoken);
            Some(Value::Object(own))
        }
        (own, spoken) => own.or(spoken),
    };
    turn
}

pub(super) fn committed(context: &Context, changes: &Changes) -> Vec<Event> {
    if !recording::carries_turns(context) {
        return Vec::new();
    }
    let turn = TurnId { context: context.id.clone(), number: context.state.turns + 1 };
    let committed = |(repo, git_sha): (RepoName, CommitId)| {
        let branch = context.state.branches.get(&repo)?.clone();
        Some(TurnCommitted { turn: turn.clone(), repo, branch, git_sha, extra: Default::default() }.into())
    };
    changes.commits().into_iter().filter_map(committed).collect()
}

pub(super) fn remember(context: &mut Context, conversation: &Conversation, messages: &[Value]) {
    if let Some(thread) =
        conversation.thread.as_ref().and_then(|thread| context.memory.heard_mut().threads.get_mut(thread))
    {
        thread.extend(messages.iter().filter_map(|message| serde_json::from_value::<Message>(message.clone()).ok()));
    }
}

fn turn_summary(turn: &str, node: &NodeId, changes: &Changes) -> String {
    let first = changes.paths().next().map(|path| format!(" — {path}")).unwrap_or_default();
    let more = match changes.paths().count() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    format!("turn {turn}: {node}{first}{more}")
}

/// The number of the running node's first message: its prompt.
pub(super) fn first_message(context: &Context) -> Option<u64> {
    match &context.state.position {
        Position::Running { turns, .. } => turns.iter().find_map(|turn| turn.messages).map(|range| range.first),
        _ => None,
    }
}
