//! The one way anything is written: fold, then record; and the branch behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Context;
use crate::clock;
use crate::engine::{Engine, Error};
use crate::event::{Commits, Event, Recorded, Snapshot};
use crate::git::{TreeId, Writer};
use crate::ids::{CommitId, RepoName};
use crate::record::Batch;

/// So many events are folded anew at a resume before the state is worth keeping with a checkpoint.
const KEEP_STATE_AFTER: usize = 200;

/// So much of a kept state an event pays for: one that has grown is kept less often, so that what is kept of a run grows
/// with its events and no faster.
const STATE_PER_EVENT: usize = 100;

/// What is folded and not yet written: the end of a node, and nodes after it that only pass on. Where another node begins
/// at once, all of it goes into one record.
#[derive(Debug, Default)]
pub(in crate::engine) struct PendingRecord {
    pub writers: Writers,
    pub batch: Batch,
    /// From where each branch is moved; one that is somebody else's now is missing.
    pub branches: Snapshot,
    /// The node's last commits, with their trees.
    pub made: BTreeMap<RepoName, (CommitId, TreeId)>,
    /// The commit of the step it stands for, likewise.
    pub step: Option<MadeStep>,
}

/// What holds objects that are written with a record, by repository.
pub(in crate::engine) type Writers = BTreeMap<RepoName, Writer>;

/// The commit of a step that is not written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) struct MadeStep {
    pub repo: RepoName,
    pub commit: CommitId,
    pub tree: TreeId,
}

impl PendingRecord {
    /// The tree of the newest commit in it, in a repository.
    pub(in crate::engine) fn tree(&self, repo: &RepoName) -> Option<TreeId> {
        let step = self.step.as_ref().filter(|step| step.repo == *repo).map(|step| step.tree);
        step.or_else(|| self.made.get(repo).map(|(_, tree)| *tree))
    }

    /// Whether there are commits in it.
    fn has_commits(&self) -> bool {
        self.step.is_some() || !self.made.is_empty()
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
            Some(pending) if pending.has_commits() => self.flush(),
            _ => Ok(()),
        }
    }

    /// Folds events that nobody acts on before something else is written. They go into the record of that.
    pub(in crate::engine) fn defer(&mut self, summary: &str, events: Vec<Event>) -> Result<(), Error> {
        let events = self.fold(events, clock::now())?;
        self.pending.get_or_insert_default().add(summary, events);
        Ok(())
    }

    /// Puts off the end of a node or of the task. A node that comes after another that is not written has made nothing;
    /// the task's last step is built on that of the node before it.
    pub(in crate::engine) fn defer_end(&mut self, ended: PendingRecord) {
        match &mut self.pending {
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
    fn write_end(&mut self, ended: PendingRecord) -> Result<(), Error> {
        let PendingRecord { writers, batch, branches, made, step } = ended;
        self.write(writers, batch)?;
        let mut moves: Snapshot = match self.carries_turns() {
            true => made.iter().map(|(repo, (commit, _))| (repo.clone(), *commit)).collect(),
            false => Snapshot::new(),
        };
        moves.extend(step.iter().map(|step| (step.repo.clone(), step.commit)));
        self.move_branches(&branches, &moves)?;
        let workspace = self.working_mut();
        for (repo, made) in made {
            workspace.take(&repo, made)?;
        }
        if let Some(MadeStep { repo, commit, tree }) = step {
            workspace.take(&repo, (commit, tree))?;
        }
        Ok(workspace.follow()?)
    }

    /// Moves branches to commits that are recorded, from where they stand; one that is missing there cannot be moved.
    pub(in crate::engine) fn move_branches(&mut self, from: &Snapshot, to: &Snapshot) -> Result<(), Error> {
        for (repo, follower) in &mut self.followers {
            match (from.get(repo), to.get(repo)) {
                (Some(from), Some(to)) => follower.advance(*from, *to)?,
                (None, Some(to)) => follower.stay(*to),
                (_, None) => {}
            }
        }
        let followed =
            self.followers.iter_mut().filter_map(|(repo, follower)| follower.take_followed().then(|| repo.clone()));
        let followed: Vec<RepoName> = followed.collect();
        match &mut self.workspace {
            Some(workspace) => workspace.checkouts_followed(&followed),
            // The worker that has the worktrees is told with its answer.
            None => self.followed.extend(followed),
        }
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
        self.write(Writers::new(), batch)
    }

    /// Folds events and writes them to the record.
    pub(in crate::engine) fn record(&mut self, batch: Batch, events: Vec<Event>, at: Timestamp) -> Result<(), Error> {
        self.record_with(Writers::new(), batch, events, at)
    }

    /// The same with whatever `writers` hold.
    pub(in crate::engine) fn record_with(
        &mut self,
        writers: Writers,
        batch: Batch,
        events: Vec<Event>,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.flush()?;
        let events = self.fold(events, at)?;
        self.write(writers, Batch { events, ..batch })
    }

    /// Folds events that are about to be written. A session whose write fails is not used again, so the state in
    /// memory may be ahead of the record only on the way out.
    pub(in crate::engine) fn fold(&mut self, events: Vec<Event>, at: Timestamp) -> Result<Vec<Recorded>, Error> {
        let events: Vec<Recorded> =
            events.into_iter().map(|event| self.engine.without_secrets(Recorded { at, event })).collect();
        for event in &events {
            Arc::make_mut(&mut self.state).apply(event)?;
        }
        Ok(events)
    }

    /// Puts the record's ref back where this session left it, if an agent moved it. Says what was done.
    pub(in crate::engine) fn mend_record(&mut self) -> Result<Option<String>, Error> {
        Ok(self.recorder.mend()?.map(|kept| {
            let kept = kept.map(|name| format!("; what was there is kept at {name}")).unwrap_or_default();
            format!("the session's own record was moved or removed, and restored{kept}")
        }))
    }

    fn write(&mut self, mut writers: Writers, mut batch: Batch) -> Result<(), Error> {
        debug_assert!(self.pending.is_none(), "records are written in the order in which they were folded");
        self.events_since_state += batch.events.len();
        let at_checkpoint = batch.events.iter().any(|recorded| matches!(recorded.event, Event::Checkpoint(_)));
        if at_checkpoint && self.events_since_state > KEEP_STATE_AFTER.max(self.kept_state_bytes / STATE_PER_EVENT) {
            let state = serde_json::to_value(&*self.state);
            let state = state.expect("the state is made of structs with text keys, which serialise");
            self.kept_state_bytes = state.to_string().len();
            batch.state = Some(state);
            self.events_since_state = 0;
        }
        // What the record speaks of is on disk before it; what is in its own repository shares its flush.
        let writer = writers.remove(&self.plan.record_repo).unwrap_or_else(|| self.repo.writer());
        for writer in writers.values_mut() {
            writer.flush()?;
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
