//! The branch of a phase: where it begins, what it lacks, what the phase's tests run on, and how it is merged.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::begin::state_of;
use super::refusal::{Refusal, RefusalCode, begins_anew};
use super::run::{TreeEnded, TreeRun, target_tip};
use super::testing::without_tests;
use super::{Error, step_scan};
use crate::engine::landing;
use crate::event::{PhaseMerged, WarningCode};
use crate::git::{MergeError, Repo, TreeId};
use crate::ids::{BranchName, CommitId, SessionId, TaskId};
use crate::merge::{
    self, LandedBranch, LandingAsk, LandingEnd, LandingVerdict, LandingWork, RefusalReason, TargetState,
};
use crate::plan::tree::TaskTree;
use crate::progress::{GateProgress, Progress, StepCommit, StepPlace, TaskStatus};
use crate::record::History;
use crate::schedule::{Schedule, ScheduleOptions};
use crate::step::Step;
use crate::text::shell_word;
use crate::workspace::{branch_ref, phase_branch};

/// What came of merging a phase.
#[derive(Debug)]
pub(super) enum PhaseMerge {
    /// It is there.
    Merged,
    /// These tests come first.
    Test(TaskId),
    /// It cannot, and waits.
    Refused(Refusal),
}

impl TreeRun {
    /// Makes the branch of a task's phase begin at the target, or go on from there once all it had is merged, or was set
    /// back and done elsewhere. What is left unmerged by that, or by a run before this one, is kept.
    pub(super) fn bring_phase(&self, task: &TaskId) -> Result<(), Error> {
        let on = self.lands_on(task)?;
        if on == self.plan.target {
            return Ok(());
        }
        let (name, target) = (branch_ref(&on), target_tip(&self.repo, &self.plan.target)?);
        // As with the branch of a task: who has the target is the only writer.
        self.repo.release_stale_lock(&name)?;
        let tip = self.repo.reference(&name)?;
        let phase = self.plan.tree.phase_of(task);
        let mut unmerged = None;
        if let Some(tip) = tip {
            if self.goes_on(phase, &on, (tip, target))? {
                let lacked = self.lacked(task, (tip, target))?;
                return lacked.map_or(Ok(()), |needed| Err(self.lacks(task, needed, on)?));
            }
            if tip == target {
                return Ok(());
            }
            unmerged = if self.repo.is_ancestor(tip, target)? { None } else { Some(tip) };
        }
        if let Some(checkout) = self.repo.checkouts_of(&on)?.into_iter().next() {
            return match tip.filter(|_| unmerged.is_none()) {
                Some(tip) => Ok(self.repo.fast_forward(&on, tip, target)?),
                // It would stay where it is, so nothing is kept yet.
                None => Err(begins_anew(task, on, &checkout)),
            };
        }
        if let Some(tip) = unmerged {
            let kept = self.keep(phase, tip)?;
            self.engine.warn(
                WarningCode::PhaseBranchRestarted.with(format!("`{on}` is restarted; what it had is kept at {kept}")),
            );
        }
        Ok(self.repo.swap(&name, tip, target, "pleach: a phase begins").map_err(crate::git::Error::from)?)
    }

    /// Whether the branch of a phase goes on from where it stands.
    pub(super) fn goes_on(
        &self,
        phase: &TaskId,
        on: &BranchName,
        (tip, target): (CommitId, CommitId),
    ) -> Result<bool, Error> {
        // What another tree left there is no part of it either.
        let is_others = self.progress.taken.iter().any(|taken| taken.branch.name == *on);
        if is_others || !self.is_of_run(tip)? || self.repo.is_ancestor(tip, target)? {
            return Ok(false);
        }
        let is_of_use = self.progress.finished_on(&StepPlace::Phase(phase.clone())).next().is_some();
        Ok(is_of_use || !self.is_replaced(tip, target)?)
    }

    /// Where a task begins that has nothing on a branch of its own, once the branch of its phase is brought there.
    pub(super) fn base_of(&self, task: &TaskId) -> Result<CommitId, Error> {
        let (on, target) = (self.lands_on(task)?, target_tip(&self.repo, &self.plan.target)?);
        match self.repo.reference(&branch_ref(&on))? {
            Some(tip) if self.goes_on(self.plan.tree.phase_of(task), &on, (tip, target))? => Ok(tip),
            _ => Ok(target),
        }
    }

    /// Something a task needs that the target has and the branch of its phase has not: the branch was begun before that was
    /// there, or before the tree said so.
    fn lacked(&self, task: &TaskId, (tip, target): (CommitId, CommitId)) -> Result<Option<&TaskId>, Error> {
        let tree = &self.plan.tree;
        let needed = tree.dependencies(task).into_iter().flat_map(|needed| tree.leaves_below(needed));
        let landed = needed.filter_map(|needed| {
            let state = self.progress.task(needed);
            // One that was skipped has brought nothing, and one that was set back has nothing new.
            let is_work = |newest: &&StepCommit| state.status == TaskStatus::Complete && !newest.step.skipped;
            let newest = state.newest().filter(is_work)?;
            (newest.on == StepPlace::Target).then_some((needed, newest.commit))
        });
        let mut landed = landed.peekable();
        if landed.peek().is_none() {
            return Ok(None);
        }
        // Looked at once: to ask for each of them would walk the history as often.
        let [of_target, _] = self.repo.apart(target, tip, (&|_| false, &|_| false))?;
        let missing: HashSet<CommitId> = of_target.into_iter().map(|passed| passed.id).collect();
        Ok(landed.find(|(_, commit)| missing.contains(commit)).map(|(needed, _)| needed))
    }

    /// That a task cannot begin, or land, on a phase's branch that lacks what it needs.
    fn lacks(&self, task: &TaskId, needed: &TaskId, on: BranchName) -> Result<Error, Error> {
        let by_hand = self.merged_by_hand(&self.plan.target, &on);
        let why = format!("{task} needs {needed}, which `{on}` does not have; {by_hand}");
        let finished = self.progress.waiting_to_land().contains(&task);
        let branch = if finished { self.branch_of(task)? } else { on };
        Ok(Error::Refused(Refusal::new(task.clone(), finished, branch, (RefusalCode::Lacking, why))))
    }

    /// Whether a phase's branch has a task that was set back, and done again on the target since.
    fn is_replaced(&self, tip: CommitId, target: CommitId) -> Result<bool, Error> {
        let is_done = |task: &TaskId| {
            let state = self.progress.task(task);
            let is_there = state.newest().is_some_and(|newest| newest.on == StepPlace::Target && !newest.step.skipped);
            state.status == TaskStatus::Complete && is_there
        };
        let completes = |step: &Step| TaskStatus::after(step) == TaskStatus::Complete;
        let is_again = |found: &StepCommit| completes(&found.step) && found.step.task.as_ref().is_some_and(is_done);
        Ok(self.steps_ahead(tip, target)?.iter().any(is_again))
    }

    /// What the tests of a phase run on: what is landed; where phases are gathered, what their merge will be.
    pub(super) fn gate_base(&self, gate: &TaskId) -> Result<CommitId, Error> {
        let phase = self.plan.tree.phase_of(gate);
        let target = target_tip(&self.repo, &self.plan.target)?;
        if !self.schedule.is_ahead(phase) {
            return Ok(target);
        }
        self.candidate(phase, target).or_else(|error| Err(Error::Refused(self.phase_waits(phase, unmerged(error)?)?)))
    }

    /// The end of a run at tests of a phase that fail.
    pub(super) fn gate_red(&self, gate: TaskId) -> TreeEnded {
        let on_merge = self.schedule.is_ahead(self.plan.tree.phase_of(&gate));
        let reason = self.progress.task(&gate).newest().and_then(StepCommit::reason);
        TreeEnded::GateRed { gate, on_merge, reason }
    }

    /// The merge of a phase into the target, which stands at `onto`. It is written, and nothing moves.
    fn candidate(&self, phase: &TaskId, onto: CommitId) -> Result<CommitId, Unmerged> {
        let tip = self.tip_or_target(&self.branch_of_phase(phase)?)?;
        let mut writer = self.repo.writer();
        let at = self.repo.commit(tip)?.at.max(self.repo.commit(onto)?.at);
        let commit = landing::merge_phase(&self.repo, &mut writer, phase, onto, tip, at)?;
        writer.flush()?;
        Ok(commit)
    }

    fn branch_of_phase(&self, phase: &TaskId) -> Result<BranchName, Error> {
        Ok(phase_branch(&self.plan.branch_prefix, &self.plan.target, phase)?)
    }

    /// Says that a phase waits to be merged, and how to go on.
    fn phase_waits(&self, phase: &TaskId, why: RefusalReason) -> Result<Refusal, Error> {
        let (branch, code) = (self.branch_of_phase(phase)?, RefusalCode::of(&why));
        let why = match why {
            RefusalReason::Conflict(conflict) => {
                format!("{conflict}; {}", self.merged_by_hand(&self.plan.target, &branch))
            }
            RefusalReason::Overwritten(error) => landed_again(&branch, &error),
            RefusalReason::Gone => return Err(Error::NoTarget(self.plan.target.clone())),
            RefusalReason::NoTests => without_tests(phase),
            RefusalReason::Untestable(why) | RefusalReason::Held(why) => why,
        };
        Ok(Refusal::new(phase.clone(), true, branch, (code, why)))
    }

    /// The files the tests of a phase last passed on, where this run or the record of an earlier one tells.
    fn tested_on(&self, gate: &TaskId) -> Result<Option<TreeId>, Error> {
        if let Some(tree) = self.course.gated.get(gate) {
            return Ok(Some(*tree));
        }
        let run = self.progress.gate(gate, self.plan.tree.leaves_below(gate));
        passed_in(&self.repo, run).map_or(Ok(None), |history| self.begun_on(&history.started))
    }

    /// The phase itself, where its merge has something its tasks were not tested with and no tests of the whole look at all
    /// of them; or why that cannot be tested.
    fn parts_to_test<'p>(
        &self,
        phase: &'p TaskId,
        merge: CommitId,
    ) -> Result<Result<Option<&'p TaskId>, String>, Error> {
        let parents = self.repo.commit(merge)?.parents;
        let (target, tip) = (parents[0], parents[1]);
        if self.repo.tree_of(merge)? == self.repo.tree_of(tip)? && self.is_as_landed(tip, target)? {
            return Ok(Ok(None));
        }
        if let Some(why) = self.untestable(phase, &self.branch_of_phase(phase)?) {
            return Ok(Err(why));
        }
        Ok(Ok(Some(phase).filter(|phase| !self.job(phase).tests.is_empty())))
    }

    /// Whether the branch of a phase has nothing but what sessions have landed there, ahead of the target: nobody has put
    /// anything behind it, below or in between.
    fn is_as_landed(&self, tip: CommitId, target: CommitId) -> Result<bool, Error> {
        let Some(base) = self.repo.merge_base(tip, target)? else { return Ok(false) };
        let chain = self.chain(tip, base)?;
        let ahead: HashSet<CommitId> = chain.iter().copied().collect();
        let mut looked_at = BTreeSet::new();
        for commit in chain {
            let made = self.repo.commit(commit)?;
            let parent = match made.parents[..] {
                [parent] => parent,
                // What an agent has committed itself is part of its turn.
                [parent, _] if step_scan::is_turn(&made.message) => parent,
                _ => return Ok(false),
            };
            if self.repo.tree_of(commit)? == self.repo.tree_of(parent)? {
                continue;
            }
            let Some(session) = self.session_of(commit)? else { return Ok(false) };
            if looked_at.contains(&session) {
                continue;
            }
            // A record that is not there tells nothing.
            let state = History::newest(&self.repo, &session).ok().and_then(|history| state_of(&history).ok());
            let landed = state.and_then(|state| state.task?.landed);
            if landed.is_none_or(|landed| !ahead.contains(&landed)) {
                return Ok(false);
            }
            looked_at.insert(session);
        }
        Ok(true)
    }

    /// The session a commit was made in: as one of its steps or, where those are committed as well, of its turns.
    fn session_of(&self, commit: CommitId) -> Result<Option<SessionId>, Error> {
        if let Some(found) = self.found(commit)? {
            return Ok(found.step.session);
        }
        Ok(step_scan::turn(&self.repo.commit(commit)?.message).map(|turn| turn.session))
    }

    /// Merges a phase whose tasks are done into the target. Gives the tests that are to be run first, where some are not green
    /// on exactly what that gives.
    pub(super) fn merge_phase(&mut self, phase: &TaskId) -> Result<PhaseMerge, Error> {
        let mut to_test = None;
        let mut next = merge::land([(self.target_of(self.plan.target.clone()), LandingWork::Phase)]);
        loop {
            next = match next {
                LandingAsk::Look(look) => {
                    let tip = target_tip(&self.repo, &self.plan.target)?;
                    look.saw([match self.repo.held(&self.plan.target)? {
                        Some(held) => TargetState::Held(held.to_string()),
                        None => TargetState::At { tip, base: tip },
                    }])
                }
                LandingAsk::Build(build) => match self.candidate(phase, build.onto()) {
                    Ok(commit) => build.built(commit),
                    Err(error) => build.failed(unmerged(error)?),
                },
                LandingAsk::Verify(verify) => {
                    let merged = verify.moves().first().expect("what is verified is about to move").to;
                    let verdict = match self.untested(phase, merged)? {
                        Err(why) => LandingVerdict::Untestable(why),
                        Ok(None) => LandingVerdict::Green,
                        Ok(Some(gate)) => {
                            to_test = Some(gate);
                            LandingVerdict::Stopped
                        }
                    };
                    verify.verified(verdict)
                }
                // Only tasks are tested by agents.
                LandingAsk::Rewind(rewind) => rewind.rewound(None),
                // The merge is its own record.
                LandingAsk::Record(record) => record.recorded(),
                LandingAsk::Move(moving) => {
                    let parents = self.repo.commit(moving.step().to)?.parents;
                    self.advance(moving, &parents)?
                }
                LandingAsk::Close(close) => {
                    self.read_again()?;
                    for LandedBranch { target, commit, .. } in close.landed() {
                        self.engine.tell(PhaseMerged {
                            task: phase.clone(),
                            repo: target.repo,
                            target: target.branch,
                            commit,
                            done: self.done,
                            extra: Default::default(),
                        });
                    }
                    self.delete_landed_branches()?;
                    close.closed()
                }
                LandingAsk::End(LandingEnd::Refused(refused)) => {
                    return Ok(PhaseMerge::Refused(self.phase_waits(phase, refused.why)?));
                }
                LandingAsk::End(_) => return Ok(to_test.map_or(PhaseMerge::Merged, PhaseMerge::Test)),
            };
        }
    }

    /// The first of a phase's tests that have not passed on exactly what its merge gives; or why it cannot be tested.
    fn untested(&self, phase: &TaskId, merged: CommitId) -> Result<Result<Option<TaskId>, String>, Error> {
        let tree = self.repo.tree_of(merged)?;
        let gates = self.plan.tree.gates().into_iter().map(|gate| &gate.id);
        let of_phase = gates.filter(|gate| self.plan.tree.phase_of(gate) == phase);
        let parts = match self.parts_to_test(phase, merged)? {
            Ok(parts) => parts,
            Err(why) => return Ok(Err(why)),
        };
        for gate in of_phase.chain(parts) {
            if self.tested_on(gate)? != Some(tree) {
                return Ok(Ok(Some(gate.clone())));
            }
        }
        Ok(Ok(None))
    }
}

/// Why the merge of a phase was not made.
#[derive(Debug)]
enum Unmerged {
    Merge(MergeError),
    Other(Error),
}

impl From<MergeError> for Unmerged {
    fn from(error: MergeError) -> Self {
        Self::Merge(error)
    }
}

impl From<crate::git::Error> for Unmerged {
    fn from(error: crate::git::Error) -> Self {
        Self::Merge(MergeError::Git(error))
    }
}

impl From<Error> for Unmerged {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Why it waits, unless git itself failed.
fn unmerged(error: Unmerged) -> Result<RefusalReason, Error> {
    match error {
        Unmerged::Merge(MergeError::Conflict(conflict)) => Ok(RefusalReason::Conflict(conflict.to_string())),
        Unmerged::Merge(MergeError::Git(error @ crate::git::Error::Overwritten { .. })) => {
            Ok(RefusalReason::Overwritten(error.to_string()))
        }
        Unmerged::Merge(MergeError::Git(error)) => Err(error.into()),
        Unmerged::Other(error) => Err(error),
    }
}

/// The record of the newest run of a phase's tests, where they passed. One that is not there tells nothing, and they run again.
fn passed_in(repo: &Repo, run: GateProgress) -> Option<History> {
    let newest = run.newest.filter(|found| run.green && found.step.passed)?;
    History::newest(repo, newest.step.session.as_ref()?).ok()
}

/// What has become of a tree, for those who tell what a run would do: tests of phases that are to be merged pass no more
/// where the target or the branch of the phase has other files than the merge they passed on was made of. Merging would tell
/// it for sure, but would have to write what it gives.
pub fn as_merged_now(
    repo: &Repo,
    (tree, limits): (&Arc<TaskTree>, &ScheduleOptions),
    target: &BranchName,
    prefix: &str,
    progress: Progress,
) -> Result<Progress, Error> {
    let schedule = Schedule::new(tree, &progress, limits.clone());
    let mut outdated = BTreeSet::new();
    for phase in schedule.merges() {
        let now = [target.clone(), phase_branch(prefix, target, phase)?].map(|branch| target_tip(repo, &branch));
        let [Ok(target), Ok(tip)] = now else { continue };
        for gate in tree.gates().into_iter().filter(|gate| tree.phase_of(&gate.id) == phase) {
            let run = progress.gate(&gate.id, tree.leaves_below(&gate.id));
            let on = passed_in(repo, run).and_then(|history| history.started.built_on());
            let then = on.map(|on| repo.commit(on)).transpose()?.map(|merge| merge.parents).unwrap_or_default();
            let is_same = match then[..] {
                [target_then, tip_then] => {
                    repo.tree_of(target_then)? == repo.tree_of(target)?
                        && repo.tree_of(tip_then)? == repo.tree_of(tip)?
                }
                _ => false,
            };
            if !is_same {
                outdated.insert(gate.id.clone());
            }
        }
    }
    Ok(progress.without_gates(outdated))
}

/// What to do about the branch of a phase with something on it that is not any more what it was. Its tasks have branches of
/// their own: whose work it is shows when they land.
fn landed_again(branch: &BranchName, error: &str) -> String {
    let branch = shell_word(branch);
    format!("{error}; then `git branch -D {branch}` and run again, to have its tasks land once more or be done again")
}
