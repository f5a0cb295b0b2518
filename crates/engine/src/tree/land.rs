//! Lands the work of sessions: does what [`merge`] asks for and returns the results.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attempts::behind;
use super::ended::TreeEnded;
use super::refusal::{Refusal, RefusalCode};
use super::run::{TreeRun, target_tip};
use super::testing::{self, without_tests};
use super::{Error, delete_branches, keep, refusal_reasons, spending, start, steps};
use crate::landing::commits::{self, RebuildError};
use crate::landing::{edited_tests, edited_words};
use crate::session::{Pause, Retest, Retested, StepReport, TaskSession, cancel, task_is_out_of_budget};
use git::LandError;
use git::workspace::branch_ref;
use pleach_core::config::Isolation;
use pleach_core::event::{self, Landing, TaskLanded, WarningCode};
use pleach_core::ids::{BranchName, CommitId, TaskId};
use pleach_core::merge::{
    self, BranchMove, BuildAsk, LandedBranch, LandingAsk, LandingEnd, LandingTarget, LandingVerdict, LandingWork,
    MoveAsk, Proof, RefusalReason, TargetState, VerifyAsk,
};
use pleach_core::progress::{StepCommit, TaskStatus};
use pleach_core::step::{StepKind, report, text};

/// The result of a landing.
pub(super) enum LandOutcome {
    /// It has landed.
    Landed,
    /// Its tests fail after it was rebuilt on the target's new tip, which is this commit.
    Red(CommitId),
    /// It was rebuilt as this commit, and must be tested and reviewed again.
    Rebuilt(CommitId),
    /// The files changed since the tests ran, so their result does not apply.
    Moved,
    /// It cannot land, and waits.
    Refused(Refusal),
    /// The run stops here.
    Paused,
}

/// A landing in progress.
#[derive(Debug)]
pub(super) struct LandingRun {
    pub session: TaskSession,
    on: BranchName,
    work: LandingWork,
    /// The report of tests that failed on the target's tip.
    red: Option<Box<StepReport>>,
}

/// A landing that continues when its tests have run on a commit.
#[derive(Debug)]
pub(super) struct LandingTests {
    pub landing: LandingRun,
    verify: VerifyAsk,
    pub commit: CommitId,
}

/// The next step of a landing.
pub(super) enum LandingStep {
    /// Run tests.
    Tests(Box<LandingTests>),
    /// The landing has ended.
    End(Box<TaskSession>, LandOutcome),
}

/// The result of one action.
#[derive(Debug)]
pub(super) enum WorkEnd {
    /// Continue with the next action.
    GoOn,
    /// A task is complete and landed.
    Done(TaskId),
    /// The run has ended.
    Ended(TreeEnded),
}

/// What the result of a landing means for the run.
pub(super) fn landed(run: &mut TreeRun, session: TaskSession, tried: LandOutcome) -> WorkEnd {
    let task = session.task().id.clone();
    let newest = session.newest_step();
    let over = task_is_out_of_budget(&session).ok().flatten();
    spending::take_back(run, session);
    match (tried, newest) {
        (LandOutcome::Landed, Some((StepKind::Complete, false))) => {
            let state = run.progress.task(&task);
            let (attempts, reason) = (state.attempts, over.or_else(|| state.why_failed()));
            WorkEnd::Ended(TreeEnded::Failed { task, attempts, before: false, reason })
        }
        (LandOutcome::Landed, Some((StepKind::Test, false))) => WorkEnd::Ended(gate_red(run, task)),
        (LandOutcome::Landed, _) if run.plan.tree.is_leaf(&task) => WorkEnd::Done(task),
        (LandOutcome::Landed | LandOutcome::Red(_) | LandOutcome::Rebuilt(_) | LandOutcome::Moved, _) => WorkEnd::GoOn,
        (LandOutcome::Refused(refusal), _) => WorkEnd::Ended(TreeEnded::Refused(refusal)),
        (LandOutcome::Paused, _) => WorkEnd::Ended(TreeEnded::Paused(Pause::interrupted())),
    }
}

/// Starts landing the work of a session.
pub(super) fn land(run: &mut TreeRun, session: TaskSession) -> Result<LandingStep, Error> {
    let on = run.lands_on(&session.task().id)?;
    let work = work_of(run, &session);
    let target = LandingTarget { repo: session.task().repo.clone(), branch: on.clone() };
    go_on_landing(run, LandingRun { session, on, work, red: None }, merge::land([(target, work)]))
}

/// Continues a landing whose tests have run.
pub(super) fn retested(run: &mut TreeRun, tests: LandingTests, said: Option<Retested>) -> Result<LandingStep, Error> {
    let LandingTests { mut landing, verify, .. } = tests;
    let (verdict, red) = verdict(run, &landing, said)?;
    landing.red = red;
    go_on_landing(run, landing, verify.verified(verdict))
}

/// Does what is asked for until tests must run or the landing has ended.
fn go_on_landing(run: &mut TreeRun, mut landing: LandingRun, mut next: LandingAsk) -> Result<LandingStep, Error> {
    loop {
        let LandingRun { session, on, work, red } = &mut landing;
        next = match next {
            LandingAsk::Look(look) => look.saw([look_at_target(run, session, on)?]),
            LandingAsk::Build(build) => match build_landing(run, session, *work, &build) {
                Ok(to) => build.built(to),
                Err(error) => build.failed(unbuilt(error)?),
            },
            LandingAsk::Verify(verify) => {
                let step = verify.moves().into_iter().next().expect("what is verified is about to move");
                if verify.proof() != Proof::SameFiles {
                    return Ok(LandingStep::Tests(Box::new(LandingTests { landing, verify, commit: step.to })));
                }
                let is_same = ran_on(run, session, step.from)?;
                verify.verified(if is_same { LandingVerdict::Green } else { LandingVerdict::Outdated })
            }
            LandingAsk::Rewind(rewind) => {
                let begun = before_tests(run, session, onto(rewind.moves()))?;
                let (code, how) = match begun {
                    Some(_) => (WarningCode::RebuiltRetested, " and is tested again there"),
                    None => (WarningCode::RebuiltUntested, ", where only an agent can test it, in another attempt"),
                };
                let task = &session.task().id;
                run.engine.warn(code.with(format!("{task} was rebuilt on `{on}`{how}")));
                rewind.rewound(begun)
            }
            LandingAsk::Record(record) => {
                let landing = record.moves().into_iter().map(|step| Landing {
                    repo: step.target.repo,
                    target: step.target.branch,
                    from: step.from,
                    to: step.to,
                    extra: Default::default(),
                });
                session.record_landing(landing.collect())?;
                record.recorded()
            }
            LandingAsk::Move(moving) => {
                let from = moving.step().from;
                advance(run, moving, &[from])?
            }
            LandingAsk::Close(close) => {
                warn_of_edited_tests(run, session)?;
                note_landed(run, session, close.landed())?;
                close.closed()
            }
            LandingAsk::End(end) => {
                let red = red.take();
                let tried = tried(run, session, end, red)?;
                return Ok(LandingStep::End(Box::new(landing.session), tried));
            }
        };
    }
}

/// Says of a task that lands if it has edited the files its tests are started from.
fn warn_of_edited_tests(run: &TreeRun, session: &TaskSession) -> Result<(), Error> {
    let task = session.task();
    let is_complete = session.newest_step() == Some((StepKind::Complete, true)) && run.plan.tree.is_leaf(&task.id);
    if !is_complete {
        return Ok(());
    }
    let tests = testing::landing_tests(run, &testing::job(run, &task.id)).unwrap_or_default();
    let commands = tests.iter().map(|test| test.command.as_str());
    let edited = edited_tests(&run.repo, task.base, session.task_tip(), commands)?;
    if !edited.is_empty() {
        run.engine.warn(WarningCode::TestsEdited.with(edited_words(task.id.as_str(), &edited)));
    }
    Ok(())
}

/// What the end of a landing means for its session.
fn tried(
    run: &TreeRun,
    session: &mut TaskSession,
    end: LandingEnd,
    red: Option<Box<StepReport>>,
) -> Result<LandOutcome, Error> {
    let task = session.task().id.clone();
    Ok(match end {
        LandingEnd::Landed => LandOutcome::Landed,
        LandingEnd::Red(moves) => {
            let step = moves.first().expect("what is red was about to move");
            return turn_red(run, session, step.from, step.to, *red.expect("tests that fail say something"));
        }
        LandingEnd::Rewound(begun) => LandOutcome::Rebuilt(begun),
        LandingEnd::Outdated => LandOutcome::Moved,
        LandingEnd::Stopped => LandOutcome::Paused,
        LandingEnd::Refused(merge::LandingRefusal { why: RefusalReason::Conflict(why), .. })
            if run.plan.limits.isolation == Isolation::Task && has_attempts_left(run, session) =>
        {
            return turn_away(run, session, &why);
        }
        LandingEnd::Refused(refused) => LandOutcome::Refused(work_waits(run, &task, refused)?),
    })
}

/// The kind of work a session lands.
fn work_of(run: &TreeRun, session: &TaskSession) -> LandingWork {
    let task = &session.task().id;
    match session.newest_step() {
        Some((StepKind::Complete, false)) => LandingWork::FailedTask,
        _ if run.plan.tree.is_leaf(task) => LandingWork::Task,
        _ => LandingWork::Gate { on_merge: run.schedule.is_ahead(run.plan.tree.phase_of(task)) },
    }
}

/// The state of the branch a session lands on. Writes the session's pending work, unless its last step and the landing
/// can share one record.
fn look_at_target(run: &mut TreeRun, session: &mut TaskSession, on: &BranchName) -> Result<TargetState, Error> {
    if let Some(tip) = simple_landing(run, session)? {
        return Ok(TargetState::At { tip, base: tip });
    }
    session.write_end_of_task()?;
    let (task, step) = (session.task().id.clone(), session.task_tip());
    loop {
        let tip = match run.landing_tip(&task) {
            Err(Error::NoTarget(_)) => return Ok(TargetState::Gone),
            other => other?,
        };
        if *on == run.plan.target && tip != run.seen {
            let was_open = run.progress.run_start().is_some();
            run.read_again()?;
            if was_open && run.progress.run_start().is_none() {
                // The start of the run was reverted, but this task was not.
                start::start(run)?;
                continue;
            }
        }
        if run.repo.history().is_ancestor(step, tip)? {
            return Ok(TargetState::Has(step));
        }
        return Ok(match git::land::blocked(&run.repo, on)? {
            Some(held) => TargetState::Held(held.to_string()),
            None => TargetState::At { tip, base: base_for(run, session, tip)? },
        });
    }
}

/// The target's tip if it can fast-forward to a step that is not written yet: the step and the landing then share one
/// record.
fn simple_landing(run: &TreeRun, session: &TaskSession) -> Result<Option<CommitId>, Error> {
    let Some((_, below)) = session.unwritten_step() else { return Ok(None) };
    let task = &session.task().id;
    let complete = session.newest_step() == Some((StepKind::Complete, true));
    let tip = run.landing_tip(task).ok().filter(|_| complete && run.plan.tree.is_leaf(task));
    Ok(match tip {
        // If the target was reset, the commits taken off it must not land again.
        Some(tip)
            if run.repo.history().is_ancestor(session.task().base, tip)?
                && run.repo.history().is_ancestor(tip, below)? =>
        {
            Some(tip)
        }
        _ => None,
    })
}

/// Whether the rebuilt work of a session may land, given its test result there; with the report if the tests failed.
fn verdict(
    run: &TreeRun,
    landing: &LandingRun,
    said: Option<Retested>,
) -> Result<(LandingVerdict, Option<Box<StepReport>>), Error> {
    let (task, on) = (&landing.session.task().id, &landing.on);
    for warning in said.iter().flat_map(|said| &said.warnings) {
        run.engine.warn(warning.clone());
    }
    Ok(match said.map(|said| said.outcome) {
        None => (LandingVerdict::NoTests { passed_before: has_passed_tests(run, landing.session.task_tip())? }, None),
        Some(Retest::Green) => {
            let text = format!("{task} was rebuilt on `{on}` and its tests pass there");
            run.engine.warn(WarningCode::RebuiltGreen.with(text));
            (LandingVerdict::Green, None)
        }
        Some(Retest::Interrupted) => (LandingVerdict::Stopped, None),
        Some(Retest::Red(red)) => {
            let text = format!("{task} was rebuilt on `{on}` and its tests fail there");
            run.engine.warn(WarningCode::RebuiltRed.with(text));
            (LandingVerdict::Red, Some(red))
        }
        Some(Retest::Unknown(red)) => (LandingVerdict::ByAgent, Some(red)),
    })
}

/// Whether a step completes a tested task.
pub(super) fn has_passed_tests(run: &TreeRun, step: CommitId) -> Result<bool, git::Error> {
    let found = steps::found(run, step)?;
    Ok(found.is_some_and(|StepCommit { step, .. }| TaskStatus::after(&step) == TaskStatus::Complete && !step.untested))
}

/// Rebuilds the steps of a task on the target, where its tests have failed, and continues it there.
pub(super) fn rebuild_red(run: &TreeRun, session: &mut TaskSession, red: StepReport) -> Result<LandOutcome, Error> {
    let (tip, step) = (run.landing_tip(&session.task().id)?, session.task_tip());
    let base = base_for(run, session, tip)?;
    let mut writer = run.repo.writer();
    let built = match commits::rebuild(&run.repo, &mut writer, &steps::chain(run, step, base)?, base, tip) {
        Ok(built) => built.last().copied().unwrap_or(tip),
        // It is another target by now than the tests have failed on.
        Err(RebuildError::Conflict { conflict, .. }) => return turn_away(run, session, &conflict.to_string()),
        Err(RebuildError::Git(error)) => return Err(error.into()),
    };
    writer.flush()?;
    keep::keep(run, &session.task().id, session.task_tip())?;
    // The tests ran elsewhere: its worktree has the files of before.
    session.turn_away(built, &StepKind::Test, red)?;
    Ok(LandOutcome::Red(tip))
}

/// Continues a task from its rebuilt steps, which are not fit to land.
fn turn_red(
    run: &TreeRun,
    session: &mut TaskSession,
    on: CommitId,
    built: CommitId,
    red: StepReport,
) -> Result<LandOutcome, Error> {
    // Its branch is about to move.
    keep::keep(run, &session.task().id, session.task_tip())?;
    session.turn_red(built, red)?;
    Ok(LandOutcome::Red(on))
}

pub(super) fn has_attempts_left(run: &TreeRun, session: &TaskSession) -> bool {
    session.attempt_number() < run.plan.limits.max_retries
}

/// Starts a task again at the target's tip, because its code conflicts with what is there: its steps without the code, and
/// the conflict as a step of its own.
pub(super) fn turn_away(run: &TreeRun, session: &mut TaskSession, why: &str) -> Result<LandOutcome, Error> {
    let (task, step) = (session.task().id.clone(), session.task_tip());
    let tip = run.landing_tip(&task)?;
    let base = base_for(run, session, tip)?;
    let steps: Vec<CommitId> = steps::steps(run, step, base)?.into_iter().map(|found| found.commit).collect();
    let mut writer = run.repo.writer();
    let built = commits::without_code(&run.repo, &mut writer, &steps, tip, &steps::logs_of(run, base, step)?)?;
    writer.flush()?;
    let text = format!("{task} conflicts with what has landed meanwhile and starts again there: {why}");
    run.engine.warn(WarningCode::ConflictRetried.with(text));
    let feedback = format!(
        "Other work landed first, and this attempt's changes conflict with it. They were undone; do the task on the files \
         as they are now.\n{why}"
    );
    let merge = StepKind::merge();
    let body = text::custom(merge.as_str(), false, "", &feedback);
    keep::keep(run, &task, step)?;
    let report = StepReport { said: feedback, body, ..StepReport::default() };
    session.turn_away(built.last().copied().unwrap_or(tip), &merge, report)?;
    Ok(LandOutcome::Red(tip))
}

/// Rebuilds the steps before a complete task's tests and reviews on `tip`. `None` if no step comes before them, code is
/// written after them, or earlier results decide which of them run: then only another attempt can redo it.
fn before_tests(run: &mut TreeRun, session: &TaskSession, tip: CommitId) -> Result<Option<CommitId>, Error> {
    run.read_again()?;
    let (task, end) = (&session.task().id, session.task_tip());
    let branch = run.branch_of(task)?;
    // The branch is about to move, and no checkout can follow.
    if run.repo.refs().find(&branch_ref(&branch))? != Some(end) || !git::checkouts_of(&run.repo, &branch)?.is_empty() {
        return Ok(None);
    }
    let steps = run.progress.task(task).at_attempt();
    let looks =
        |found: &Arc<StepCommit>| matches!(found.step.kind, StepKind::Test | StepKind::Review | StepKind::Complete);
    let Some(first) = steps.iter().position(looks).filter(|first| *first > 0) else { return Ok(None) };
    if behind(session.pipeline(), &steps[first - 1].step.kind).is_none() {
        return Ok(None);
    }
    let again: BTreeSet<CommitId> = steps[first..].iter().map(|found| found.commit).collect();
    let base = base_for(run, session, tip)?;
    let mut chain = steps::chain(run, end, base)?;
    chain.retain(|commit| !again.contains(commit));
    let Some(last) = chain.last() else { return Ok(None) };
    let written = git::diff::changes(&run.repo, run.repo.tree_of(*last)?, run.repo.tree_of(end)?)?;
    if !written.iter().all(|change| report::is_own(&change.path, &run.plan.logs, &run.plan.reports)) {
        return Ok(None);
    }
    let mut writer = run.repo.writer();
    let built = match commits::rebuild(&run.repo, &mut writer, &chain, base, tip) {
        Err(RebuildError::Git(error)) => return Err(error.into()),
        built => built.ok(),
    };
    writer.flush()?;
    let begun = built.and_then(|built| built.last().copied());
    begun.into_iter().for_each(|begun| run.state.approved.extend(&[tip], begun));
    Ok(begun)
}

/// Abandons a session whose task continues on its moved branch, in the same attempt: the steps there say what is done.
pub(super) fn go_back(run: &mut TreeRun, session: TaskSession, begun: CommitId) -> Result<WorkEnd, Error> {
    let (id, task, tip) = (session.id().clone(), session.task().id.clone(), session.task_tip());
    keep::keep(run, &task, tip)?;
    spending::take_back(run, session);
    cancel::abandon_session(&run.repo, &run.engine.redactor, &id, run.state.slots.free())?;
    // If the run is killed before this, the next run handles the waiting work again.
    let moved = run.repo.refs().swap(&branch_ref(&run.branch_of(&task)?), Some(tip), begun, "pleach: built anew");
    moved.map_err(git::Error::from)?;
    run.read_again()?;
    Ok(WorkEnd::GoOn)
}

/// Whether a session started on the files of a commit.
fn ran_on(run: &TreeRun, session: &TaskSession, commit: CommitId) -> Result<bool, Error> {
    Ok(testing::begun_on(run, session.started())? == Some(run.repo.tree_of(commit)?))
}

/// Moves a branch as asked to a commit made from others.
pub(super) fn advance(run: &mut TreeRun, moving: MoveAsk, sources: &[CommitId]) -> Result<LandingAsk, Error> {
    let BranchMove { target, from, to } = moving.step().clone();
    Ok(match forward(run, &target.branch, from, to) {
        Ok(()) => {
            run.state.approved.extend(sources, to);
            moving.moved()
        }
        Err(LandError::Moved { .. }) => moving.target_moved(),
        Err(LandError::Git(error)) => return Err(error.into()),
        Err(error @ LandError::Overwritten { .. }) => moving.refused(RefusalReason::Overwritten(error.to_string())),
        Err(error) => moving.refused(RefusalReason::Held(error.to_string())),
    })
}

/// The commit that a branch must move to so that it has a session's steps.
fn build_landing(
    run: &TreeRun,
    session: &TaskSession,
    work: LandingWork,
    build: &BuildAsk,
) -> Result<CommitId, RebuildError> {
    let (step, tip) = (session.task_tip(), build.onto());
    if build.is_as_it_is() {
        return Ok(step);
    }
    let base = base_for(run, session, tip)?;
    let mut writer = run.repo.writer();
    let built = match work {
        LandingWork::FailedTask => {
            let steps: Vec<CommitId> = steps::steps(run, step, base)?.into_iter().map(|found| found.commit).collect();
            commits::without_code(&run.repo, &mut writer, &steps, tip, &steps::logs_of(run, base, step)?)?
        }
        LandingWork::Gate { on_merge: true } => {
            // It ran on the future merge, which is not on the phase's branch yet.
            let base = session.started().built_on().unwrap_or(base);
            commits::rebuild(&run.repo, &mut writer, &steps::chain(run, step, base)?, base, tip)?
        }
        _ => commits::rebuild(&run.repo, &mut writer, &steps::chain(run, step, base)?, base, tip)?,
    };
    writer.flush()?;
    Ok(built.last().copied().unwrap_or(tip))
}

/// The commit a session's steps are built on, relative to the tip they land on.
fn base_for(run: &TreeRun, session: &TaskSession, tip: CommitId) -> Result<CommitId, git::Error> {
    let own = session.task().base;
    Ok(match run.repo.history().merge_base(session.task_tip(), tip)? {
        Some(shared) if !run.repo.history().is_ancestor(shared, own)? => shared,
        // If the target was rewritten, its former commits are not part of the task.
        _ => own,
    })
}

/// Moves a branch forward; a missing branch is first created at `from`.
pub(super) fn forward(run: &TreeRun, on: &BranchName, from: CommitId, to: CommitId) -> Result<(), LandError> {
    tokio::task::block_in_place(|| {
        if *on != run.plan.target {
            let name = branch_ref(on);
            if run.repo.refs().find(&name)?.is_none() {
                let created = run.repo.refs().swap(&name, None, from, "pleach: a phase begins");
                created.map_err(git::Error::from)?;
            }
        }
        git::land::fast_forward(&run.repo, on, from, to)
    })
}

/// Records that a session's steps have landed, and adds them to the progress.
pub(super) fn note_landed(
    run: &mut TreeRun,
    session: &mut TaskSession,
    landed: Vec<LandedBranch>,
) -> Result<(), Error> {
    let events = landed.iter().map(|landed| event::Landed {
        repo: landed.target.repo.clone(),
        target: landed.target.branch.clone(),
        commit: landed.commit,
        extra: Default::default(),
    });
    session.record_landed(events.collect())?;
    let task = session.task().id.clone();
    let is_on_target = landed.iter().any(|landed| landed.target.branch == run.plan.target);
    for LandedBranch { target, from, commit } in landed {
        // A landing on the target follows everything there. On the branch of a phase only dates tell the order, and
        // other commits there may be someone else's, which takes a complete read; so does what the queue has landed
        // meanwhile, once for all of it.
        let is_target = target.branch == run.plan.target;
        if is_target && from == Some(run.seen) {
            let was_done = run.progress.is_done(&task);
            take_in(run, commit)?;
            run.seen = commit;
            // Counted incrementally: counting all tasks would get slower with every task.
            run.done = run.done + usize::from(run.progress.is_done(&task)) - usize::from(was_done);
        } else if !is_target || !is_read(run, commit)? {
            run.read_again()?;
        }
        run.schedule.update(&run.progress, &task);
        let status = run.plan.tree.is_leaf(&task).then(|| run.progress.task(&task).status.as_str().to_owned());
        run.engine.tell(TaskLanded {
            task: task.clone(),
            status,
            repo: target.repo,
            target: target.branch,
            commit,
            done: run.done,
            extra: Default::default(),
        });
    }
    let stays = tokio::task::block_in_place(|| session.leave_branch())?;
    session.take_warnings().into_iter().chain(stays).for_each(|warning| run.engine.warn(warning));
    if is_on_target { delete_branches::delete_landed_branches(run) } else { Ok(()) }
}

/// Whether the progress has a commit of the target already.
fn is_read(run: &TreeRun, commit: CommitId) -> Result<bool, Error> {
    Ok(target_tip(&run.repo, &run.plan.target)? == run.seen && run.repo.history().is_ancestor(commit, run.seen)?)
}

/// Adds the steps of a landing to the progress: reading everything again would get slower with every task.
fn take_in(run: &mut TreeRun, to: CommitId) -> Result<(), Error> {
    steps::steps(run, to, run.seen)?.into_iter().for_each(|found| run.progress.take(found));
    Ok(())
}

/// The refusal for a task's work that waits, and how to continue.
pub(super) fn work_waits(run: &TreeRun, task: &TaskId, refused: merge::LandingRefusal) -> Result<Refusal, Error> {
    let (on, branch) = (refused.target.branch, run.branch_of(task)?);
    let code = RefusalCode::of(&refused.why);
    let why = match refused.why {
        RefusalReason::Gone => LandError::Gone { target: on, from: run.seen }.to_string(),
        RefusalReason::Conflict(error) => format!(
            "{error}; {}; or `pleach reset {task}` to have it done again on what is there now",
            refusal_reasons::merged_by_hand(run, &on, &branch)
        ),
        RefusalReason::Overwritten(error) => format!("{error}; then `pleach reset {task}` to have it done again"),
        RefusalReason::NoTests => without_tests(task),
        RefusalReason::Untestable(why) | RefusalReason::Held(why) => why,
    };
    Ok(Refusal::new(task.clone(), true, branch, code, why))
}

/// The tip of the branch that would have moved.
fn onto(moves: Vec<BranchMove>) -> CommitId {
    moves.first().expect("what is looked at was about to move").from
}

/// Why a commit could not be built, unless git itself failed.
fn unbuilt(error: RebuildError) -> Result<RefusalReason, git::Error> {
    match error {
        RebuildError::Git(error @ git::Error::Overwritten { .. }) => Ok(RefusalReason::Overwritten(error.to_string())),
        RebuildError::Git(error) => Err(error),
        error @ RebuildError::Conflict { .. } => Ok(RefusalReason::Conflict(error.to_string())),
    }
}

/// The end of a run at failing tests of a phase.
pub(super) fn gate_red(run: &TreeRun, gate: TaskId) -> TreeEnded {
    let on_merge = run.schedule.is_ahead(run.plan.tree.phase_of(&gate));
    let reason = run.progress.task(&gate).newest().and_then(StepCommit::reason);
    TreeEnded::GateRed { gate, on_merge, reason }
}
