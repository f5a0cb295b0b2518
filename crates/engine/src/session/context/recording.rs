//! The single write path: fold, record, then move the branch.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Context, MadeStep, PendingRecord, Writers};
use crate::env::Error;
use crate::push::RefNote;
use git::record::Batch;
use git::workspace::branch_ref;
use pleach_core::clock;
use pleach_core::event::{Commits, Event, Recorded, Snapshot};
use pleach_core::ids::{CommitId, RepoName};

/// Number of events after which a checkpoint stores the state, so that a resume does not fold them again.
const KEEP_STATE_AFTER: usize = 200;

/// Bytes of stored state allowed per event. A larger state is stored less often, so that stored states grow no faster
/// than the events.
const STATE_PER_EVENT: usize = 100;

/// How many times as large as the state events have to be for it to be stored earlier: those of a run over very many nodes
/// are, for each of its checkpoints names all nodes. And the bytes of events below which that is not asked.
const EVENTS_PER_STATE: usize = 4;
const LARGE_EVENTS: usize = 1 << 20;

/// Writes pending events.
pub(crate) fn flush(context: &mut Context) -> Result<(), Error> {
    match context.pending.take() {
        Some(unwritten) => write_end(context, unwritten),
        None => Ok(()),
    }
}

/// Writes pending events if the branch has to follow them.
pub(crate) fn flush_commits(context: &mut Context) -> Result<(), Error> {
    match &context.pending {
        Some(pending) if pending.has_commits() => flush(context),
        _ => Ok(()),
    }
}

/// Folds events that may be written later. They go into the next record.
pub(crate) fn defer(context: &mut Context, summary: &str, events: Vec<Event>) -> Result<(), Error> {
    let events = fold(context, events, clock::now())?;
    context.pending.get_or_insert_default().add(summary, events);
    Ok(())
}

/// Defers the end of a node or of the task. A node that follows a pending one has made no changes; the task's last step
/// is built on that of the node before it.
pub(crate) fn defer_end(context: &mut Context, ended: PendingRecord) {
    match &mut context.pending {
        Some(before) => {
            if ended.step.is_some() {
                (before.writers, before.step) = (ended.writers, ended.step);
            }
            before.batch.work.extend(ended.batch.work);
            before.add(&ended.batch.summary, ended.batch.events);
        }
        none => *none = Some(ended),
    }
}

/// Writes the end of a node; the session branch, HEAD and index follow.
fn write_end(context: &mut Context, ended: PendingRecord) -> Result<(), Error> {
    let PendingRecord { writers, batch, branches, commits, step } = ended;
    let mut moves: Snapshot = if carries_turns(context) {
        commits.iter().map(|(repo, (commit, _))| (repo.clone(), *commit)).collect()
    } else {
        Snapshot::new()
    };
    moves.extend(step.iter().map(|step| (step.repo.clone(), step.commit)));
    write(context, writers, batch, &moves)?;
    move_branches(context, &branches, &moves)?;
    let workspace = context.working_mut();
    for (repo, (commit, tree)) in commits {
        workspace.take(&repo, commit, tree)?;
    }
    if let Some(MadeStep { repo, commit, tree }) = step {
        workspace.take(&repo, commit, tree)?;
    }
    Ok(workspace.follow()?)
}

/// Moves branches to recorded commits. A branch missing from `from` cannot be moved.
pub(crate) fn move_branches(context: &mut Context, from: &Snapshot, to: &Snapshot) -> Result<(), Error> {
    for (repo, follower) in &mut context.followers {
        match (from.get(repo), to.get(repo)) {
            (Some(from), Some(to)) => follower.advance(*from, *to)?,
            (None, Some(to)) => follower.leave_in_place(*to),
            (_, None) => {}
        }
    }
    let followed =
        context.followers.iter_mut().filter_map(|(repo, follower)| follower.take_followed().then(|| repo.clone()));
    let followed: Vec<RepoName> = followed.collect();
    match &mut context.workspace {
        Some(workspace) => workspace.checkouts_followed(&followed),
        // The worker that holds the worktrees learns of it with its next answer.
        None => context.followed.extend(followed),
    }
    Ok(())
}

/// Writes an event, such as the start of a node, in one record with the pending events.
pub(crate) fn write_with(context: &mut Context, summary: &str, event: Event) -> Result<(), Error> {
    if context.pending.is_some() {
        defer(context, summary, vec![event])?;
        return flush(context);
    }
    let events = fold(context, vec![event], clock::now())?;
    let batch = Batch { summary: summary.to_owned(), events, ..Batch::default() };
    write(context, Writers::new(), batch, &Snapshot::new())
}

/// Folds events and writes them to the record.
pub(crate) fn record(context: &mut Context, batch: Batch, events: Vec<Event>, at: Timestamp) -> Result<(), Error> {
    record_with(context, Writers::new(), batch, events, at, &Snapshot::new())
}

/// Like [`record()`], and flushes `writers`. The caller moves the branches to their new `tips`.
pub(crate) fn record_with(
    context: &mut Context,
    writers: Writers,
    batch: Batch,
    events: Vec<Event>,
    at: Timestamp,
    tips: &Snapshot,
) -> Result<(), Error> {
    flush(context)?;
    let events = fold(context, events, at)?;
    write(context, writers, Batch { events, ..batch }, tips)
}

/// Folds events that are about to be written. A session whose write fails is not used again, so the state in memory is
/// ahead of the record only on the way out.
pub(crate) fn fold(context: &mut Context, events: Vec<Event>, at: Timestamp) -> Result<Vec<Recorded>, Error> {
    let events: Vec<Recorded> =
        events.into_iter().map(|event| context.engine.without_secrets(Recorded { at, event })).collect();
    for event in &events {
        Arc::make_mut(&mut context.state).apply(event)?;
    }
    Ok(events)
}

/// Restores the record's ref if an agent moved it. Returns a description of the repair.
pub(crate) fn repair_record(context: &mut Context) -> Result<Option<String>, Error> {
    Ok(context.recorder.repair_ref()?.map(|kept| {
        let kept = kept.map(|name| format!("; what was there is kept at {name}")).unwrap_or_default();
        format!("the session's own record was moved or removed, and restored{kept}")
    }))
}

fn write(context: &mut Context, mut writers: Writers, mut batch: Batch, tips: &Snapshot) -> Result<(), Error> {
    assert!(context.pending.is_none(), "records are written in the order in which they were folded");
    context.events_since_state += batch.events.len();
    let at_checkpoint = batch.events.iter().any(|recorded| matches!(recorded.event, Event::Checkpoint(_)));
    let bytes = context.recorder.event_bytes() - context.event_bytes_at_state;
    let is_due = context.events_since_state > KEEP_STATE_AFTER.max(context.kept_state_bytes / STATE_PER_EVENT)
        || bytes > LARGE_EVENTS.max(context.kept_state_bytes * EVENTS_PER_STATE);
    if at_checkpoint && is_due {
        let state = serde_json::to_value(&*context.state);
        let state = state.expect("the state is made of structs with text keys, which serialise");
        context.kept_state_bytes = state.to_string().len();
        batch.state = Some(state);
        context.events_since_state = 0;
        context.event_bytes_at_state = context.recorder.event_bytes();
    }
    // Objects that the record refers to are on disk before it; those in its own repository share its flush.
    let writer = writers.remove(context.plan.repos.record_name()).unwrap_or_else(|| context.repo.writer());
    for writer in writers.values_mut() {
        writer.flush()?;
    }
    let record = context.recorder.append(writer, &batch)?;
    note_transition(context, record, tips);
    context.written.extend(batch.events);
    Ok(())
}

/// Notes a record to be pushed, together with the commits it speaks of, so that it never gets ahead of them.
fn note_transition(context: &Context, record: CommitId, tips: &Snapshot) {
    let repo = context.plan.repos.record_name().clone();
    let record = RefNote { repo, name: context.recorder.reference(), commit: record };
    let branches = tips.iter().filter_map(|(repo, commit)| {
        let name = branch_ref(context.followers.get(repo)?.branch());
        Some(RefNote { repo: repo.clone(), name, commit: *commit })
    });
    context.plan.push.note(std::iter::once(record).chain(branches));
    context.plan.mirror.recorded(&context.state.id);
}

/// Whether the session's branch carries the commits of turns.
pub(crate) fn carries_turns(context: &Context) -> bool {
    context.state.task.as_ref().is_none_or(|task| task.of.commits == Commits::Turns)
}
