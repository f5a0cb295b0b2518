//! The branch of a phase: where it starts, what it lacks, what the phase's tests run on, and how it is merged.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::refusal::{Refusal, RefusalCode};
use super::refusal_reasons::{self, begins_anew};
use super::run::{TreeRun, target_tip};
use super::testing::{self, without_tests};
use super::unfinished::state_of;
use super::{Error, delete_branches, keep, land, step_scan, steps};
use crate::landing::commits;
use git::record::History;
use git::workspace::{branch_ref, phase_branch};
use git::{MergeError, Repo, TreeId};
use pleach_core::event::{PhaseMerged, WarningCode};
use pleach_core::ids::{BranchName, CommitId, SessionId, TaskId};
use pleach_core::merge::{
    self, LandedBranch, LandingAsk, LandingEnd, LandingVerdict, LandingWork, RefusalReason, TargetState,
};
use pleach_core::plan::tree::TaskTree;
use pleach_core::progress::{GateProgress, Progress, StepCommit, StepPlace, TaskStatus};
use pleach_core::schedule::{Schedule, ScheduleOptions};
use pleach_core::step::Step;
use pleach_core::text::shell_word;

/// The result of merging a phase.
#[derive(Debug)]
pub(super) enum PhaseMerge {
    /// It is merged.
    Merged,
    /// These tests must run first.
    Test(TaskId),
    /// It cannot be merged, and waits.
    Refused(Refusal),
}

/// Starts the branch of a task's phase at the target, or moves it there once all its commits are merged, or were reset
/// and done elsewhere. Commits that are unmerged then, or were left by an earlier run, are kept.
pub(super) fn bring_phase(run: &TreeRun, task: &TaskId) -> Result<(), Error> {
    let on = run.lands_on(task)?;
    if on == run.plan.target {
        return Ok(());
    }
    let (name, target) = (branch_ref(&on), target_tip(&run.repo, &run.plan.target)?);
    let tip = run.repo.refs().find(&name)?;
    let phase = run.plan.tree.phase_of(task);
    let mut unmerged = None;
    if let Some(tip) = tip {
        if goes_on(run, phase, &on, tip, target)? {
            let lacked = lacked(run, task, tip, target)?;
            return lacked.map_or(Ok(()), |needed| Err(lacks(run, task, needed, on)?));
        }
        if tip == target {
            return Ok(());
        }
        unmerged = if run.repo.history().is_ancestor(tip, target)? { None } else { Some(tip) };
    }
    if let Some(checkout) = git::checkouts_of(&run.repo, &on)?.into_iter().next() {
        return match tip.filter(|_| unmerged.is_none()) {
            Some(tip) => Ok(git::land::fast_forward(&run.repo, &on, tip, target)?),
            // A checked-out branch cannot be moved, so nothing is kept yet.
            None => Err(begins_anew(task, on, &checkout)),
        };
    }
    if let Some(tip) = unmerged {
        let kept = keep::keep(run, phase, tip)?;
        run.engine.warn(
            WarningCode::PhaseBranchRestarted.with(format!("`{on}` is restarted; what it had is kept at {kept}")),
        );
    }
    Ok(run.repo.refs().swap(&name, tip, target, "pleach: a phase begins").map_err(git::Error::from)?)
}

/// Whether the branch of a phase continues from its tip.
pub(super) fn goes_on(
    run: &TreeRun,
    phase: &TaskId,
    on: &BranchName,
    tip: CommitId,
    target: CommitId,
) -> Result<bool, Error> {
    // Commits of another tree are not part of the phase either.
    let is_others = run.progress.taken.iter().any(|taken| taken.branch.name == *on);
    if is_others || !run.is_of_run(tip)? || run.repo.history().is_ancestor(tip, target)? {
        return Ok(false);
    }
    let is_of_use = run.progress.finished_on(&StepPlace::Phase(phase.clone())).next().is_some();
    Ok(is_of_use || !is_replaced(run, tip, target)?)
}

/// Where a task without work on its own branch starts, once the branch of its phase is up to date.
pub(super) fn base_of(run: &TreeRun, task: &TaskId) -> Result<CommitId, Error> {
    let (on, target) = (run.lands_on(task)?, target_tip(&run.repo, &run.plan.target)?);
    match run.repo.refs().find(&branch_ref(&on))? {
        Some(tip) if goes_on(run, run.plan.tree.phase_of(task), &on, tip, target)? => Ok(tip),
        _ => Ok(target),
    }
}

/// A dependency of a task that the target has and the branch of its phase lacks: the branch started before the
/// dependency landed, or before the tree declared it.
fn lacked<'r>(run: &'r TreeRun, task: &TaskId, tip: CommitId, target: CommitId) -> Result<Option<&'r TaskId>, Error> {
    let tree = &run.plan.tree;
    let needed = tree.dependencies(task).into_iter().flat_map(|needed| tree.leaves_below(needed));
    let landed = needed.filter_map(|needed| {
        let state = run.progress.task(needed);
        // A skipped task made no changes, and a reset task has none to offer.
        let is_work = |newest: &&StepCommit| state.status == TaskStatus::Complete && !newest.step.skipped;
        let newest = state.newest().filter(is_work)?;
        (newest.on == StepPlace::Target).then_some((needed, newest.commit))
    });
    let mut landed = landed.peekable();
    if landed.peek().is_none() {
        return Ok(None);
    }
    // Computed once: checking each dependency would walk the history every time.
    let [of_target, _] = run.repo.history().symmetric_difference(target, tip, (&|_| false, &|_| false))?;
    let missing: HashSet<CommitId> = of_target.into_iter().map(|passed| passed.id).collect();
    Ok(landed.find(|(_, commit)| missing.contains(commit)).map(|(needed, _)| needed))
}

/// The error for a task that cannot start or land because the branch of its phase lacks a dependency.
fn lacks(run: &TreeRun, task: &TaskId, needed: &TaskId, on: BranchName) -> Result<Error, Error> {
    let by_hand = refusal_reasons::merged_by_hand(run, &run.plan.target, &on);
    let why = format!("{task} needs {needed}, which `{on}` does not have; {by_hand}");
    let finished = run.progress.waiting_to_land().contains(&task);
    let branch = if finished { run.branch_of(task)? } else { on };
    Ok(Error::Refused(Refusal::new(task.clone(), finished, branch, RefusalCode::Lacking, why)))
}

/// Whether a phase's branch has a task that was reset and since done again on the target.
fn is_replaced(run: &TreeRun, tip: CommitId, target: CommitId) -> Result<bool, Error> {
    let is_done = |task: &TaskId| {
        let state = run.progress.task(task);
        let is_there = state.newest().is_some_and(|newest| newest.on == StepPlace::Target && !newest.step.skipped);
        state.status == TaskStatus::Complete && is_there
    };
    let completes = |step: &Step| TaskStatus::after(step) == TaskStatus::Complete;
    let is_again = |found: &StepCommit| completes(&found.step) && found.step.task.as_ref().is_some_and(is_done);
    Ok(steps::steps_ahead(run, tip, target)?.iter().any(is_again))
}

/// The commit the tests of a phase run on: the landed state or, for a phase with its own branch, its future merge.
pub(super) fn gate_base(run: &TreeRun, gate: &TaskId) -> Result<CommitId, Error> {
    let phase = run.plan.tree.phase_of(gate);
    let target = target_tip(&run.repo, &run.plan.target)?;
    if !run.schedule.is_ahead(phase) {
        return Ok(target);
    }
    candidate(run, phase, target).or_else(|error| Err(Error::Refused(phase_waits(run, phase, unmerged(error)?)?)))
}

/// The merge of a phase into the target at `onto`. It is written, but no ref moves.
fn candidate(run: &TreeRun, phase: &TaskId, onto: CommitId) -> Result<CommitId, Unmerged> {
    let tip = run.tip_or_target(&branch_of_phase(run, phase)?)?;
    let mut writer = run.repo.writer();
    let at = run.repo.commit(tip)?.at.max(run.repo.commit(onto)?.at);
    let commit = commits::merge_phase(&run.repo, &mut writer, phase, onto, tip, at)?;
    writer.flush()?;
    Ok(commit)
}

fn branch_of_phase(run: &TreeRun, phase: &TaskId) -> Result<BranchName, Error> {
    Ok(phase_branch(&run.plan.branch_prefix, &run.plan.target, phase)?)
}

/// The refusal for a phase that waits to be merged, and how to continue.
fn phase_waits(run: &TreeRun, phase: &TaskId, why: RefusalReason) -> Result<Refusal, Error> {
    let (branch, code) = (branch_of_phase(run, phase)?, RefusalCode::of(&why));
    let why = match why {
        RefusalReason::Conflict(conflict) => {
            format!("{conflict}; {}", refusal_reasons::merged_by_hand(run, &run.plan.target, &branch))
        }
        RefusalReason::Overwritten(error) => landed_again(&branch, &error),
        RefusalReason::Gone => return Err(Error::NoTarget(run.plan.target.clone())),
        RefusalReason::NoTests => without_tests(phase),
        RefusalReason::Untestable(why) | RefusalReason::Held(why) => why,
    };
    Ok(Refusal::new(phase.clone(), true, branch, code, why))
}

/// The files on which the tests of a phase last passed, if this run or the record of an earlier one knows.
fn tested_on(run: &TreeRun, gate: &TaskId) -> Result<Option<TreeId>, Error> {
    if let Some(tree) = run.state.gated.get(gate) {
        return Ok(Some(*tree));
    }
    let tests = run.progress.gate(gate, run.plan.tree.leaves_below(gate));
    passed_in(&run.repo, tests).map_or(Ok(None), |history| testing::begun_on(run, &history.started))
}

/// The phase itself, if its merge holds code that its tasks were not tested with and no gates cover all of them; or why
/// that cannot be tested.
fn parts_to_test<'p>(
    run: &TreeRun,
    phase: &'p TaskId,
    merge: CommitId,
) -> Result<Result<Option<&'p TaskId>, String>, Error> {
    let parents = run.repo.commit(merge)?.parents;
    let (target, tip) = (parents[0], parents[1]);
    if run.repo.tree_of(merge)? == run.repo.tree_of(tip)? && is_as_landed(run, tip, target)? {
        return Ok(Ok(None));
    }
    if let Some(why) = testing::untestable(run, phase, &branch_of_phase(run, phase)?) {
        return Ok(Err(why));
    }
    Ok(Ok(Some(phase).filter(|phase| !testing::job(run, phase).tests.is_empty())))
}

/// Whether the branch of a phase has nothing ahead of the target except landed work of sessions: no foreign commits on
/// top, below or in between.
fn is_as_landed(run: &TreeRun, tip: CommitId, target: CommitId) -> Result<bool, Error> {
    let Some(base) = run.repo.history().merge_base(tip, target)? else { return Ok(false) };
    let chain = steps::chain(run, tip, base)?;
    let ahead: HashSet<CommitId> = chain.iter().copied().collect();
    let mut looked_at = BTreeSet::new();
    for commit in chain {
        let object = run.repo.commit(commit)?;
        let parent = match object.parents[..] {
            [parent] => parent,
            // An agent's own commits are part of its turn.
            [parent, _] if step_scan::is_turn(&object.message) => parent,
            _ => return Ok(false),
        };
        if run.repo.tree_of(commit)? == run.repo.tree_of(parent)? {
            continue;
        }
        let Some(session) = session_of(run, commit)? else { return Ok(false) };
        if looked_at.contains(&session) {
            continue;
        }
        // A missing record says nothing.
        let state = History::newest(&run.repo, &session).ok().and_then(|history| state_of(&history).ok());
        let landed = state.and_then(|state| state.task?.landed);
        if landed.is_none_or(|landed| !ahead.contains(&landed)) {
            return Ok(false);
        }
        looked_at.insert(session);
    }
    Ok(true)
}

/// The session a commit was made in, as one of its steps or, if turns are committed as well, of its turns.
fn session_of(run: &TreeRun, commit: CommitId) -> Result<Option<SessionId>, Error> {
    if let Some(found) = steps::found(run, commit)? {
        return Ok(found.step.session);
    }
    Ok(step_scan::turn(&run.repo.commit(commit)?.message).map(|turn| turn.session))
}

/// Merges a phase whose tasks are done into the target. Returns the tests to run first, if some have not passed on
/// exactly that merge.
pub(super) fn merge_phase(run: &mut TreeRun, phase: &TaskId) -> Result<PhaseMerge, Error> {
    let mut to_test = None;
    let mut next = merge::land([(run.target_of(run.plan.target.clone()), LandingWork::Phase)]);
    loop {
        next = match next {
            LandingAsk::Look(look) => {
                let tip = target_tip(&run.repo, &run.plan.target)?;
                look.saw([match git::land::blocked(&run.repo, &run.plan.target)? {
                    Some(held) => TargetState::Held(held.to_string()),
                    None => TargetState::At { tip, base: tip },
                }])
            }
            LandingAsk::Build(build) => match candidate(run, phase, build.onto()) {
                Ok(commit) => build.built(commit),
                Err(error) => build.failed(unmerged(error)?),
            },
            LandingAsk::Verify(verify) => {
                let merged = verify.moves().first().expect("what is verified is about to move").to;
                let verdict = match untested(run, phase, merged)? {
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
                let parents = run.repo.commit(moving.step().to)?.parents;
                land::advance(run, moving, &parents)?
            }
            LandingAsk::Close(close) => {
                run.read_again()?;
                for LandedBranch { target, commit, .. } in close.landed() {
                    run.engine.tell(PhaseMerged {
                        task: phase.clone(),
                        repo: target.repo,
                        target: target.branch,
                        commit,
                        done: run.done,
                        extra: Default::default(),
                    });
                }
                delete_branches::delete_landed_branches(run)?;
                close.closed()
            }
            LandingAsk::End(LandingEnd::Refused(refused)) => {
                return Ok(PhaseMerge::Refused(phase_waits(run, phase, refused.why)?));
            }
            LandingAsk::End(_) => return Ok(to_test.map_or(PhaseMerge::Merged, PhaseMerge::Test)),
        };
    }
}

/// The first of a phase's tests that has not passed on exactly its merge; or why it cannot be tested.
fn untested(run: &TreeRun, phase: &TaskId, merged: CommitId) -> Result<Result<Option<TaskId>, String>, Error> {
    let tree = run.repo.tree_of(merged)?;
    let gates = run.plan.tree.gates().into_iter().map(|gate| &gate.id);
    let of_phase = gates.filter(|gate| run.plan.tree.phase_of(gate) == phase);
    let parts = match parts_to_test(run, phase, merged)? {
        Ok(parts) => parts,
        Err(why) => return Ok(Err(why)),
    };
    for gate in of_phase.chain(parts) {
        if tested_on(run, gate)? != Some(tree) {
            return Ok(Ok(Some(gate.clone())));
        }
    }
    Ok(Ok(None))
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

impl From<git::Error> for Unmerged {
    fn from(error: git::Error) -> Self {
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
        Unmerged::Merge(MergeError::Git(error @ git::Error::Overwritten { .. })) => {
            Ok(RefusalReason::Overwritten(error.to_string()))
        }
        Unmerged::Merge(MergeError::Git(error)) => Err(error.into()),
        Unmerged::Other(error) => Err(error),
    }
}

/// The record of the newest run of a phase's tests, if they passed. A missing record says nothing, so they run again.
fn passed_in(repo: &Repo, run: GateProgress) -> Option<History> {
    let newest = run.newest.filter(|found| run.green && found.step.passed)?;
    History::newest(repo, newest.step.session.as_ref()?).ok()
}

/// The progress of a tree for a preview of a run. Tests of a phase to be merged no longer count as passed if the target
/// or the phase's branch has other files than the merge they ran on. Merging would give a definite answer, but would
/// have to write objects.
pub fn as_merged_now(
    repo: &Repo,
    tree: &Arc<TaskTree>,
    limits: &ScheduleOptions,
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

/// How to recover the branch of a phase with an overwritten object. Its tasks have their own branches: whose work is
/// affected shows when they land.
fn landed_again(branch: &BranchName, error: &str) -> String {
    let branch = shell_word(branch);
    format!("{error}; then `git branch -D {branch}` and run again, to have its tasks land once more or be done again")
}
