//! The one way anything is written: fold, then record; and the branch behind it.

use jiff::Timestamp;

use super::Context;
use crate::clock;
use crate::engine::{Engine, Error};
use crate::event::{Commits, Event, Recorded};
use crate::git::{TreeId, Writer};
use crate::ids::CommitId;
use crate::record::Batch;

/// So many events are folded anew at a resume before the state is worth keeping with a checkpoint.
const KEEP_STATE_AFTER: usize = 200;

/// So much of a kept state an event pays for: one that has grown is kept less often, so that what is kept of a run grows
/// with its events and no faster.
const STATE_PER_EVENT: usize = 100;

/// What is folded and not yet written: the end of a node, and nodes after it that only pass on. Where another node begins
/// at once, all of it goes into one record.
#[derive(Debug)]
pub(in crate::engine) struct PendingRecord {
    pub writer: Writer,
    pub batch: Batch,
    /// What the session branch is moved from; none when it is somebody else's now.
    pub branch: Option<CommitId>,
    /// The node's last commit, with its tree.
    pub made: Option<(CommitId, TreeId)>,
    /// The commit of the step it stands for, likewise.
    pub step: Option<(CommitId, TreeId)>,
}

impl PendingRecord {
    /// Events alone.
    fn events(writer: Writer) -> Self {
        Self { writer, batch: Batch::default(), branch: None, made: None, step: None }
    }

    /// The tree of the newest commit in it.
    pub(in crate::engine) fn tree(&self) -> Option<TreeId> {
        self.step.or(self.made).map(|(_, tree)| tree)
    }

    /// Adds what comes after it in the same record.
    fn add(&mut self, summary: &str, events: Vec<Recorded>) {
        let before = &mut self.batch.summary;
        *before = if before.is_empty() { summary.to_owned() } else { format!("{before}; {summary}") };
        self.batch.events.extend(events);
    }
}

impl Context {
    /// Writes what was folded and is not written yet.
    pub(in crate::engine) fn flush(&mut self) -> Result<(), Error> {
        match self.pending.take() {
            Some(unwritten) => self.write_end(unwritten),
            None => Ok(()),
        }
    }

    /// Writes it if the branch has to follow it.
    pub(in crate::engine) fn flush_commits(&mut self) -> Result<(), Error> {
        match &self.pending {
            Some(unwritten) if unwritten.tree().is_some() => self.flush(),
            _ => Ok(()),
        }
    }

    /// Folds events that nobody acts on before something else is written. They go into the record of that.
    pub(in crate::engine) fn defer(&mut self, summary: &str, events: Vec<Event>) -> Result<(), Error> {
        let events = self.fold(events, clock::now())?;
        let unwritten = self.pending.get_or_insert_with(|| PendingRecord::events(self.repo.writer()));
        unwritten.add(summary, events);
        Ok(())
    }

    /// Puts off the end of a node or of the task. A node that comes after another that is not written has made nothing;
    /// the task's last step is built on that of the node before it.
    pub(in crate::engine) fn defer_end(&mut self, ended: PendingRecord) {
        match &mut self.pending {
            Some(before) => {
                if ended.step.is_some() {
                    (before.writer, before.step) = (ended.writer, ended.step);
                }
                before.batch.work.extend(ended.batch.work);
                before.add(&ended.batch.summary, ended.batch.events);
            }
            none => *none = Some(ended),
        }
    }

    /// Writes the end of a node; the session branch, HEAD and index follow.
    fn write_end(&mut self, ended: PendingRecord) -> Result<(), Error> {
        let PendingRecord { writer, batch, branch, made, step } = ended;
        self.write(writer, batch)?;
        if let (Some(old), Some((commit, _))) = (branch, step.or(made.filter(|_| self.carries_turns()))) {
            self.move_branch(old, commit)?;
        }
        let news = self.branch_news();
        let copy = self.working_mut();
        copy.hear(news);
        if let Some((commit, tree)) = made {
            copy.take(commit, tree)?;
        }
        if let Some((commit, tree)) = step {
            copy.take_step(commit, tree)?;
        }
        copy.follow()?;
        Ok(())
    }

    /// Writes an event, such as the start of a node, in one record with what is not written yet.
    pub(in crate::engine) fn write_with(&mut self, summary: &str, event: Event) -> Result<(), Error> {
        if self.pending.is_some() {
            self.defer(summary, vec![event])?;
            return self.flush();
        }
        let events = self.fold(vec![event], clock::now())?;
        let batch = Batch { summary: summary.to_owned(), events, ..Batch::default() };
        self.write(self.repo.writer(), batch)
    }

    /// Folds events and writes them to the record. Whatever `writer` holds is written with them.
    pub(in crate::engine) fn record(
        &mut self,
        writer: Writer,
        batch: Batch,
        events: Vec<Event>,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.flush()?;
        let events = self.fold(events, at)?;
        self.write(writer, Batch { events, ..batch })
    }

    /// Folds events that are about to be written. A session whose write fails is not used again, so the state in
    /// memory may be ahead of the record only on the way out.
    pub(in crate::engine) fn fold(&mut self, events: Vec<Event>, at: Timestamp) -> Result<Vec<Recorded>, Error> {
        let events: Vec<Recorded> =
            events.into_iter().map(|event| self.engine.without_secrets(Recorded { at, event })).collect();
        for event in &events {
            self.state.apply(event)?;
        }
        Ok(events)
    }

    /// Puts the record's ref back where this session left it, if an agent moved it. Says what was done.
    pub(in crate::engine) fn mend_record(&mut self) -> Result<Option<String>, Error> {
        Ok(self.recorder.mend()?.map(|kept| {
            let kept = kept.map(|name| format!("; what stood there is kept at {name}")).unwrap_or_default();
            format!("the session's own record was moved or removed, and put back{kept}")
        }))
    }

    fn write(&mut self, writer: Writer, mut batch: Batch) -> Result<(), Error> {
        debug_assert!(self.pending.is_none(), "records are written in the order in which they were folded");
        self.events_since_state += batch.events.len();
        let at_checkpoint = batch.events.iter().any(|recorded| matches!(recorded.event, Event::Checkpoint(_)));
        if at_checkpoint && self.events_since_state > KEEP_STATE_AFTER.max(self.kept_state_bytes / STATE_PER_EVENT) {
            let state = serde_json::to_value(&self.state);
            let state = state.expect("the state is made of structs with text keys, which serialise");
            self.kept_state_bytes = state.to_string().len();
            batch.state = Some(state);
            self.events_since_state = 0;
        }
        self.recorder.append(writer, &batch)?;
        self.written.extend(batch.events);
        Ok(())
    }

    /// Whether the session's branch carries the commits of turns.
    pub(in crate::engine) fn carries_turns(&self) -> bool {
        self.state.task.as_ref().is_none_or(|task| task.of.commits == Commits::Turns)
    }
}

impl Engine {
    /// The event as it will be recorded: what is shown and what the run goes on with is the same as after a resume.
    pub(in crate::engine) fn without_secrets(&self, event: Recorded) -> Recorded {
        let clean = event.without_secrets(&self.redactor);
        clean.and_then(|clean| Recorded::from_json(clean).ok()).unwrap_or(event)
    }
}
