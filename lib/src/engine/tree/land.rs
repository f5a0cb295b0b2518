//! Landing what sessions have done: what [`merge`] asks for is done here, and what came of it goes back.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Error;
use super::attempts::behind;
use super::refusal::{Refusal, RefusalCode};
use super::run::{TreeEnded, TreeRun};
use super::step_scan::{self, Names};
use super::testing::without_tests;
use crate::engine::landing::{self, RebuildError};
use crate::engine::task::{Retest, Retested, StepReport};
use crate::engine::{Pause, Session};
use crate::event::{self, Landing, PipelineStarted, TaskLanded, WarningCode};
use crate::git::{LandError, TreeId};
use crate::ids::{BranchName, CommitId, RepoPath, TaskId};
use crate::merge::{
    self, BranchMove, BuildAsk, LandedBranch, LandingAsk, LandingEnd, LandingTarget, LandingVerdict, LandingWork,
    MoveAsk, Proof, RefusalReason, TargetState, VerifyAsk,
};
use crate::progress::{BranchNaming, StepCommit, StepPlace, TaskStatus};
use crate::step::{StepKind, report};
use crate::workspace::branch_ref;

/// What came of a try to land.
pub(super) enum LandOutcome {
    /// It is there.
    Landed,
    /// It was built anew on what the target has become, this commit, and its tests fail there.
    Red(CommitId),
    /// It was built anew as this commit, behind which it has to be tested and reviewed again.
    Anew(CommitId),
    /// It would say something about files it did not run on.
    Moved,
    /// It cannot, and waits.
    Refused(Refusal),
    /// The run stops here.
    Paused,
}

/// A landing under way.
#[derive(Debug)]
pub(super) struct LandingRun {
    pub session: Session,
    /// The branch it lands on.
    on: BranchName,
    work: LandingWork,
    /// What tests said that failed where it is to land.
    red: Option<Box<StepReport>>,
}

/// A landing that goes on when its tests have run on a commit.
#[derive(Debug)]
pub(super) struct LandingTests {
    pub landing: LandingRun,
    verify: VerifyAsk,
    pub commit: CommitId,
}

/// How far a landing came.
pub(super) enum LandingStep {
    /// Tests are to be run.
    Tests(Box<LandingTests>),
    /// There is no more to do.
    End(Box<Session>, LandOutcome),
}

/// What came of one thing that was next.
#[derive(Debug)]
pub(super) enum Worked {
    /// Look what is next.
    GoOn,
    /// A task is complete and landed.
    Done(TaskId),
    /// The run is over.
    Ended(TreeEnded),
}

impl TreeRun {
    /// What a try to land means for the run.
    pub(super) fn landed(&mut self, session: Session, tried: LandOutcome) -> Worked {
        let task = session.task().id.clone();
        let newest = session.newest_step();
        let over = session.task_is_out_of_budget().ok().flatten();
        self.take_back(session);
        match (tried, newest) {
            (LandOutcome::Landed, Some((StepKind::Complete, false))) => {
                let state = self.progress.task(&task);
                let (attempts, reason) = (state.attempts, over.or_else(|| state.why_failed()));
                Worked::Ended(TreeEnded::Failed { task, attempts, before: false, reason })
            }
            (LandOutcome::Landed, Some((StepKind::Test, false))) => Worked::Ended(self.gate_red(task)),
            (LandOutcome::Landed, _) if self.plan.tree.is_leaf(&task) => Worked::Done(task),
            (LandOutcome::Landed | LandOutcome::Red(_) | LandOutcome::Anew(_) | LandOutcome::Moved, _) => Worked::GoOn,
            (LandOutcome::Refused(refusal), _) => Worked::Ended(TreeEnded::Refused(refusal)),
            (LandOutcome::Paused, _) => Worked::Ended(TreeEnded::Paused(Pause::interrupted())),
        }
    }

    /// Begins to land what a session has done.
    pub(super) fn land(&mut self, session: Session) -> Result<LandingStep, Error> {
        let on = self.lands_on(&session.task().id)?;
        let work = self.work_of(&session);
        let target = LandingTarget { repo: session.task().repo.clone(), branch: on.clone() };
        self.go_on_landing(LandingRun { session, on, work, red: None }, merge::land([(target, work)]))
    }

    /// Goes on with a landing whose tests have run.
    pub(super) fn retested(&mut self, tests: LandingTests, said: Option<Retested>) -> Result<LandingStep, Error> {
        let LandingTests { mut landing, verify, .. } = tests;
        let (verdict, red) = self.verdict(&landing, said)?;
        landing.red = red;
        self.go_on_landing(landing, verify.verified(verdict))
    }

    /// Does what is asked for until tests are to be run or there is no more to do.
    fn go_on_landing(&mut self, mut landing: LandingRun, mut next: LandingAsk) -> Result<LandingStep, Error> {
        loop {
            let LandingRun { session, on, work, red } = &mut landing;
            next = match next {
                LandingAsk::Look(look) => look.saw([self.look(session, on)?]),
                LandingAsk::Build(build) => match self.build(session, *work, &build) {
                    Ok(to) => build.built(to),
                    Err(error) => build.failed(unbuilt(error)?),
                },
                LandingAsk::Verify(verify) => {
                    let step = verify.moves().into_iter().next().expect("what is verified is about to move");
                    if verify.proof() != Proof::SameFiles {
                        return Ok(LandingStep::Tests(Box::new(LandingTests { landing, verify, commit: step.to })));
                    }
                    let is_same = self.ran_on(session, step.from)?;
                    verify.verified(if is_same { LandingVerdict::Green } else { LandingVerdict::Outdated })
                }
                LandingAsk::Rewind(rewind) => {
                    let begun = self.before_tests(session, onto(rewind.moves()))?;
                    let (code, how) = match begun {
                        Some(_) => (WarningCode::RebuiltRetested, " and is tested again there"),
                        None => (WarningCode::RebuiltUntested, ", where only an agent can test it, in another attempt"),
                    };
                    let task = &session.task().id;
                    self.engine.warn(code.with(format!("{task} was rebuilt on `{on}`{how}")));
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
                    self.advance(moving, &[from])?
                }
                LandingAsk::Close(close) => {
                    self.note_landed(session, close.landed())?;
                    close.closed()
                }
                LandingAsk::End(end) => {
                    let red = red.take();
                    let tried = self.tried(session, end, red)?;
                    return Ok(LandingStep::End(Box::new(landing.session), tried));
                }
            };
        }
    }

    /// What the end of a landing means for its session.
    fn tried(
        &self,
        session: &mut Session,
        end: LandingEnd,
        red: Option<Box<StepReport>>,
    ) -> Result<LandOutcome, Error> {
        let task = session.task().id.clone();
        Ok(match end {
            LandingEnd::Landed => LandOutcome::Landed,
            LandingEnd::Red(moves) => {
                let step = moves.first().expect("what is red was about to move");
                return self.turn_red(session, (step.from, step.to), *red.expect("tests that fail say something"));
            }
            LandingEnd::Rewound(begun) => LandOutcome::Anew(begun),
            LandingEnd::Outdated => LandOutcome::Moved,
            LandingEnd::Stopped => LandOutcome::Paused,
            LandingEnd::Refused(refused) => LandOutcome::Refused(self.work_waits(&task, refused)?),
        })
    }

    /// What a session brings.
    fn work_of(&self, session: &Session) -> LandingWork {
        let task = &session.task().id;
        match session.newest_step() {
            Some((StepKind::Complete, false)) => LandingWork::FailedTask,
            _ if self.plan.tree.is_leaf(task) => LandingWork::Task,
            _ => LandingWork::Gate { on_merge: self.schedule.is_ahead(self.plan.tree.phase_of(task)) },
        }
    }

    /// A branch of the repository.
    pub(super) fn target_of(&self, branch: BranchName) -> LandingTarget {
        LandingTarget { repo: self.plan.repo_name.clone(), branch }
    }

    /// Where the branch stands a session lands on. What the session has done is written then, unless its last step can be
    /// one record with the landing.
    fn look(&mut self, session: &mut Session, on: &BranchName) -> Result<TargetState, Error> {
        if let Some(tip) = self.simple_landing(session)? {
            return Ok(TargetState::At { tip, base: tip });
        }
        session.write_end_of_task()?;
        let (task, step) = (session.task().id.clone(), session.task_tip());
        loop {
            let tip = match self.landing_tip(&task) {
                Err(Error::NoTarget(_)) => return Ok(TargetState::Gone),
                other => other?,
            };
            if *on == self.plan.target && tip != self.seen {
                let was_open = self.progress.run_start().is_some();
                self.read_again()?;
                if was_open && self.progress.run_start().is_none() {
                    // Whoever took back the start of the run has not taken back this task.
                    self.start()?;
                    continue;
                }
            }
            if self.repo.is_ancestor(step, tip)? {
                return Ok(TargetState::Has(step));
            }
            return Ok(match self.repo.held(on)? {
                Some(held) => TargetState::Held(held.to_string()),
                None => TargetState::At { tip, base: self.base_for(session, tip)? },
            });
        }
    }

    /// Where the target stands when it can move right over a step that is not written yet: the step and the landing are
    /// one record then.
    fn simple_landing(&self, session: &Session) -> Result<Option<CommitId>, Error> {
        let Some((_, below)) = session.unwritten_step() else { return Ok(None) };
        let task = &session.task().id;
        let complete = session.newest_step() == Some((StepKind::Complete, true));
        let tip = self.landing_tip(task).ok().filter(|_| complete && self.plan.tree.is_leaf(task));
        Ok(match tip {
            // One that was set back does not get again what was taken off it.
            Some(tip) if self.repo.is_ancestor(session.task().base, tip)? && self.repo.is_ancestor(tip, below)? => {
                Some(tip)
            }
            _ => None,
        })
    }

    /// Whether what was built of a session may land, after what its tests said there; with that where they failed.
    fn verdict(
        &self,
        landing: &LandingRun,
        said: Option<Retested>,
    ) -> Result<(LandingVerdict, Option<Box<StepReport>>), Error> {
        let (task, on) = (&landing.session.task().id, &landing.on);
        for warning in said.iter().flat_map(|said| &said.warnings) {
            self.engine.warn(warning.clone());
        }
        Ok(match said.map(|said| said.outcome) {
            None => {
                (LandingVerdict::NoTests { passed_before: self.has_passed_tests(landing.session.task_tip())? }, None)
            }
            Some(Retest::Green) => {
                let text = format!("{task} was rebuilt on `{on}` and its tests pass there");
                self.engine.warn(WarningCode::RebuiltGreen.with(text));
                (LandingVerdict::Green, None)
            }
            Some(Retest::Interrupted) => (LandingVerdict::Stopped, None),
            Some(Retest::Red(red)) => {
                let text = format!("{task} was rebuilt on `{on}` and its tests fail there");
                self.engine.warn(WarningCode::RebuiltRed.with(text));
                (LandingVerdict::Red, Some(red))
            }
            Some(Retest::Unknown(red)) => (LandingVerdict::ByAgent, Some(red)),
        })
    }

    /// Whether a step completes a task that was tested.
    fn has_passed_tests(&self, step: CommitId) -> Result<bool, crate::git::Error> {
        let found = self.found(step)?;
        Ok(found
            .is_some_and(|StepCommit { step, .. }| TaskStatus::after(&step) == TaskStatus::Complete && !step.untested))
    }

    /// Has a task go on from steps that were built anew, where they are not fit to land.
    fn turn_red(
        &self,
        session: &mut Session,
        (on, built): (CommitId, CommitId),
        red: StepReport,
    ) -> Result<LandOutcome, Error> {
        // Its branch is about to stand elsewhere.
        self.keep(&session.task().id, session.task_tip())?;
        session.turn_red(built, red)?;
        Ok(LandOutcome::Red(on))
    }

    /// The steps of a task that is complete up to its tests and reviews, built anew on `tip`. None where nothing comes before
    /// these, something is written behind them or what was said before decides which of them there are, so that only another
    /// attempt can do it all again.
    fn before_tests(&mut self, session: &Session, tip: CommitId) -> Result<Option<CommitId>, Error> {
        self.read_again()?;
        let (task, end) = (&session.task().id, session.task_tip());
        let branch = self.branch_of(task)?;
        // It is about to stand elsewhere, where no checkout can follow.
        if self.repo.reference(&branch_ref(&branch))? != Some(end) || !self.repo.checkouts_of(&branch)?.is_empty() {
            return Ok(None);
        }
        let steps = self.progress.task(task).at_attempt();
        let looks =
            |found: &Arc<StepCommit>| matches!(found.step.kind, StepKind::Test | StepKind::Review | StepKind::Complete);
        let Some(first) = steps.iter().position(looks).filter(|first| *first > 0) else { return Ok(None) };
        if behind(session.pipeline(), &steps[first - 1].step.kind).is_none() {
            return Ok(None);
        }
        let again: BTreeSet<CommitId> = steps[first..].iter().map(|found| found.commit).collect();
        let base = self.base_for(session, tip)?;
        let mut chain = self.chain(end, base)?;
        chain.retain(|commit| !again.contains(commit));
        let Some(last) = chain.last() else { return Ok(None) };
        let written = self.repo.changes(self.repo.tree_of(*last)?, self.repo.tree_of(end)?)?;
        if !written.iter().all(|change| report::is_own(&change.path, &self.plan.logs, &self.plan.reports)) {
            return Ok(None);
        }
        let mut writer = self.repo.writer();
        let built = match landing::rebuild(&self.repo, &mut writer, &chain, base, tip) {
            Err(RebuildError::Git(error)) => return Err(error.into()),
            built => built.ok(),
        };
        writer.flush()?;
        let begun = built.and_then(|built| built.last().copied());
        begun.into_iter().for_each(|begun| self.made(&[tip], begun));
        Ok(begun)
    }

    /// Leaves a session whose task goes on elsewhere on its branch, in the same attempt: there its steps tell what is done.
    pub(super) fn go_back(&mut self, session: Session, begun: CommitId) -> Result<Worked, Error> {
        let (id, task, tip) = (session.id().clone(), session.task().id.clone(), session.task_tip());
        self.keep(&task, tip)?;
        self.take_back(session);
        Session::put_aside(&self.repo, &self.engine.redactor, &id, self.course.seat.as_ref())?;
        // Killed before this, what waits to land is looked at once more.
        let moved = self.repo.swap(&branch_ref(&self.branch_of(&task)?), Some(tip), begun, "pleach: built anew");
        moved.map_err(crate::git::Error::from)?;
        self.read_again()?;
        Ok(Worked::GoOn)
    }

    /// Whether a session was begun on the files a commit has.
    fn ran_on(&self, session: &Session, commit: CommitId) -> Result<bool, Error> {
        Ok(self.begun_on(session.started())? == Some(self.repo.tree_of(commit)?))
    }

    /// The files a session was begun on.
    pub(super) fn begun_on(&self, started: &PipelineStarted) -> Result<Option<TreeId>, Error> {
        Ok(started.built_on().map(|base| self.repo.tree_of(base)).transpose()?)
    }

    /// Moves a branch, as it is asked for, to a commit that was made of others.
    pub(super) fn advance(&mut self, moving: MoveAsk, of: &[CommitId]) -> Result<LandingAsk, Error> {
        let BranchMove { target, from, to } = moving.step().clone();
        Ok(match self.forward(&target.branch, from, to) {
            Ok(()) => {
                self.made(of, to);
                moving.moved()
            }
            Err(LandError::Moved { .. }) => moving.target_moved(),
            Err(LandError::Git(error)) => return Err(error.into()),
            Err(error @ LandError::Overwritten { .. }) => moving.refused(RefusalReason::Overwritten(error.to_string())),
            Err(error) => moving.refused(RefusalReason::Held(error.to_string())),
        })
    }

    /// The commit a branch would have to move to so that a session's steps are on it.
    fn build(&self, session: &Session, work: LandingWork, build: &BuildAsk) -> Result<CommitId, RebuildError> {
        let (step, tip) = (session.task_tip(), build.onto());
        if build.is_as_it_is() {
            return Ok(step);
        }
        let base = self.base_for(session, tip)?;
        let mut writer = self.repo.writer();
        let built = match work {
            LandingWork::FailedTask => {
                let steps: Vec<CommitId> = self.steps(step, base)?.into_iter().map(|found| found.commit).collect();
                landing::without_code(&self.repo, &mut writer, &steps, tip, &self.logs_of(base, step)?)?
            }
            LandingWork::Gate { on_merge: true } => {
                // It was run on what the merge will be, which is not yet on the phase's branch.
                let base = session.started().built_on().unwrap_or(base);
                landing::rebuild(&self.repo, &mut writer, &self.chain(step, base)?, base, tip)?
            }
            _ => landing::rebuild(&self.repo, &mut writer, &self.chain(step, base)?, base, tip)?,
        };
        writer.flush()?;
        Ok(built.last().copied().unwrap_or(tip))
    }

    /// What a session's steps are built on, as seen from where they are to land.
    fn base_for(&self, session: &Session, tip: CommitId) -> Result<CommitId, crate::git::Error> {
        let own = session.task().base;
        Ok(match self.repo.merge_base(session.task_tip(), tip)? {
            Some(shared) if !self.repo.is_ancestor(shared, own)? => shared,
            // Where the target was rewritten, what it had before is no part of the task.
            _ => own,
        })
    }

    /// The commits of a branch behind `base`, oldest first; of merges those of the branch itself.
    pub(super) fn chain(&self, tip: CommitId, base: CommitId) -> Result<Vec<CommitId>, crate::git::Error> {
        let mut chain = Vec::new();
        let mut next = Some(tip);
        let mut merged = false;
        while let Some(commit) = next.filter(|commit| *commit != base) {
            // Somebody who merged the base into the branch has it beside, not below.
            if merged && self.repo.is_ancestor(commit, base)? {
                break;
            }
            chain.push(commit);
            let parents = self.repo.commit(commit)?.parents;
            merged |= parents.len() > 1;
            next = parents.first().copied();
        }
        chain.reverse();
        Ok(chain)
    }

    /// The steps among them.
    fn steps(&self, tip: CommitId, base: CommitId) -> Result<Vec<StepCommit>, crate::git::Error> {
        self.chain(tip, base)?.into_iter().filter_map(|commit| self.found(commit).transpose()).collect()
    }

    /// The steps of a branch behind where it left another, oldest first.
    pub(super) fn steps_ahead(&self, tip: CommitId, of: CommitId) -> Result<Vec<StepCommit>, crate::git::Error> {
        self.steps(tip, self.repo.merge_base(tip, of)?.unwrap_or(of))
    }

    /// The logs and reports a branch has and its base has not.
    pub(super) fn logs_of(&self, base: CommitId, tip: CommitId) -> Result<Vec<RepoPath>, crate::git::Error> {
        let changes = self.repo.changes(self.repo.tree_of(base)?, self.repo.tree_of(tip)?)?;
        let is_own = |path: &RepoPath| report::is_own(path, &self.plan.logs, &self.plan.reports);
        Ok(changes.into_iter().map(|change| change.path).filter(is_own).collect())
    }

    /// The step a commit is, as it will be read from the target. No step of a branch is of the older form.
    pub(super) fn found(&self, commit: CommitId) -> Result<Option<StepCommit>, crate::git::Error> {
        let kept = self.repo.message_of(commit)?;
        let read = step_scan::read(commit, &kept, &StepPlace::Target, Names::branch(self.plan.target.as_str()));
        Ok(read.filter(|(_, form)| *form == BranchNaming::Branch).map(|(found, _)| found))
    }

    /// Moves a branch forward; one that is not there yet begins where it was thought to be.
    pub(super) fn forward(&self, on: &BranchName, from: CommitId, to: CommitId) -> Result<(), LandError> {
        tokio::task::block_in_place(|| {
            if *on != self.plan.target {
                let name = branch_ref(on);
                // Nobody but who has the target writes this one, so a lock on it was left by a killed run.
                self.repo.release_stale_lock(&name)?;
                if self.repo.reference(&name)?.is_none() {
                    let made = self.repo.swap(&name, None, from, "pleach: a phase begins");
                    made.map_err(crate::git::Error::from)?;
                }
            }
            self.repo.fast_forward(on, from, to)
        })
    }

    /// Records that a session's steps are on the branch they belong to, and takes them in.
    fn note_landed(&mut self, session: &mut Session, landed: Vec<LandedBranch>) -> Result<(), Error> {
        let events = landed.iter().map(|landed| event::Landed {
            repo: landed.target.repo.clone(),
            target: landed.target.branch.clone(),
            commit: landed.commit,
            extra: Default::default(),
        });
        session.record_landed(events.collect())?;
        let task = session.task().id.clone();
        let is_on_target = landed.iter().any(|landed| landed.target.branch == self.plan.target);
        for LandedBranch { target, from, commit } in landed {
            // What lands on the target follows all that is there. On the branch of a phase only dates tell what it follows,
            // and what else is there may be another's: that is for a whole reading.
            if target.branch == self.plan.target && from == Some(self.seen) {
                let was_done = self.progress.is_done(&task);
                self.take_in(commit)?;
                self.seen = commit;
                // Counted along: to count all would cost more with every task.
                self.done = self.done + usize::from(self.progress.is_done(&task)) - usize::from(was_done);
            } else {
                self.read_again()?;
            }
            self.schedule.update(&self.progress, &task);
            let status = self.plan.tree.is_leaf(&task).then(|| self.progress.task(&task).status.as_str().to_owned());
            self.engine.tell(TaskLanded {
                task: task.clone(),
                status,
                repo: target.repo,
                target: target.branch,
                commit,
                done: self.done,
                extra: Default::default(),
            });
        }
        let stays = tokio::task::block_in_place(|| session.leave_branch())?;
        session.take_warnings().into_iter().chain(stays).for_each(|warning| self.engine.warn(warning));
        if is_on_target { self.delete_landed_branches() } else { Ok(()) }
    }

    /// Adds the steps of a landing to the progress: reading everything again would cost more with every task.
    fn take_in(&mut self, to: CommitId) -> Result<(), Error> {
        self.steps(to, self.seen)?.into_iter().for_each(|found| self.progress.take(found));
        Ok(())
    }

    /// Says that the work of a task waits, and how to go on.
    fn work_waits(&self, task: &TaskId, refused: merge::LandingRefusal) -> Result<Refusal, Error> {
        let (on, branch) = (refused.target.branch, self.branch_of(task)?);
        let code = RefusalCode::of(&refused.why);
        let why = match refused.why {
            RefusalReason::Gone => LandError::Gone { target: on, from: self.seen }.to_string(),
            RefusalReason::Conflict(error) => format!(
                "{error}; {}; or `pleach reset {task}` to have it done again on what is there now",
                self.merged_by_hand(&on, &branch)
            ),
            RefusalReason::Overwritten(error) => format!("{error}; then `pleach reset {task}` to have it done again"),
            RefusalReason::NoTests => without_tests(task),
            RefusalReason::Untestable(why) | RefusalReason::Held(why) => why,
        };
        Ok(Refusal::new(task.clone(), true, branch, (code, why)))
    }
}

/// Where the branch stands that would have moved.
fn onto(moves: Vec<BranchMove>) -> CommitId {
    moves.first().expect("what is looked at was about to move").from
}

/// Why a commit could not be made, unless git itself failed.
fn unbuilt(error: RebuildError) -> Result<RefusalReason, crate::git::Error> {
    match error {
        RebuildError::Git(error @ crate::git::Error::Overwritten { .. }) => {
            Ok(RefusalReason::Overwritten(error.to_string()))
        }
        RebuildError::Git(error) => Err(error),
        error @ RebuildError::Conflict { .. } => Ok(RefusalReason::Conflict(error.to_string())),
    }
}
