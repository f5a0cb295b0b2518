//! The one way anything is written: fold, record, show; and the session branch behind it.

use jiff::Timestamp;

use super::{Error, Observer, Session};
use crate::event::{Commits, Event, Recorded};
use crate::git::Writer;
use crate::ids::CommitId;
use crate::record::Batch;
use crate::workspace::branch_ref;

/// So many events are folded anew at a resume before the state is worth keeping with a checkpoint.
const KEEP_STATE_AFTER: usize = 200;

impl Session {
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

    pub(super) fn write(&mut self, writer: Writer, mut batch: Batch, observe: Observer<'_>) -> Result<(), Error> {
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
