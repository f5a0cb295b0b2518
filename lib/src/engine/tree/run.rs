//! The run over a tree: ask what is next, do it, land it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::bookkeeping;
use super::edited::{Stamp, was_edited};
use super::loop_guard::Completed;
use super::pending_trust::{Brought, Given};
use super::plan::TreePlan;
use super::progress::Reader;
use super::pump::TreePump;
use super::refusal::Refusal;
use super::spending::Spending;
use super::unfinished::{Unfinished, bring_branches};
use crate::clock;
use crate::config::Isolation;
use crate::engine::start::refuse_clash;
use crate::engine::task::{SharedWorktree, TaskJob};
use crate::engine::{Engine, Pause, Subscription};
use crate::event::{RunStarted, Warning, WarningCode};
use crate::git::{BlobId, CommitSpec, Person, Repo, TreeId, Writer};
use crate::ids::{BranchName, CommitId, SessionId, TaskId};
use crate::merge::LandedBranch;
use crate::plan::tree::TaskNode;
use crate::progress::{Progress, TaskState};
use crate::schedule::{self, Blocked, NextAction, Schedule, ScheduleOptions};
use crate::step::Step;
use crate::trailer::CommitMessage;
use crate::workspace::{Lock, branch_key, branch_ref, phase_branch, phase_branches, task_branches};

/// How a run over a tree ended.
#[derive(Debug)]
pub enum TreeEnded {
    /// Every task is complete and every gate green.
    Done,
    /// The one task that was asked for is complete.
    TaskDone(TaskId),
    /// A task was given up.
    Failed {
        /// The task.
        task: TaskId,
        /// Attempts over its whole history.
        attempts: u32,
        /// A run before this one gave it up.
        before: bool,
        /// Why, in one line.
        reason: Option<String>,
    },
    /// The session of a task, or of the tests of a phase, was called off. The next run goes on with the task.
    CalledOff(TaskId),
    /// The tests of a phase fail.
    GateRed {
        /// The phase, or the group in one.
        gate: TaskId,
        /// The phase is gathered, so that they ran on what its merge into the target would be.
        on_merge: bool,
        /// Why, in one line.
        reason: Option<String>,
    },
    /// Nothing can be started: what waits for what.
    Stalled(Vec<Blocked>),
    /// It stopped and goes on when it is run again.
    Paused(Pause),
    /// Nothing is left to spend. It goes on when it is run again with more.
    OutOfBudget {
        /// Which limit was reached, and how to go on.
        why: String,
    },
    /// Finished work could not land and waits on its branch, or new work could not have its branch.
    Refused(Refusal),
    /// It came to a task with something nobody was asked about. Ask about what [`TreeRun::brought`] gives, and go on.
    Unasked,
}

/// A run over a tree. The one writer of its target's tasks.
#[derive(Debug)]
pub struct TreeRun {
    pub(super) engine: Arc<Engine>,
    pub(super) repo: Repo,
    pub(super) plan: Arc<TreePlan>,
    pub(super) course: RunState,
    pub(super) progress: Progress,
    /// How many tasks are done and landed.
    pub(super) done: usize,
    /// What the target stood at when the progress was read, or where this run moved it since.
    pub(super) seen: CommitId,
    pub(super) schedule: Schedule,
    /// What the tree's file looked like when it was last looked at.
    stamp: Option<Stamp>,
    /// Somebody was told what is special about it.
    greeted: bool,
    /// The tree's file, once it is written for the records.
    pub(super) document: Option<BlobId>,
    /// What the sessions of the run have spent, once somebody had to know.
    pub(super) spending: Option<Spending>,
}

/// How far a run has come, and what it holds.
#[derive(Debug)]
pub(super) struct RunState {
    reader: Reader,
    /// The working copy, when no task is worked.
    pub(super) seat: Option<SharedWorktree>,
    /// What the tests of each phase last passed on, in this run.
    pub(super) gated: BTreeMap<TaskId, TreeId>,
    /// The one task that is worked: the one that was asked for, or the first that was done where any one was.
    pub(super) chosen: Option<TaskId>,
    /// What this run has done.
    pub(super) done: BTreeMap<TaskId, Completed>,
    /// Sessions of tasks that have not landed, from runs before this one.
    pub(super) unfinished: BTreeMap<TaskId, Unfinished>,
    /// What somebody was asked about.
    pub(super) given: Given,
    /// Sessions from runs before this one that have landed, and of which no step is among what is done.
    pub(super) lost: BTreeMap<TaskId, Vec<SessionId>>,
    /// This run was opened.
    opened: bool,
    _lock: Lock,
}

impl RunState {
    /// What comes next in a tree, after what has become of it.
    fn schedule(&self, plan: &TreePlan, progress: &Progress) -> Schedule {
        let limits = ScheduleOptions { only: self.chosen.clone(), ..plan.limits.clone() };
        Schedule::new(&plan.tree, progress, limits)
    }
}

/// The name of the lock a run over a target's tasks holds.
pub fn target_lock(target: &BranchName) -> String {
    format!("target-{}", branch_key(target))
}

/// Refuses a target no file can be named after.
pub fn check_target(target: &BranchName) -> Result<(), Error> {
    // The longest of the names, and what nearly all file systems take.
    match SharedWorktree::lock_name(target).len() > 255 {
        true => Err(Error::LongName(target.clone())),
        false => Ok(()),
    }
}

impl TreeRun {
    /// Takes the target, or says who has it, and reads what was done so far. Gives what it may work with beside its plan,
    /// too: records and branches are fetched, so that what they would run has to be agreed to before the run begins.
    pub fn open(engine: Arc<Engine>, repo: Repo, plan: Arc<TreePlan>) -> Result<(Self, Brought), Error> {
        check_target(&plan.target)?;
        for branches in [task_branches, phase_branches] {
            refuse_clash(&repo, &branches(&plan.branch_prefix, &plan.target))?;
        }
        let what = format!("the list of tasks on `{}`", plan.target);
        let lock = Lock::take(repo.common_dir(), &target_lock(&plan.target), &what)?;
        bring_branches(&repo, &plan.target)?;
        let mut reader = Reader::new(&repo, &plan.target, &plan.branch_prefix, plan.base_branch.as_ref());
        let seat = SharedWorktree::take(&repo, &plan.target).map_err(Error::from)?;
        let seen = target_tip(&repo, &plan.target)?;
        let progress = plan.progress(&mut reader)?;
        let course = RunState {
            reader,
            seat: Some(seat),
            gated: BTreeMap::new(),
            chosen: plan.limits.only.clone(),
            done: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            given: Given::default(),
            lost: BTreeMap::new(),
            opened: false,
            _lock: lock,
        };
        let schedule = course.schedule(&plan, &progress);
        let (done, stamp) = (progress.done(&plan.tree), plan.stamp);
        let mut run = Self {
            engine,
            repo,
            plan,
            course,
            progress,
            done,
            seen,
            schedule,
            stamp,
            greeted: false,
            document: None,
            spending: None,
        };
        run.find_left()?;
        let brought = run.brought()?;
        Ok((run, brought))
    }

    /// What is told of it, and of its sessions, from now on.
    pub fn events(&self) -> Subscription {
        self.engine.events.subscribe()
    }

    /// What has become of the tasks so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What would be done first.
    pub fn next(&self) -> NextAction {
        self.schedule.next()
    }

    /// Runs until the tree is done, one task is where one was asked for, or nothing more can be done.
    pub async fn run(&mut self) -> Result<TreeEnded, Error> {
        let ended = TreePump::new(self).run().await;
        tokio::task::block_in_place(|| self.repo.pack_rest());
        ended
    }

    /// Whether the next thing this run does is to open itself.
    pub(super) fn begins_now(&self) -> bool {
        !self.course.opened && (self.plan.fresh || !self.progress.is_begun(&self.plan.tree))
    }

    /// Opens the run where that is due, and sees to what runs before it have left. Answers where it cannot be begun.
    pub(super) fn begin_run(&mut self) -> Result<Option<TreeEnded>, Error> {
        if self.begins_now() {
            match schedule::next(&self.plan.tree, &self.progress.anew(), &self.plan.limits) {
                NextAction::OtherTree(taken) => return Ok(Some(TreeEnded::Refused(self.taken(taken)?))),
                NextAction::Unreadable(unread) => return Ok(Some(TreeEnded::Refused(self.unread(unread)))),
                _ => {}
            }
            begun_again(&self.progress).into_iter().for_each(|warning| self.engine.warn(warning));
            self.start()?;
        }
        if !std::mem::replace(&mut self.greeted, true) {
            self.gathered_before().into_iter().for_each(|warning| self.engine.warn(warning));
            self.bring_failed_attempts()?;
            // A run before this one may have been killed before it could.
            self.delete_landed_branches()?;
        }
        Ok(None)
    }

    /// Looks at what others have done meanwhile: on the target, and to the tree's file.
    pub(super) fn look_around(&mut self) -> Result<(), Error> {
        self.look_again()?;
        if was_edited(&self.repo, &self.plan, &mut self.stamp) {
            let edited = format!("`{}` was edited; the change applies from the next run", self.plan.path);
            self.engine.warn(WarningCode::TreeEditedMeanwhile.with(edited));
        }
        Ok(())
    }

    /// Goes on with what belongs to a task that is done, and nothing else, where any one was asked for: the tests and the
    /// merge of its phase belong to the task that completes it.
    pub(super) fn choose(&mut self, task: TaskId) {
        if self.plan.one && self.course.chosen.is_none() {
            self.course.chosen = Some(task);
            self.schedule = self.course.schedule(&self.plan, &self.progress);
        }
    }

    /// The phases that end on a branch of their own though this run gathers none.
    fn gathered_before(&self) -> Vec<Warning> {
        let told = |phase: &TaskNode| {
            let branch = phase_branch(&self.plan.branch_prefix, &self.plan.target, &phase.id).ok()?;
            let text = format!("{} ends on `{branch}`, where it started", phase.id);
            Some(WarningCode::PhaseBranchContinued.with(text))
        };
        let is_told = self.plan.limits.isolation == Isolation::Phase;
        self.plan.tree.nodes().filter(|node| !is_told && self.schedule.gathers(&node.id)).filter_map(told).collect()
    }

    /// Opens the run: one commit on the target that changes no file.
    pub(super) fn start(&mut self) -> Result<(), Error> {
        let target = self.target_of(self.plan.target.clone());
        let make = |tip: CommitId| -> Result<_, Error> {
            let mut writer = self.repo.writer();
            let commit = run_start(&self.repo, &mut writer, &self.plan.target, &self.plan.path, tip)?;
            writer.flush()?;
            Ok(Some(commit))
        };
        let landed = tokio::task::block_in_place(|| bookkeeping::land(&self.repo, target, make))?;
        self.course.opened = true;
        if let Some(LandedBranch { from, commit, .. }) = landed {
            self.made(from.as_slice(), commit);
            self.engine.tell(RunStarted {
                tree: self.plan.path.clone(),
                repo: self.plan.repo_name.clone(),
                target: self.plan.target.clone(),
                commit,
                extra: Default::default(),
            });
        }
        self.read_again()
    }

    /// Reads the progress again if somebody else moved the target.
    fn look_again(&mut self) -> Result<(), Error> {
        if target_tip(&self.repo, &self.plan.target)? != self.seen { self.read_again() } else { Ok(()) }
    }

    pub(super) fn read_again(&mut self) -> Result<(), Error> {
        self.seen = target_tip(&self.repo, &self.plan.target)?;
        let progress = tokio::task::block_in_place(|| self.course.reader.read(&self.plan.path))?;
        self.progress = progress.of(&self.plan.tree);
        self.done = self.progress.done(&self.plan.tree);
        self.schedule.renew(&self.progress);
        Ok(())
    }

    /// Whether a commit is built on the start of the run that counts.
    pub(super) fn is_of_run(&self, commit: CommitId) -> Result<bool, Error> {
        let starts = &self.progress.run_starts;
        for start in starts.iter() {
            if self.repo.is_ancestor(start.commit, commit)? {
                return Ok(true);
            }
        }
        Ok(starts.is_empty())
    }

    /// What a session has to know of a task that is next, or of the tests of a phase.
    pub(super) fn job(&self, task: &TaskId) -> Arc<TaskJob> {
        let task = self.plan.tree.node(task).expect("what is next is a node of the tree");
        Arc::new(TaskJob {
            task: task.clone(),
            tests: self.tests(task),
            test_timeout: self.plan.test_timeout,
            logs: self.plan.logs.clone(),
            reports: self.plan.reports.clone(),
            commit_logs: self.plan.commit_logs,
            attempts: self.plan.limits.max_retries,
            not_before: self.progress.not_before(),
            begun: self.progress.task(&task.id).begun_there(),
        })
    }
}

/// What a tree that is begun again leaves behind, in words.
pub fn begun_again(progress: &Progress) -> Vec<Warning> {
    let words = |(task, state): (&TaskId, &TaskState)| {
        let stands = if state.status.is_over() { "is finished and waits to land" } else { "is under way" };
        let text = format!("{task} {stands}, and is done again; what its branch has is kept");
        WarningCode::TaskRestarted.with(text)
    };
    progress.not_landed().map(words).collect()
}

/// The commit that opens a run, on top of another. It changes no file.
pub(super) fn run_start(
    repo: &Repo,
    writer: &mut Writer,
    target: &BranchName,
    tree: &str,
    on: CommitId,
) -> Result<CommitId, crate::git::Error> {
    writer.commit(&CommitSpec {
        tree: repo.tree_of(on)?,
        parents: vec![on],
        author: Person::pleach(),
        committer: Person::pleach(),
        at: clock::now(),
        message: start_message(target, tree).write().into_bytes(),
    })
}

/// What the commit that opens a run says.
pub(super) fn start_message(target: &BranchName, tree: &str) -> CommitMessage {
    Step::run_start(tree).message(target.as_str(), "", None, "")
}

/// Where a target stands.
pub(super) fn target_tip(repo: &Repo, target: &BranchName) -> Result<CommitId, Error> {
    repo.reference(&branch_ref(target))?.ok_or_else(|| Error::NoTarget(target.clone()))
}
