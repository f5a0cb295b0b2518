//! What a run works with that is no part of its plan: sessions and commits, which are fetched as branches are. Whoever has
//! to agree is given all of it first, and nothing else is worked with.

use std::collections::BTreeSet;

use super::Error;
use super::begin::{is_open, state_of};
use super::run::{TreeRun, target_tip};
use super::unfinished::{Left, Unfinished};
use crate::git::TreeId;
use crate::ids::{BranchName, CommitId, TaskId};
use crate::progress::TaskStatus;
use crate::record::History;
use crate::schedule::{NextAction, Schedule, ScheduleOptions};
use crate::workspace::{branch_ref, phase_branch};

/// What was brought here that a run may work with.
#[derive(Debug, Default)]
pub struct Brought {
    /// The sessions it may go on with.
    pub left: Vec<Left>,
    /// What agents may begin with elsewhere.
    pub starts: Vec<Start>,
    /// Files this run itself has landed: what they hold comes from nowhere else.
    pub landed: Vec<TreeId>,
}

/// Files agents may begin with.
#[derive(Debug)]
pub struct Start {
    /// The branch they are from.
    pub branch: BranchName,
    /// The files.
    pub files: TreeId,
}

/// What was given to whoever has to agree.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The commits agents may begin with: those that were given, and what this run has built on them alone.
    commits: BTreeSet<CommitId>,
    /// The newest of those this run has built.
    made: BTreeSet<CommitId>,
    /// The task the run came to with something that was not.
    pub reached: Option<TaskId>,
}

impl TreeRun {
    /// What this run may work with as things stand. It works with nothing else, and ends with
    /// [`TreeEnded::Unasked`](super::TreeEnded::Unasked) where it would.
    pub fn brought(&mut self) -> Result<Brought, Error> {
        let reached = self.course.given.reached.take();
        let made = self.course.given.made.iter().map(|commit| self.repo.tree_of(*commit));
        let mut brought = Brought { landed: made.collect::<Result<_, _>>()?, ..Brought::default() };
        let target = target_tip(&self.repo, &self.plan.target)?;
        self.give_start(&mut brought, self.plan.target.clone(), (target, None))?;
        // What was done before does not count in a run that begins now.
        if self.begins_now() {
            return Ok(brought);
        }
        let mut wanted: BTreeSet<TaskId> = reached.iter().cloned().collect();
        if let Some(only) = self.scope() {
            wanted.extend(self.begun(only.as_ref()));
            // What cannot be read is not given, and met when the run comes there.
            for (branch, tip) in self.gathered(only.as_ref(), target) {
                let _ = self.give_start(&mut brought, branch, (tip, None));
            }
        }
        for task in wanted {
            let given = self.give(&mut brought, &task);
            if reached.as_ref() == Some(&task) {
                given.map_err(|error| error.at(&task, &self.repo))?;
            }
        }
        Ok(brought)
    }

    /// The one task this run works, if it is one; nothing where it ends before it works any.
    fn scope(&self) -> Option<Option<TaskId>> {
        let chosen = self.course.chosen.clone();
        match self.next() {
            NextAction::Work { task, .. } | NextAction::GiveUp { task, .. } | NextAction::Land(task)
                if self.plan.one =>
            {
                Some(chosen.or(Some(task)))
            }
            // Which task comes behind tests and merges cannot be told.
            NextAction::Work { .. }
            | NextAction::GiveUp { .. }
            | NextAction::Land(_)
            | NextAction::Gate(_)
            | NextAction::MergePhase(_) => Some(chosen),
            NextAction::Stranded(_) | NextAction::OtherTree(_) | NextAction::Unreadable(_) | NextAction::Stalled(_) => {
                None
            }
            NextAction::Done | NextAction::Failed(_) | NextAction::GateRed(_) => None,
        }
    }

    /// The tasks that were begun and that the run may come to.
    fn begun(&self, only: Option<&TaskId>) -> Vec<TaskId> {
        let limits = ScheduleOptions { only: only.cloned(), ..self.plan.limits.clone() };
        let schedule = Schedule::new(&self.plan.tree, &self.progress, limits);
        let begun = self.progress.tasks().map(|(task, _)| task).chain(self.course.unfinished.keys());
        begun.filter(|task| schedule.may_come_to(task)).cloned().collect()
    }

    /// The branches of phases that tasks begin on, or that are merged before others begin.
    fn gathered(&self, only: Option<&TaskId>, target: CommitId) -> Vec<(BranchName, CommitId)> {
        let tree = &self.plan.tree;
        let is_wanted = |phase: &&TaskId| only.is_none_or(|only| tree.phase_of(only) == *phase);
        let stands = |phase: &TaskId| {
            let branch = phase_branch(&self.plan.branch_prefix, &self.plan.target, phase).ok()?;
            let tip = self.repo.reference(&branch_ref(&branch)).ok()??;
            self.goes_on(phase, &branch, (tip, target)).ok()?.then_some((branch, tip))
        };
        // Most are merged, and nobody begins there.
        let is_of_use = |phase: &&TaskId| {
            self.schedule.is_ahead(phase) || tree.leaves_below(phase).iter().any(|leaf| self.schedule.may_come_to(leaf))
        };
        let gathered = tree.roots().iter().filter(|phase| self.schedule.gathers(phase)).filter(is_wanted);
        gathered.filter(is_of_use).filter_map(stands).collect()
    }

    /// What a task would go on with: the session it was left in, or what its branch has.
    fn give(&mut self, brought: &mut Brought, task: &TaskId) -> Result<(), Error> {
        if let Some(left) = self.would_take_up(task)? {
            self.course.given.commits.extend(&left.at);
            self.course.unfinished.entry(task.clone()).and_modify(|unfinished| unfinished.given = true);
            brought.left.push(left);
            return Ok(());
        }
        let branch = self.branch_of(task)?;
        let tip = self.repo.reference(&branch_ref(&branch))?;
        let state = self.progress.task(task);
        if let Some(tip) = tip.filter(|_| is_open(state)) {
            return self.give_start(brought, branch, (tip, None));
        }
        let (is_failed, base) = (state.status == TaskStatus::Failed, self.base_of(task)?);
        self.give_start(brought, self.lands_on(task)?, (base, None))?;
        if is_failed {
            let is_ahead = tip.map(|tip| self.repo.is_ancestor(tip, base)).transpose()? == Some(false);
            let kept = tip.filter(|_| is_ahead).map(|tip| (tip, String::new()));
            if let Some((from, _)) = self.last_budget(task, base, kept.as_ref())?
                && let Some(files) = self.old_files(task, from, base)?
            {
                self.give_start(brought, branch, (from, Some(files)))?;
            }
        }
        Ok(())
    }

    /// The session a task would go on with as things stand.
    fn would_take_up(&self, task: &TaskId) -> Result<Option<Left>, Error> {
        let Some(Unfinished { id, first, .. }) = self.course.unfinished.get(task) else { return Ok(None) };
        let Some(node) = self.plan.tree.node(task) else { return Ok(None) };
        let Ok(history) = History::newest(&self.repo, id) else { return Ok(None) };
        if history.first != *first {
            return Ok(None);
        }
        Ok(self.going_on(node, &history, &state_of(&history)?)?.ok())
    }

    /// Gives a commit agents may begin with, or what becomes of it on the branch they work on.
    fn give_start(
        &mut self,
        brought: &mut Brought,
        branch: BranchName,
        (commit, files): (CommitId, Option<TreeId>),
    ) -> Result<(), Error> {
        let files = files.map_or_else(|| self.repo.tree_of(commit), Ok)?;
        if !brought.starts.iter().any(|start| start.files == files) {
            brought.starts.push(Start { branch, files });
        }
        self.course.given.commits.insert(commit);
        Ok(())
    }

    /// Refuses to have agents begin a task with a commit nobody was given.
    pub(super) fn require_given(&self, task: &TaskId, commit: CommitId) -> Result<(), Error> {
        match self.course.given.commits.contains(&commit) {
            true => Ok(()),
            false => Err(Error::Unasked(task.clone())),
        }
    }

    /// Takes in a commit this run has made of others: where somebody was asked about these, they were about it.
    pub(super) fn made(&mut self, of: &[CommitId], commit: CommitId) {
        let given = &mut self.course.given;
        if of.iter().all(|of| given.commits.contains(of)) {
            given.commits.insert(commit);
            given.made.retain(|made| !of.contains(made));
            given.made.insert(commit);
        }
    }
}
