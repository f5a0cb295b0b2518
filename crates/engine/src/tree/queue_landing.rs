//! Lands finished tasks through the merge queue: puts them into it, works it, and takes back what it returns.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::Notify;

use super::land::{self, LandOutcome};
use super::queue_plan::QueueLanding;
use super::queue_work::{POLL, QueueWork, follow};
use super::refusal::{Refusal, RefusalCode};
use super::run::TreeRun;
use super::{Error, testing};
use crate::env::Engine;
use crate::landing::{self, QueueError, QueueRun, QueueSettings, Submission, enqueue, withdraw_task};
use crate::session::{StepReport, TaskJob, TaskSession};
use git::record::entries::last_of_task;
use git::record::{StoredEntry, entry_log, read_entry};
use git::workspace::LockError;
use git::{LandError, Repo};
use pleach_core::config::HistoryShape;
use pleach_core::event::ConflictedPath;
use pleach_core::ids::{BranchName, EntryId, RepoName, RepoPath, TaskId};
use pleach_core::merge::{LandedBranch, LandingRefusal, LandingTarget, RefusalReason};
use pleach_core::plan::tree::TestCommand;
use pleach_core::queue::{EntryLanding, EntryState, EntryTest, QueueEntry, TestVerdict, without_secret_values};
use pleach_core::step::{TreeName, text};
use pleach_core::text::named;

/// Why an entry waits whose tests the run was not given.
const UNAPPROVED_TESTS: &str = "its tests are not approved";

/// What became of a task in the queue.
#[derive(Debug)]
pub(super) enum QueueReturn {
    /// The target has it.
    Landed(Box<QueueEntry>),
    /// It is to be worked again: its tests fail on the target, or it conflicts with it.
    Back(Box<StoredEntry>),
    /// It waits for a person.
    Waits(Box<QueueEntry>),
    /// A checkout holds the target up.
    Held(String),
    /// The run is being stopped.
    Stopped,
}

/// A queue as tasks use it.
#[derive(Debug)]
pub(super) struct TaskQueue {
    engine: Arc<Engine>,
    repo: Repo,
    repo_name: RepoName,
    target: BranchName,
    settings: QueueSettings,
    work: QueueWork,
    /// Told when the entry of a task turns out to conflict, for what waited for its landing need not any more, and when the
    /// queue is worked.
    news: Arc<Notify>,
}

/// How the queue lands a task, if it does: a run that uses the queue only for what is in it already lands others itself.
pub(super) fn landing_of(run: &TreeRun, task: &TaskId) -> Result<Option<QueueLanding>, Error> {
    let Some(landing) = run.plan.queue.clone().filter(|_| run.plan.tree.is_leaf(task)) else { return Ok(None) };
    let is_meant = !landing.only_queued || landing::find_task(&run.repo, &run.plan.target, task)?.is_some();
    Ok(is_meant.then_some(landing))
}

/// The refusal for a task that waits for approval in the queue, and would land without it elsewhere.
pub(super) fn unapproved(run: &TreeRun, task: &TaskId, landing: &QueueLanding) -> Result<Option<Refusal>, Error> {
    let queued = landing::find_task(&run.repo, &run.plan.target, task)?.map(|stored| stored.entry);
    let waits = |entry: &QueueEntry| !landing.settings.auto_merge_clean && !entry.approved;
    if !queued.is_some_and(|entry| waits(&entry)) {
        return Ok(None);
    }
    let why = format!("it waits for approval in the merge queue; `pleach merge approve {task}` lets it land");
    refused(run, task.clone(), RefusalCode::Unapproved, why).map(Some)
}

/// The tasks that waited for a person and that the queue has landed since; others may be started on that.
pub(super) fn landed_since(run: &mut TreeRun) -> Result<Vec<TaskId>, Error> {
    let mut landed = Vec::new();
    for task in run.state.waiting.clone() {
        let last = last_of_task(&run.repo, &run.plan.target, &task)?;
        if let Some(last) = last.filter(|last| last.state == EntryState::Landed) {
            approve_moves(run, last.landing);
            landed.push(task);
        }
    }
    Ok(landed)
}

/// Whether somebody has taken a task out of the queue.
pub(super) fn is_withdrawn(answer: &Result<QueueReturn, QueueError>) -> bool {
    matches!(answer, Ok(QueueReturn::Waits(entry)) if entry.state == EntryState::Cancelled)
}

/// Whether the queue lands the work of a task: not on the branch of a phase that was started there, and where no person
/// decides not if only an agent can test it, or if it has passed tests that are no longer known.
pub(super) fn can_queue(
    run: &TreeRun,
    session: &mut TaskSession,
    landing: &QueueLanding,
    job: &TaskJob,
) -> Result<bool, Error> {
    let settings = &landing.settings;
    let is_tested = run.plan.name == TreeName::Tasks || settings.tests.always.is_some() || !settings.auto_merge_clean;
    if run.lands_on(&job.task.id)? != run.plan.target {
        return Ok(false);
    }
    match testing::landing_tests(run, job) {
        _ if is_tested => Ok(true),
        None => Ok(false),
        Some(tests) if !tests.is_empty() => Ok(true),
        Some(_) => {
            session.write_end_of_task()?;
            Ok(!land::has_passed_tests(run, session.task_tip())?)
        }
    }
}

/// Puts the work of a session into the queue; none if it waits for a person to do that. Only of what this run has tested
/// itself is known by which commands.
pub(super) fn queue_up(
    run: &mut TreeRun,
    session: &mut TaskSession,
    landing: &QueueLanding,
    job: &TaskJob,
    is_tested_here: bool,
) -> Result<Option<(TaskQueue, EntryId)>, Error> {
    session.write_end_of_task()?;
    let task = session.task().id.clone();
    let is_queued = || landing::find_task(&run.repo, &run.plan.target, &task);
    if !landing.is_enabled && is_queued()?.is_none() {
        return Ok(None);
    }
    let mut submission = submission(run, session, landing, job)?;
    submission.tested &= is_tested_here;
    let entry = match newest_dropped(run, &submission)?.filter(|_| !landing.approves) {
        // Who has taken it out of the queue did not want it to land.
        Some(dropped) => dropped,
        None => enqueue(&run.repo, submission, &run.engine.redactor)?,
    };
    let is_tree = run.plan.name != TreeName::Tasks;
    if (landing.approves || (is_tree && matches!(entry.state, EntryState::Escalated | EntryState::Red)))
        && let Some(stored) = read_entry(&run.repo, &run.plan.target, &entry.id)?
    {
        // Each run over a tree tries again what an earlier one has left.
        if landing.approves {
            landing::allow(&run.repo, &stored, &run.engine.redactor)?
        } else {
            landing::retry(&run.repo, &stored, &run.engine.redactor)?
        };
    }
    let settings = QueueSettings { approved_tests: own_tests(run), ..landing.settings.clone() };
    landing::note_tested(&run.repo, &entry, &settings)?;
    let queue = TaskQueue {
        engine: Arc::clone(&run.engine),
        repo: run.repo.clone(),
        repo_name: run.plan.repo_name.clone(),
        target: run.plan.target.clone(),
        settings,
        work: Arc::clone(&run.state.queue_work),
        news: Arc::clone(&run.state.queue_news),
    };
    Ok(Some((queue, entry.id)))
}

/// The entry of the same work, if somebody has dropped it since.
fn newest_dropped(run: &TreeRun, submission: &Submission) -> Result<Option<QueueEntry>, Error> {
    let Some(task) = &submission.task else { return Ok(None) };
    let last = last_of_task(&run.repo, &submission.target, task)?;
    Ok(last.filter(|last| last.state == EntryState::Cancelled && last.head == submission.head))
}

/// The tests of the run's tasks, which were approved with it.
fn own_tests(run: &mut TreeRun) -> BTreeSet<String> {
    if let Some(known) = &run.state.landing_tests {
        return known.clone();
    }
    let redactor = &run.engine.redactor;
    // Many tasks have the same.
    let commands: BTreeSet<String> = testing::all_landing_tests(run).map(|test| test.command).collect();
    let tests: BTreeSet<String> = commands.iter().map(|command| without_secret_values(command, redactor)).collect();
    run.state.landing_tests = Some(tests.clone());
    tests
}

/// What is run where a task lands.
fn tests_of(run: &TreeRun, job: &TaskJob) -> Vec<TestCommand> {
    testing::landing_tests(run, job).unwrap_or_else(|| testing::apart(&job.task, &job.tests))
}

/// What a session has to merge.
fn submission(
    run: &TreeRun,
    session: &TaskSession,
    landing: &QueueLanding,
    job: &TaskJob,
) -> Result<Submission, Error> {
    let (task, head) = (session.task(), session.task_tip());
    let completed_at = run.repo.commit(head)?.at;
    let timeout = |test: &TestCommand| test.timeout.unwrap_or(run.plan.test_timeout).as_secs().max(1);
    let tests = tests_of(run, job).into_iter().map(|test| EntryTest { timeout: timeout(&test), command: test.command });
    Ok(Submission {
        branch: Some(run.branch_of(&task.id)?),
        head,
        base: Some(task.base),
        target: run.plan.target.clone(),
        task: Some(task.id.clone()),
        session: Some(session.id().clone()),
        run: None,
        title: task.name.clone(),
        goal: Some(run.engine.redactor.text(&job.task.description).into_owned()).filter(|goal| !goal.trim().is_empty()),
        tests: tests.collect(),
        tested: land::has_passed_tests(run, head)?,
        priority: landing.priorities.get(&task.id).copied().unwrap_or_default(),
        depends: job.task.depends_on.clone(),
        completed_at,
        repo: task.repo.clone(),
        undoes: None,
        mark: None,
        together: None,
    })
}

impl TaskQueue {
    /// Works the queue until it is known what becomes of an entry, or lets the process do that which has it.
    pub(super) async fn settle(self, id: EntryId) -> Result<QueueReturn, QueueError> {
        let mut in_conflict = false;
        loop {
            if let Some(known) = self.look(&id, &mut in_conflict)? {
                return Ok(known);
            }
            if self.engine.cancel.is_stopped() {
                return Ok(QueueReturn::Stopped);
            }
            let opened = QueueRun::open(
                Arc::clone(&self.engine),
                self.repo.clone(),
                self.repo_name.clone(),
                self.target.clone(),
                self.settings.clone(),
            );
            let working = match opened {
                Ok(run) => {
                    let news = Arc::clone(&self.news);
                    tokio::spawn(async move {
                        let outcome = run.process().await;
                        news.notify_one();
                        outcome
                    })
                }
                Err(QueueError::Lock(LockError::Held { .. })) => {
                    tokio::select! {
                        () = tokio::time::sleep(POLL) => {}
                        () = self.engine.cancel.stopped() => {}
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let outcome = match follow(working, &self.work, || self.look(&id, &mut in_conflict)).await? {
                ControlFlow::Break(known) => return Ok(known),
                ControlFlow::Continue(outcome) => outcome,
            };
            if let Some(known) = self.look(&id, &mut in_conflict)? {
                return Ok(known);
            }
            if let Some(held) = outcome.held {
                return Ok(QueueReturn::Held(held));
            }
            let is_left = outcome.open.iter().find(|entry| entry.id == id).cloned();
            if let Some(mut entry) = is_left.filter(|_| !outcome.is_stopped) {
                if !self.settings.may_test(&entry) {
                    entry.why = Some(UNAPPROVED_TESTS.to_owned());
                }
                return Ok(QueueReturn::Waits(Box::new(entry)));
            }
        }
    }

    /// What is known of an entry that the queue does not go on with by itself.
    fn look(&self, id: &EntryId, in_conflict: &mut bool) -> Result<Option<QueueReturn>, QueueError> {
        let Some(stored) = read_entry(&self.repo, &self.target, id)? else {
            return Err(QueueError::NoEntry(id.to_string()));
        };
        if std::mem::replace(in_conflict, is_in_conflict(&stored.entry)) != *in_conflict {
            self.news.notify_one();
        }
        let waits = |stored: StoredEntry| Some(QueueReturn::Waits(Box::new(stored.entry)));
        let needs_approval = !self.settings.auto_merge_clean && !stored.entry.approved;
        Ok(match stored.entry.state {
            EntryState::Landed => Some(QueueReturn::Landed(Box::new(stored.entry))),
            // No other attempt at it would help.
            EntryState::Red if stored.entry.waits_for_target() => waits(stored),
            EntryState::Repairing | EntryState::Red => Some(QueueReturn::Back(Box::new(stored))),
            EntryState::Escalated | EntryState::Cancelled => waits(stored),
            EntryState::Candidate if needs_approval => waits(stored),
            _ => None,
        })
    }
}

/// What the queue's answer means for the session of a task.
pub(super) fn returned(
    run: &mut TreeRun,
    session: &mut TaskSession,
    answer: Result<QueueReturn, QueueError>,
) -> Result<LandOutcome, Error> {
    let task = session.task().id.clone();
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return unlanded(run, session, error).map(LandOutcome::Refused),
    };
    match answer {
        QueueReturn::Landed(entry) => {
            let target = LandingTarget { repo: entry.repo.clone(), branch: entry.target.clone() };
            let commit = entry.landing.map_or(entry.head, |landing| landing.to);
            approve_moves(run, entry.landing);
            // Only in a line of commits are all steps between the two. A conflict that was resolved is a step among those
            // of the task, not behind them.
            let queue = run.plan.queue.as_ref().map(|queue| queue.settings.history);
            let is_line = queue == Some(HistoryShape::Linear) && entry.resolution.is_none();
            let from = entry.landing.filter(|_| is_line).map(|landing| landing.from);
            land::note_landed(run, session, vec![LandedBranch { target, from, commit }])?;
            Ok(LandOutcome::Landed)
        }
        QueueReturn::Back(stored) => take_back(run, session, &stored),
        QueueReturn::Waits(entry) => {
            let why = entry.why.clone().unwrap_or_else(|| "it waits in the merge queue".to_owned());
            let name = entry.name();
            let (code, how) = match entry.state {
                EntryState::Submitted if why == UNAPPROVED_TESTS => {
                    (RefusalCode::Unapproved, "`pleach merge process` asks for that".to_owned())
                }
                EntryState::Candidate => {
                    (RefusalCode::Unapproved, format!("`pleach merge approve {name}` lets it land"))
                }
                EntryState::Cancelled => {
                    (RefusalCode::Unapproved, format!("`pleach merge retry {name}` queues it again"))
                }
                EntryState::Red => {
                    (RefusalCode::TargetRed, format!("`pleach merge why {name}` shows what the tests printed"))
                }
                _ => (RefusalCode::Conflict, format!("`pleach merge why {name}` tells more")),
            };
            Ok(LandOutcome::Refused(refused(run, task, code, format!("{why}; {how}"))?))
        }
        QueueReturn::Held(why) => Ok(LandOutcome::Refused(refused(run, task, RefusalCode::Held, why)?)),
        QueueReturn::Stopped => Ok(LandOutcome::Paused),
    }
}

/// The refusal for a task whose target is gone, or whose objects are not what they were; anything else is an error.
fn unlanded(run: &TreeRun, session: &TaskSession, error: QueueError) -> Result<Refusal, Error> {
    let why = match error {
        QueueError::NoBranch(_) => RefusalReason::Gone,
        QueueError::Land(error @ LandError::Overwritten { .. }) => RefusalReason::Overwritten(error.to_string()),
        QueueError::Git(error @ git::Error::Overwritten { .. }) => RefusalReason::Overwritten(error.to_string()),
        error => return Err(error.into()),
    };
    let (task, target) = (session.task(), run.target_of(run.plan.target.clone()));
    land::work_waits(run, &task.id, LandingRefusal { target, why })
}

/// What the queue has landed of this run's tasks is as approved as what it was built on. They may be heard of in another
/// order than they have landed in.
fn approve_moves(run: &mut TreeRun, landing: Option<EntryLanding>) {
    let state = &mut run.state;
    state.queue_moves.extend(landing.map(|landing| (landing.from, landing.to)));
    let mut before = usize::MAX;
    while state.queue_moves.len() < before {
        before = state.queue_moves.len();
        state.queue_moves.retain(|(from, to)| {
            if !state.approved.has(*to) {
                state.approved.extend(&[*from], *to);
            }
            !state.approved.has(*to)
        });
    }
}

/// Looks what the queue has landed of tasks that it was given, before it is told: others may be started on that. Returns
/// those that are in conflict: nobody waits for their landing.
pub(super) fn look_at_moves(run: &mut TreeRun, queued: &BTreeMap<TaskId, EntryId>) -> Result<BTreeSet<TaskId>, Error> {
    let mut in_conflict = BTreeSet::new();
    for (task, id) in queued {
        let stored = read_entry(&run.repo, &run.plan.target, id)?;
        in_conflict.extend(stored.as_ref().filter(|stored| is_in_conflict(&stored.entry)).map(|_| task.clone()));
        let landing =
            stored.filter(|stored| stored.entry.state == EntryState::Landed).and_then(|stored| stored.entry.landing);
        approve_moves(run, landing);
    }
    Ok(in_conflict)
}

fn is_in_conflict(entry: &QueueEntry) -> bool {
    matches!(entry.state, EntryState::Conflicted | EntryState::Resolving)
}

/// The refusal for a task that waits for a person to queue it.
pub(super) fn not_queued(run: &TreeRun, task: TaskId) -> Result<Refusal, Error> {
    let why = format!("`merge.enabled` is off; `pleach task merge {task}` merges it");
    refused(run, task, RefusalCode::Unapproved, why)
}

/// Has a task worked again that the queue has returned: with the failing tests as feedback, or with the conflict.
fn take_back(run: &mut TreeRun, session: &mut TaskSession, stored: &StoredEntry) -> Result<LandOutcome, Error> {
    let entry = &stored.entry;
    let why = entry.why.clone().unwrap_or_default();
    let task = session.task().id.clone();
    if !land::has_attempts_left(run, session) {
        landing::escalate_entry(&run.engine, &run.repo, stored)?;
        let why = format!("{why}; its attempts are used up, and `pleach merge why {task}` tells more");
        return Ok(LandOutcome::Refused(refused(run, task, RefusalCode::Conflict, why)?));
    }
    if let Some(TestVerdict::Fail { .. }) = entry.verdict
        && entry.conflicts.is_empty()
    {
        let log = entry_log(&run.repo, stored)?.unwrap_or(why);
        let said = format!("Other work landed first, and the tests fail on both together.\n\n{log}");
        let report = StepReport { body: text::own(&said), said, log: Some(log), ..StepReport::default() };
        return land::rebuild_red(run, session, report);
    }
    // What an agent could not resolve says nothing of where.
    let unnamed = |path: &&ConflictedPath| !why.contains(&path.path.to_string());
    let unnamed: Vec<&RepoPath> = entry.conflicts.iter().filter(unnamed).map(|conflict| &conflict.path).collect();
    let paths = if unnamed.is_empty() { String::new() } else { format!("; in conflict: {}", named(&unnamed)) };
    land::turn_away(run, session, &format!("{why}{paths}"))
}

/// Takes the entry of a task that was given up out of the queue.
pub(super) fn withdraw(run: &TreeRun, task: &TaskId) -> Result<(), Error> {
    Ok(withdraw_task(&run.repo, &run.plan.target, task, &run.engine.redactor)?)
}

fn refused(run: &TreeRun, task: TaskId, code: RefusalCode, why: String) -> Result<Refusal, Error> {
    let branch = run.branch_of(&task)?;
    Ok(Refusal::new(task, true, branch, code, why))
}
