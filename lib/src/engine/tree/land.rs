//! Landing: the target moves over the steps of a task that has ended, rebuilt where it has moved meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::refusal::Refusal;
use super::run::{TreeEnded, TreeRun};
use super::step_scan::{self, Names};
use super::testing::without_tests;
use super::work::{Worked, behind, observer};
use super::{Error, Note, Notes};
use crate::engine::landing::{self, RebuildError};
use crate::engine::task::{Retest, StepReport};
use crate::engine::{Pause, Session};
use crate::event::{PipelineStarted, WarningCode};
use crate::git::{LandError, TreeId};
use crate::ids::{BranchName, CommitId, RepoPath, TaskId};
use crate::progress::{Form, Found, Place, Status};
use crate::step::{Attempt, StepKind, report};
use crate::workspace::branch_ref;

/// What came of a try to land.
pub(super) enum Tried {
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

/// What a landing brings.
struct Built {
    to: CommitId,
    /// The code is other than what was tested.
    changed: bool,
}

impl TreeRun<'_> {
    /// What a try to land means for the run.
    pub(super) fn landed(&mut self, session: Session, tried: Tried) -> Worked {
        let task = session.task().id.clone();
        let newest = session.newest_step();
        let over = session.task_is_out_of_budget().ok().flatten();
        self.take_back(session);
        match (tried, newest) {
            (Tried::Landed, Some((StepKind::Complete, false))) => {
                let state = self.progress.task(&task);
                let (attempts, reason) = (state.attempts, over.or_else(|| state.why_failed()));
                Worked::Ended(TreeEnded::Failed { task, attempts, before: false, reason })
            }
            (Tried::Landed, Some((StepKind::Test, false))) => Worked::Ended(self.gate_red(task)),
            (Tried::Landed, _) if self.plan.tree.is_leaf(&task) => Worked::Done(task),
            (Tried::Landed | Tried::Red(_) | Tried::Anew(_) | Tried::Moved, _) => Worked::GoOn,
            (Tried::Refused(refusal), _) => Worked::Ended(TreeEnded::Refused(refusal)),
            (Tried::Paused, _) => Worked::Ended(TreeEnded::Paused(Pause::interrupted())),
        }
    }

    /// Moves the target over the steps of a session, as often as somebody else moves it first.
    pub(super) async fn try_land(&mut self, session: &mut Session, notes: Notes<'_>) -> Result<Tried, Error> {
        if let Some(tip) = self.simple_landing(session)? {
            let to = session.task_tip();
            session.record_landing(tip, to, &mut observer(&session.id().clone(), notes))?;
            let on = self.lands_on(&session.task().id)?;
            if let Some(tried) = self.move_target(session, &on, (tip, to), notes)? {
                return Ok(tried);
            }
        }
        session.write_end_of_task(&mut observer(&session.id().clone(), notes))?;
        self.land_as_it_is(session, notes).await
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

    /// Lands a session whose steps are all written.
    async fn land_as_it_is(&mut self, session: &mut Session, notes: Notes<'_>) -> Result<Tried, Error> {
        let task = session.task().id.clone();
        let on = self.lands_on(&task)?;
        loop {
            let tip = match self.landing_tip(&task) {
                Err(Error::NoTarget(target)) => {
                    return self.refuse(&task, LandError::Gone { target, from: self.seen }.to_string());
                }
                other => other?,
            };
            if on == self.plan.target && tip != self.seen {
                let was_open = self.progress.run_start().is_some();
                self.read_again()?;
                if was_open && self.progress.run_start().is_none() {
                    // Whoever took back the start of the run has not taken back this task.
                    self.start(notes)?;
                    continue;
                }
            }
            let step = session.task_tip();
            if self.repo.is_ancestor(step, tip)? {
                // The target moved, and the process ended before it could say so.
                self.note_landed(session, step, tip, &on, notes)?;
                return Ok(Tried::Landed);
            }
            let built = match self.build(session, tip) {
                Ok(built) => built,
                Err(RebuildError::Git(error @ crate::git::Error::Overwritten { .. })) => {
                    return self.refuse(&task, done_again(&task, &error));
                }
                Err(RebuildError::Git(error)) => return Err(error.into()),
                Err(error @ RebuildError::Conflict { .. }) => {
                    let by_hand = self.merged_by_hand(&on, &self.branch_of(&task)?);
                    let why = format!(
                        "{error}; {by_hand}; or `pleach reset {task}` to have it done again on what is there now"
                    );
                    return self.refuse(&task, why);
                }
            };
            if built.changed && self.plan.tree.is_leaf(&task) {
                let retested = session.tests_at(built.to).await?;
                for warning in retested.iter().flat_map(|retested| &retested.warnings) {
                    notes(Note::Warning(warning.clone()));
                }
                match retested.map(|retested| retested.outcome) {
                    None if self.has_passed_tests(step)? => return self.refuse(&task, without_tests(&task)),
                    None => {}
                    Some(Retest::Green) => notes(Note::Warning(
                        WarningCode::RebuiltGreen
                            .with(format!("{task} was built anew on `{on}` and its tests pass there")),
                    )),
                    Some(Retest::Interrupted) => return Ok(Tried::Paused),
                    Some(Retest::Red(red)) => {
                        notes(Note::Warning(
                            WarningCode::RebuiltRed
                                .with(format!("{task} was built anew on `{on}` and its tests fail there")),
                        ));
                        return self.turn_red(session, (tip, built.to), *red, notes);
                    }
                    Some(Retest::Unknown(red)) => {
                        if let Some(begun) = self.before_tests(session, tip)? {
                            notes(Note::Warning(
                                WarningCode::RebuiltRetested
                                    .with(format!("{task} was built anew on `{on}` and is tested again there")),
                            ));
                            return Ok(Tried::Anew(begun));
                        }
                        let how = "where only an agent can test it, in another attempt";
                        notes(Note::Warning(
                            WarningCode::RebuiltUntested.with(format!("{task} was built anew on `{on}`, {how}")),
                        ));
                        return self.turn_red(session, (tip, built.to), *red, notes);
                    }
                }
            }
            if built.changed && !self.plan.tree.is_leaf(&task) && !self.ran_on(session, tip)? {
                return Ok(Tried::Moved);
            }
            session.record_landing(tip, built.to, &mut observer(&session.id().clone(), notes))?;
            if let Some(tried) = self.move_target(session, &on, (tip, built.to), notes)? {
                return Ok(tried);
            }
        }
    }

    /// Whether a step completes a task that was tested.
    fn has_passed_tests(&self, step: CommitId) -> Result<bool, crate::git::Error> {
        let found = self.found(step)?;
        Ok(found.is_some_and(|Found { step, .. }| Status::after(&step) == Status::Complete && !step.untested))
    }

    /// Has a task go on from steps that were built anew, where they are not fit to land.
    fn turn_red(
        &self,
        session: &mut Session,
        (on, built): (CommitId, CommitId),
        red: StepReport,
        notes: Notes<'_>,
    ) -> Result<Tried, Error> {
        // Its branch is about to stand elsewhere.
        self.keep(&session.task().id, session.task_tip())?;
        session.turn_red(built, red, &mut observer(&session.id().clone(), notes))?;
        Ok(Tried::Red(on))
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
            |found: &Arc<Found>| matches!(found.step.kind, StepKind::Test | StepKind::Review | StepKind::Complete);
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

    /// Moves the branch a session lands on, as recorded. None when somebody else moved it first.
    fn move_target(
        &mut self,
        session: &mut Session,
        on: &BranchName,
        (from, to): (CommitId, CommitId),
        notes: Notes<'_>,
    ) -> Result<Option<Tried>, Error> {
        match self.forward(on, from, to) {
            Ok(()) => {
                self.made(&[from], to);
                self.note_landed(session, to, to, on, notes)?;
                Ok(Some(Tried::Landed))
            }
            Err(LandError::Moved { .. }) => Ok(None),
            Err(LandError::Git(error)) => Err(error.into()),
            Err(error @ LandError::Overwritten { .. }) => {
                let task = &session.task().id;
                self.refuse(task, done_again(task, &error)).map(Some)
            }
            Err(error) => self.refuse(&session.task().id, error.to_string()).map(Some),
        }
    }

    /// Lands a task a run before this one has finished.
    pub(super) async fn land_waiting(&mut self, task: &TaskId, notes: Notes<'_>) -> Result<Worked, Error> {
        self.bring_phase(task, notes)?;
        // Where its record is gone, the branch is there.
        let state = self.progress.task(task);
        let (number, retry) = (state.in_budget.max(1), state.attempts.saturating_sub(1));
        self.work(task, Attempt { number, of: self.plan.limits.max_retries }, retry, notes).await
    }

    /// The commit a branch would have to move to so that a session's steps are on it.
    fn build(&self, session: &Session, tip: CommitId) -> Result<Built, RebuildError> {
        let (step, base) = (session.task_tip(), self.base_for(session, tip)?);
        let is_gate = !self.plan.tree.is_leaf(&session.task().id);
        let failed = session.newest_step() == Some((StepKind::Complete, false));
        let mut writer = self.repo.writer();
        let (built, changed) = if failed {
            let steps: Vec<CommitId> = self.steps(step, base)?.into_iter().map(|found| found.commit).collect();
            let logs = self.logs_of(base, step)?;
            (landing::without_code(&self.repo, &mut writer, &steps, tip, &logs)?, false)
        } else if is_gate && self.schedule.is_ahead(self.plan.tree.phase_of(&session.task().id)) {
            // It was run on what the merge will be, which is not yet on the phase's branch.
            let base = session.started().built_on().unwrap_or(base);
            (landing::rebuild(&self.repo, &mut writer, &self.chain(step, base)?, base, tip)?, false)
        } else if base == tip {
            return Ok(Built { to: step, changed: false });
        } else {
            (landing::rebuild(&self.repo, &mut writer, &self.chain(step, base)?, base, tip)?, true)
        };
        writer.flush()?;
        Ok(Built { to: built.last().copied().unwrap_or(tip), changed })
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
    fn steps(&self, tip: CommitId, base: CommitId) -> Result<Vec<Found>, crate::git::Error> {
        self.chain(tip, base)?.into_iter().filter_map(|commit| self.found(commit).transpose()).collect()
    }

    /// The steps of a branch behind where it left another, oldest first.
    pub(super) fn steps_ahead(&self, tip: CommitId, of: CommitId) -> Result<Vec<Found>, crate::git::Error> {
        self.steps(tip, self.repo.merge_base(tip, of)?.unwrap_or(of))
    }

    /// The logs and reports a branch has and its base has not.
    pub(super) fn logs_of(&self, base: CommitId, tip: CommitId) -> Result<Vec<RepoPath>, crate::git::Error> {
        let changes = self.repo.changes(self.repo.tree_of(base)?, self.repo.tree_of(tip)?)?;
        let is_own = |path: &RepoPath| report::is_own(path, &self.plan.logs, &self.plan.reports);
        Ok(changes.into_iter().map(|change| change.path).filter(is_own).collect())
    }

    /// The step a commit is, as it will be read from the target. No step of a branch is of the older form.
    pub(super) fn found(&self, commit: CommitId) -> Result<Option<Found>, crate::git::Error> {
        let kept = self.repo.message_of(commit)?;
        let read = step_scan::read(commit, &kept, &Place::Target, Names::branch(self.plan.target.as_str()));
        Ok(read.filter(|(_, form)| *form == Form::Branch).map(|(found, _)| found))
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
    fn note_landed(
        &mut self,
        session: &mut Session,
        commit: CommitId,
        tip: CommitId,
        on: &BranchName,
        notes: Notes<'_>,
    ) -> Result<(), Error> {
        // What lands on the target follows all that is there. On the branch of a phase only dates tell what it follows, and
        // what else is there may be another's: that is for a whole reading.
        let known = *on == self.plan.target && session.landing_from() == Some(self.seen);
        session.record_landed(commit, &mut observer(&session.id().clone(), notes))?;
        let task = session.task().id.clone();
        if known {
            self.take_in(commit)?;
            self.seen = tip;
        } else {
            self.read_again()?;
        }
        self.schedule.update(&self.progress, &task);
        notes(Note::Landed { task: &task, commit, on, progress: &self.progress });
        let stays = tokio::task::block_in_place(|| session.leave_branch())?;
        session.take_warnings().into_iter().chain(stays).for_each(|warning| notes(Note::Warning(warning)));
        if *on == self.plan.target { self.delete_landed_branches(notes) } else { Ok(()) }
    }

    /// Adds the steps of a landing to the progress: reading everything again would cost more with every task.
    fn take_in(&mut self, to: CommitId) -> Result<(), Error> {
        self.steps(to, self.seen)?.into_iter().for_each(|found| self.progress.take(found));
        Ok(())
    }

    /// Says that work waits.
    fn refuse(&self, task: &TaskId, why: String) -> Result<Tried, Error> {
        Ok(Tried::Refused(Refusal::new(task.clone(), true, self.branch_of(task)?, why)))
    }
}

/// What to do about work that is not any more what it was.
fn done_again(task: &TaskId, error: &dyn std::error::Error) -> String {
    format!("{error}; then `pleach reset {task}` to have it done again")
}
