//! Decisions about tasks of a tree that a run works on: they wait in the merge queue, and the run writes them.

use std::collections::BTreeSet;

use super::Error;
use super::run::{TreeRun, target_tip};
use super::skip_reset::{Mark, Marking};
use crate::landing::{MergeQueue, Submission, close_mark, drop_entry, enqueue, withdraw_for_mark};
use pleach_core::clock;
use pleach_core::event::WarningCode;
use pleach_core::ids::TaskId;
use pleach_core::queue::{EntryMark, MarkDecision, QueueEntry};
use pleach_core::redact::Redactor;

impl Marking<'_> {
    /// Queues a decision for the run that has the tree.
    pub fn queue(&self, task: &TaskId, mark: Mark, redactor: &Redactor) -> Result<QueueEntry, Error> {
        let title = self.tree.node(task).map(|node| node.name.clone()).unwrap_or_default();
        let decision = match mark {
            Mark::Skip => MarkDecision::Skip,
            Mark::Reset => MarkDecision::Reset,
        };
        let queued = enqueue(
            self.repo,
            Submission {
                branch: None,
                head: target_tip(self.repo, self.target)?,
                base: None,
                target: self.target.clone(),
                task: Some(task.clone()),
                session: None,
                run: None,
                title,
                goal: None,
                tests: Vec::new(),
                tested: false,
                priority: 0,
                depends: Vec::new(),
                completed_at: clock::now(),
                repo: self.repo_name.clone(),
                undoes: None,
                mark: Some(EntryMark { decision, tree: self.name.for_task(task) }),
                together: None,
            },
            redactor,
        )?;
        // What is finished must not land before the run comes to write this.
        withdraw_for_mark(self.repo, self.target, task, redactor)?;
        Ok(queued)
    }
}

/// Whether a decision about a task waits to be written.
pub(super) fn is_marked(run: &TreeRun, task: &TaskId) -> Result<bool, Error> {
    let queue = MergeQueue::read(&run.repo, &run.plan.target)?;
    Ok(queue.entries().iter().filter_map(|entry| mark_for(run, entry)).any(|(_, marked)| marked == task))
}

/// The decision that an entry is, with its task, if this run writes it.
fn mark_for<'e>(run: &TreeRun, entry: &'e QueueEntry) -> Option<(&'e EntryMark, &'e TaskId)> {
    let (mark, task) = (entry.mark.as_ref()?, entry.task.as_ref()?);
    let is_own = run.plan.name.is_named(&mark.tree, task) && run.plan.tree.is_leaf(task);
    is_own.then_some((mark, task))
}

/// Writes the decisions that wait for a run, but for those about tasks in progress. Blocks.
pub(super) fn write_marks(run: &mut TreeRun, active: &BTreeSet<TaskId>) -> Result<(), Error> {
    let queue = MergeQueue::read(&run.repo, &run.plan.target)?;
    let mut is_changed = false;
    for stored in &queue.open {
        let Some((mark, task)) = mark_for(run, &stored.entry) else { continue };
        if active.contains(task) {
            continue;
        }
        let marking = Marking {
            repo: &run.repo,
            repo_name: &run.plan.repo_name,
            tree: &run.plan.tree,
            name: &run.plan.name,
            target: &run.plan.target,
            branch_prefix: &run.plan.branch_prefix,
            base_branch: run.plan.base_branch.as_ref(),
        };
        let decision = match mark.decision {
            MarkDecision::Skip => Mark::Skip,
            MarkDecision::Reset => Mark::Reset,
        };
        let name = stored.entry.name();
        if marking.write_held(task, decision, &run.engine.redactor)?.is_none() {
            drop_entry(&run.repo, stored, &run.engine.redactor)?;
            run.engine
                .warn(WarningCode::DecisionNotNeeded.with(format!("{name} is not written: {}", moot(mark.decision))));
            continue;
        }
        close_mark(&run.repo, stored, &run.engine.redactor)?;
        run.state.unfinished.remove(task);
        run.engine.warn(WarningCode::DecisionWritten.with(format!("{name} is written, as queued")));
        is_changed = true;
    }
    if is_changed { run.read_again() } else { Ok(()) }
}

/// Why there was nothing to write.
fn moot(decision: MarkDecision) -> &'static str {
    match decision {
        MarkDecision::Skip => "the task is complete, and its work has landed",
        MarkDecision::Reset => "nothing of the task is done",
    }
}
