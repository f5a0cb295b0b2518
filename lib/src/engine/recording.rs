//! The one way anything is written: fold, record, show; and the session branch behind it.

use jiff::Timestamp;

use super::{Error, Observer, Session};
use crate::clock;
use crate::event::{Commits, Event, Recorded};
use crate::git::{TreeId, Writer};
use crate::ids::CommitId;
use crate::record::Batch;
use crate::workspace::branch_ref;

/// So many events are folded anew at a resume before the state is worth keeping with a checkpoint.
const KEEP_STATE_AFTER: usize = 200;

/// The end of a node: folded, and not yet written. Where another node begins at once, both go into one record.
#[derive(Debug)]
pub(super) struct Ended {
    pub writer: Writer,
    pub batch: Batch,
    /// What the session branch is moved from; none when it is somebody else's now.
    pub branch: Option<CommitId>,
    /// The node's last commit, with its tree.
    pub made: Option<(CommitId, TreeId)>,
    /// The commit of the step it stands for, likewise.
    pub step: Option<(CommitId, TreeId)>,
}

impl Session {
    /// Writes the end of the last node, if that is still to be done.
    pub(super) fn settle(&mut self, observe: Observer<'_>) -> Result<(), Error> {
        match self.unwritten.take() {
            Some(ended) => self.write_end(ended, observe),
            None => Ok(()),
        }
    }

    /// Writes the end of a node; the session branch, HEAD and index follow.
    fn write_end(&mut self, ended: Ended, observe: Observer<'_>) -> Result<(), Error> {
        let Ended { writer, batch, branch, made, step } = ended;
        self.write(writer, batch, observe)?;
        if let (Some(old), Some((commit, _))) = (branch, step.or(made.filter(|_| self.carries_turns()))) {
            self.move_branch(old, commit)?;
        }
        let copy = self.copy.as_mut().expect("the working copy is back when no node runs");
        if let Some((commit, tree)) = made {
            copy.take(commit, tree)?;
        }
        if let Some((commit, tree)) = step {
            copy.take_step(commit, tree)?;
        }
        copy.follow()?;
        Ok(())
    }

    /// Writes the start of a node, in one record with the end of the node before it if that is not written yet.
    pub(super) fn write_start(&mut self, summary: String, event: Event, observe: Observer<'_>) -> Result<(), Error> {
        let events = self.fold(vec![event], clock::now())?;
        let Some(mut ended) = self.unwritten.take() else {
            return self.write(self.repo.writer(), Batch { summary, events, ..Batch::default() }, observe);
        };
        ended.batch.summary = format!("{}; {summary}", ended.batch.summary);
        ended.batch.events.extend(events);
        self.write_end(ended, observe)
    }

    /// Writes events to the record, then folds and shows them. Whatever `writer` holds is written with them.
    pub(super) fn record(
        &mut self,
        writer: Writer,
        batch: Batch,
        events: Vec<Event>,
        at: Timestamp,
        observe: Observer<'_>,
    ) -> Result<(), Error> {
        let events = self.fold(events, at)?;
        self.write(writer, Batch { events, ..batch }, observe)
    }

    /// Folds events that are about to be written. A session whose write fails is not used again, so the state in
    /// memory may be ahead of the record only on the way out.
    pub(super) fn fold(&mut self, events: Vec<Event>, at: Timestamp) -> Result<Vec<Recorded>, Error> {
        let events: Vec<Recorded> =
            events.into_iter().map(|event| self.without_secrets(Recorded { at, event })).collect();
        for event in &events {
            self.state.apply(event)?;
        }
        Ok(events)
    }

    /// The event as it will be recorded: what is shown and what the run goes on with is the same as after a resume.
    fn without_secrets(&self, event: Recorded) -> Recorded {
        if event.event.is_derived() {
            return event;
        }
        let json = event.to_json();
        let mut clean = json.clone();
        self.engine.redactor.json(&mut clean);
        if clean == json { event } else { Recorded::from_json(clean).unwrap_or(event) }
    }

    /// Puts the record's ref back where this session left it, if an agent moved it. Says what was done.
    pub(super) fn mend_record(&mut self) -> Result<Option<String>, Error> {
        Ok(self.recorder.mend()?.map(|kept| {
            let kept = kept.map(|name| format!("; what stood there is kept at {name}")).unwrap_or_default();
            format!("the session's own record was moved or removed, and put back{kept}")
        }))
    }

    fn write(&mut self, writer: Writer, mut batch: Batch, observe: Observer<'_>) -> Result<(), Error> {
        debug_assert!(self.unwritten.is_none(), "records are written in the order in which they were folded");
        self.events_since_state += batch.events.len();
        let at_checkpoint = batch.events.iter().any(|recorded| matches!(recorded.event, Event::Checkpoint(_)));
        if at_checkpoint && self.events_since_state > KEEP_STATE_AFTER {
            let state = serde_json::to_value(&self.state);
            batch.state = Some(state.expect("the state is made of structs with text keys, which serialise"));
            self.events_since_state = 0;
        }
        self.recorder.append(writer, &batch)?;
        batch.events.iter().for_each(observe);
        Ok(())
    }

    /// Whether the session's branch carries the commits of turns.
    pub(super) fn carries_turns(&self) -> bool {
        self.started.task.as_ref().is_none_or(|task| task.commits == Commits::Turns)
    }

    pub(super) fn move_branch(&self, old: CommitId, new: CommitId) -> Result<(), Error> {
        let branch = self.started.branches.values().next().expect("every session has a branch");
        self.repo.swap(&branch_ref(branch), Some(old), new, "pleach: turn").map_err(crate::git::Error::from)?;
        Ok(())
    }
}
