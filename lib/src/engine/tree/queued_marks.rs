//! Decisions about tasks of a tree that a run works on: they wait in the merge queue, and the run writes them.

use std::collections::BTreeSet;

use super::Error;
use super::run::{TreeRun, target_tip};
use super::skip_reset::{Mark, Marking};
use crate::clock;
use crate::engine::queue::{MergeQueue, Submission, close_mark, enqueue};
use crate::event::WarningCode;
use crate::ids::TaskId;
use crate::queue::{EntryMark, MarkDecision, QueueEntry};

impl Marking<'_> {
    /// Queues a decision for the run that has the tree.
    pub fn queue(&self, task: &TaskId, mark: Mark) -> Result<QueueEntry, Error> {
        let title = self.tree.node(task).map(|node| node.name.clone()).unwrap_or_default();
        let decision = match mark {
            Mark::Skip => MarkDecision::Skip,
            Mark::Reset => MarkDecision::Reset,
        };
        Ok(enqueue(
            self.repo,
            Submission {
                branch: None,
                head: target_tip(self.repo, self.target)?,
                base: None,
                target: self.target.clone(),
                task: Some(task.clone()),
                session: None,
                title,
                tests: Vec::new(),
                tested: false,
                priority: 0,
                depends: Vec::new(),
                completed_at: clock::now(),
                repo: self.repo_name.clone(),
                undoes: None,
                mark: Some(EntryMark { decision, tree: self.name.for_task(task) }),
            },
        )?)
    }
}

/// Writes the decisions that wait for a run, but for those about tasks in progress. Blocks.
pub(super) fn write_marks(run: &mut TreeRun, active: &BTreeSet<TaskId>) -> Result<(), Error> {
    let queue = MergeQueue::read(&run.repo, &run.plan.target)?;
    let mut is_changed = false;
    for stored in &queue.open {
        let (Some(mark), Some(task)) = (&stored.entry.mark, &stored.entry.task) else { continue };
        let is_own = run.plan.name.is_named(&mark.tree, task) && run.plan.tree.is_leaf(task);
        if !is_own || active.contains(task) {
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
        marking.write_held(task, decision, &run.engine.redactor)?;
        close_mark(&run.repo, stored)?;
        run.state.unfinished.remove(task);
        run.engine.warn(WarningCode::DecisionWritten.with(format!("{} is written, as queued", stored.entry.name())));
        is_changed = true;
    }
    if is_changed { run.read_again() } else { Ok(()) }
}
