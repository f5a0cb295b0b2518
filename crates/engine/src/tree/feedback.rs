//! The feedback for the next attempt at a task: from the records of failed sessions, or otherwise from their commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::logs::{LogKey, history};
use git::Repo;
use git::record::History;
use pleach_core::event::Event;
use pleach_core::ids::SessionId;
use pleach_core::progress::{Progress, StepCommit};
use pleach_core::redact::Redactor;
use pleach_core::step::text::{FEEDBACK, cut};
use pleach_core::step::{Feedback, StepKind};

/// The feedback of steps for the next attempt, oldest first. A commit has the end of the text, and the record of its
/// session has more; if that is gone or unreadable, the commit counts.
pub fn feedback(repo: &Repo, progress: &Progress, redactor: &Redactor, steps: &[Arc<StepCommit>]) -> Vec<Feedback> {
    let mut records = SessionRecords { repo, histories: BTreeMap::new(), included: BTreeSet::new() };
    let mut all = Vec::new();
    for found in steps.iter().filter(|found| !found.step.passed || found.step.kind == StepKind::Reset) {
        let by_record = match found.step.kind {
            StepKind::Reset => red_gate(progress, redactor, found).and_then(|gate| records.step(gate)),
            _ => records.step(found),
        };
        all.extend(by_record.unwrap_or_else(|| found.feedback().into_iter().collect()));
    }
    // Records and commits may come from elsewhere. Redact before truncating: a truncated secret is not recognised.
    let bounded = |feedback: Feedback| {
        let text = cut(&redactor.text(&feedback.text), FEEDBACK);
        Feedback { text, ..feedback }
    };
    all.into_iter().map(bounded).collect()
}

/// The run of a gate that a reset quotes, apart from secrets unknown where the gate ran.
fn red_gate<'a>(progress: &'a Progress, redactor: &Redactor, reset: &StepCommit) -> Option<&'a StepCommit> {
    let body = redactor.text(&reset.body);
    let is_quoted = |found: &&Arc<StepCommit>| {
        let is_red = found.step.kind == StepKind::Test && !found.step.passed && found.at <= reset.at;
        is_red && redactor.text(&found.body) == body
    };
    let steps = progress.tasks().flat_map(|(_, state)| &state.steps);
    steps.filter(is_quoted).max_by_key(|found| found.at).map(Arc::as_ref)
}

/// The records of sessions, each read once.
struct SessionRecords<'a> {
    repo: &'a Repo,
    histories: BTreeMap<SessionId, Option<History>>,
    /// The attempts whose initial feedback is already included.
    included: BTreeSet<(SessionId, u32)>,
}

impl SessionRecords<'_> {
    /// The recorded feedback of a failed step: its own, preceded by that of the attempt before if no step of that
    /// attempt has it. `None` if the record has nothing about it.
    fn step(&mut self, found: &StepCommit) -> Option<Vec<Feedback>> {
        let id = found.step.session.as_ref()?;
        let read = || history(self.repo, id).ok().flatten();
        let history = self.histories.entry(id.clone()).or_insert_with(read).as_ref()?;
        let (_, step) =
            LogKey::of(found).find(history).filter(|(_, step)| Some(&step.task) == found.step.task.as_ref())?;
        let own = step.feedback.clone()?;
        let is_new = step.attempt.is_some_and(|attempt| self.included.insert((id.clone(), attempt)));
        // The feedback given to the first attempt of a session is what is collected here.
        let later = history.records.iter().filter(|record| is_new && record.commit != history.first);
        let untold = later.flat_map(|record| &record.events).filter_map(|event| match &event.event {
            Event::AttemptStarted(begun) if Some(begun.retry) == step.attempt => Some(begun.feedback.clone()),
            _ => None,
        });
        Some(untold.flatten().chain([own]).collect())
    }
}
