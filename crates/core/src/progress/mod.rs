//! What happened to a tree's tasks: a fold over their step commits.
//!
//! [`CandidateStep`] is a step commit of a target's history; [`fold`] decides which of them count for a tree and what they add
//! up to. Nothing is stored beside the commits: the newest step of a task is its state.

mod fold;
mod other_trees;
mod outside;
mod stranded;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{BranchName, CommitId, SessionId, TaskId};
use crate::plan::tree::{TaskNode, TaskTree};
use crate::redact;
use crate::step::{Feedback, Step, StepKind, TestKind, failure, reason, shown_name, text};
use crate::text::shell_word;
use crate::trailer::before_copied;

pub use fold::{Chain, fold};
pub use other_trees::{OtherTreeState, OtherTreeWork, taken};
pub(crate) use outside::OutsideNode;
pub use stranded::{StrandedReason, StrandedWork};

/// Where a step commit is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StepPlace {
    /// In the history of the target.
    Target,
    /// On the branch of a phase, not yet merged into the target.
    Phase(TaskId),
    /// On the branch of a task, not yet landed.
    Task(TaskId),
}

/// A step commit that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCommit {
    /// The commit.
    pub commit: CommitId,
    /// When the step was done (the author date).
    #[serde(with = "jiff::fmt::serde::timestamp::second::required")]
    pub at: Timestamp,
    /// Its text.
    pub step: Step,
    /// The body, of steps with feedback; of others it is left in the commit.
    pub body: String,
    /// Where it is.
    pub on: StepPlace,
    /// A hash of message and author date: copies of a step have the same.
    pub print: u64,
    /// Of the newest run of a gate: the tasks that have steps before it which are not in its history. They came with a
    /// merge, and it says nothing of them.
    pub beside: BTreeSet<TaskId>,
}

impl StepCommit {
    /// Its feedback for the next attempt; none when it went well.
    pub fn feedback(&self) -> Option<Feedback> {
        text::feedback(&self.step, &self.body)
    }

    /// Why it failed, in one line; none when it went well or the reason is unknown.
    pub fn reason(&self) -> Option<String> {
        if self.step.passed { None } else { reason(&self.step.kind, &self.body, &[]) }
    }
}

/// A step commit in a history, before it is known whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateStep {
    /// The commit.
    pub found: Arc<StepCommit>,
    /// The starts of runs in its history.
    pub runs: Arc<BTreeSet<CommitId>>,
    /// How its subject names the branch.
    pub form: BranchNaming,
    /// Whether it is the target's own: one that does not name the target in full, from before that left the base branch, is
    /// not.
    pub in_scope: bool,
}

/// How the subject of a step names the branch it was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BranchNaming {
    /// By its name.
    Branch,
    /// By the short id the newest Arborist makes of it.
    ShortId,
    /// Not at all: the oldest form.
    Nothing,
}

/// A fingerprint of a step: message and author date, without git's note of a cherry-pick. Eight bytes at a time,
/// because messages hold output.
pub fn print(message: &[u8], seconds: i64, offset: i32) -> u64 {
    let message = before_copied(message);
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = message.as_chunks::<8>();
    let hash = words.iter().fold(message.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let hash = rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
    mix(mix(hash, seconds.cast_unsigned()), u64::from(offset.cast_unsigned()))
}

/// Where a task is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskStatus {
    /// Nothing was done, or it was reset.
    #[default]
    Pending,
    /// The newest step is implement, or one of the pipeline's own.
    Implementing,
    /// The newest step is test.
    Testing,
    /// The newest step is review.
    Reviewing,
    /// It is done.
    Complete,
    /// It was given up.
    Failed,
}

impl TaskStatus {
    /// The status a task has after a step.
    pub fn after(step: &Step) -> Self {
        match step.kind {
            StepKind::RunStart | StepKind::Reset => Self::Pending,
            StepKind::Implement | StepKind::Custom(_) => Self::Implementing,
            StepKind::Test => Self::Testing,
            StepKind::Review => Self::Reviewing,
            StepKind::Complete if step.passed => Self::Complete,
            StepKind::Complete => Self::Failed,
        }
    }

    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Implementing => "implementing",
            Self::Testing => "testing",
            Self::Reviewing => "reviewing",
            Self::Complete => "complete",
            Self::Failed => "failed",
        }
    }

    /// Whether the task has ended, one way or the other.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

/// What happened to one task, or of a phase's gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskState {
    /// Where it is.
    pub status: TaskStatus,
    /// Whether its newest step is where its work belongs: on the target or on its phase's branch.
    pub landed: bool,
    /// Attempts that had a result, over its whole history: the next `Arborist-Retry`.
    pub attempts: u32,
    /// Those since it was last given up or reset.
    pub in_budget: u32,
    /// Its steps that count, newest last.
    pub steps: Vec<Arc<StepCommit>>,
    /// The session of the newest step that names one.
    pub session: Option<SessionId>,
    /// The name it had in its newest step, as [`crate::step::shown_name`] gives it.
    pub name_then: Option<String>,
    /// It was completed without a test.
    pub untested: bool,
    /// It was skipped by decision.
    pub skipped: bool,
    /// How many of the last steps belong to an attempt that has no result yet.
    unfinished: usize,
    /// Where its newest step is among the steps of all tasks.
    newest: usize,
    /// The attempt it is in.
    now: AttemptNow,
}

/// The attempt a task is in.
///
/// An attempt is distinguished from the next by its number; where a program counted from 0 again after a restart, by
/// the implement step that follows a result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct AttemptNow {
    retry: Option<u32>,
    has_result: bool,
    /// How many of the last steps belong to it, where the newest of them completed the task.
    completed: usize,
}

impl TaskState {
    /// The newest step.
    pub fn newest(&self) -> Option<&StepCommit> {
        self.steps.last().map(Arc::as_ref)
    }

    /// The steps of the attempt that was started and has no result: a task continues after the last of them.
    pub fn unfinished(&self) -> &[Arc<StepCommit>] {
        &self.steps[self.steps.len() - self.unfinished..]
    }

    /// The steps of the attempt it is at: of the one that has no result, or of the one that completed it.
    pub fn at_attempt(&self) -> &[Arc<StepCommit>] {
        &self.steps[self.steps.len() - self.unfinished.max(self.now.completed)..]
    }

    /// Whether a step is a run of a gate. The tests of a task are done in a session that does other steps as well; a node
    /// may have been a task before it was a phase.
    fn is_gate_run(&self, found: &StepCommit) -> bool {
        let of_task =
            |other: &Arc<StepCommit>| other.step.kind != StepKind::Test && other.step.session == found.step.session;
        found.step.kind == StepKind::Test && !self.steps.iter().any(of_task)
    }

    /// Why it was given up: as its last step says, and by what ended its last attempt. None when it was not.
    pub fn why_failed(&self) -> Option<String> {
        let newest = self.newest().filter(|_| self.status == TaskStatus::Failed)?;
        let first_line = |text: &str| text.lines().map(|line| line.trim().to_owned()).find(|line| !line.is_empty());
        let (why, untold) = text::why_given_up(&newest.body);
        let why = first_line(why).map(|said| {
            let mut chars = said.trim_end_matches('.').chars();
            chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect::<String>()
        });
        let mut before = self.steps[..self.steps.len() - 1].iter().rev();
        let failing = before.find(|found| !found.step.passed || found.step.kind == StepKind::Complete);
        let failing = failing.filter(|found| found.step.kind != StepKind::Complete);
        let last = match untold.and_then(first_line) {
            Some(said) => Some(format!("its last attempt ended: {said}")),
            None => failing.map(|found| failure(&found.step.kind, &found.body, &[])),
        };
        match (why, last) {
            (Some(why), Some(last)) => Some(format!("{why}; {last}")),
            (Some(said), None) | (None, Some(said)) => Some(said),
            (None, None) => None,
        }
    }

    /// Its steps that are where its work belongs though it is not done: since it was last complete or reset there,
    /// oldest first. Other programs put every step onto the target at once, and what they did is there also when they
    /// gave it up.
    pub fn begun_there(&self) -> Vec<CommitId> {
        let there = self.steps.iter().rev().filter(|found| !matches!(found.on, StepPlace::Task(_)));
        let mut begun: Vec<CommitId> =
            there.take_while(|found| !begins_afresh(found)).map(|found| found.commit).collect();
        begun.reverse();
        begun
    }

    /// Whether a session has worked on it in the budget it was given up in, so that its branch had what was done. Other
    /// programs have no branch for it, and giving it up is no work.
    pub fn had_branch(&self) -> bool {
        let [budget @ .., _] = &self.steps[..] else { return false };
        let ended = |found: &&Arc<StepCommit>| {
            matches!(TaskStatus::after(&found.step), TaskStatus::Failed | TaskStatus::Pending)
        };
        budget.iter().rev().take_while(|found| !ended(found)).any(|found| found.step.session.is_some())
    }

    /// The steps the next attempt is reported, as far as they went wrong, oldest first: forgotten is what came before
    /// the task was complete or reset, but for what the reset itself says.
    pub fn feedback_steps(&self) -> &[Arc<StepCommit>] {
        &self.steps[self.steps.iter().rposition(begins_afresh).unwrap_or(0)..]
    }
}

/// Whether a task that is worked after this step starts with nothing of what it was before. One that was given up does
/// not.
fn begins_afresh(found: &Arc<StepCommit>) -> bool {
    match found.step.kind {
        StepKind::Complete => found.step.passed,
        StepKind::Reset => true,
        _ => false,
    }
}

/// What happened to a phase's gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateProgress {
    /// How often it ran: the next `Arborist-Retry`.
    pub runs: u32,
    /// Its newest run.
    pub newest: Option<Arc<StepCommit>>,
    /// Whether that run was green and nothing below has changed since.
    pub green: bool,
}

/// A task's or phase's branch with steps the target does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenBranch {
    /// Its name.
    pub name: BranchName,
    /// Whose it is.
    pub place: StepPlace,
    /// Where it is.
    pub tip: CommitId,
}

/// A task's or phase's branch that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableBranch {
    /// The branch.
    pub branch: OpenBranch,
    /// The task or phase it is named after.
    pub id: TaskId,
    /// Which object is missing or damaged.
    pub why: String,
}

/// What happened to a tree on a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The starts of the run that counts, oldest first: several where it was started in several clones.
    pub run_starts: Vec<Arc<StepCommit>>,
    /// The branches that are ahead of the target.
    pub open: Vec<OpenBranch>,
    /// The branches other trees have work on.
    pub taken: Vec<OtherTreeWork>,
    /// The branches that cannot be read.
    pub unread: Vec<UnreadableBranch>,
    /// How many of the steps that count name the target by its short id.
    pub by_short_id: usize,
    /// The history is cut off where it could still report the run: what was done may be missing.
    pub cut_off: bool,
    /// Inner nodes whose tests are to be run again, whatever their newest run said.
    outdated: BTreeSet<TaskId>,
    /// Nodes that are worked in other repositories.
    outside: BTreeMap<TaskId, OutsideNode>,
    tasks: BTreeMap<TaskId, TaskState>,
    /// How many steps were taken in.
    steps: usize,
    not_before: Timestamp,
    pending: TaskState,
}

impl Progress {
    /// The newest start of the run that counts.
    pub fn run_start(&self) -> Option<&StepCommit> {
        self.run_starts.last().map(Arc::as_ref)
    }

    /// What happened to a task; one without steps is pending.
    pub fn task(&self, id: &TaskId) -> &TaskState {
        let outside = self.outside.get(id).map(|node| &node.state);
        outside.or_else(|| self.tasks.get(id)).unwrap_or(&self.pending)
    }

    /// What is left of it when the tree is started again.
    pub fn anew(&self) -> Self {
        let (taken, unread, outside) = (self.taken.clone(), self.unread.clone(), self.outside.clone());
        Self { taken, unread, outside, not_before: self.not_before, ..Self::default() }
    }

    /// The branch of a task, if it cannot be read.
    pub fn unread(&self, task: &TaskId) -> Option<&UnreadableBranch> {
        self.unread.iter().find(|unread| matches!(&unread.branch.place, StepPlace::Task(id) if id == task))
    }

    /// What to do about a branch that cannot be read, in words. A phase cannot be reset as a whole, and a task that is
    /// done lacks nothing.
    pub fn remedy(&self, unread: &UnreadableBranch, tree: &TaskTree) -> String {
        let is_done = |task| self.task(task).status == TaskStatus::Complete && self.task(task).landed;
        match &unread.branch.place {
            StepPlace::Task(task) if tree.is_leaf(task) && !is_done(task) => {
                format!("`pleach reset {task}` to have it done again")
            }
            _ => format!(
                "`git update-ref -d {}` to do without it",
                shell_word(format_args!("refs/heads/{}", unread.branch.name))
            ),
        }
    }

    /// The tasks with steps on their own branch that are not landed, and whether they have ended there, by id.
    pub fn not_landed(&self) -> impl Iterator<Item = (&TaskId, &TaskState)> {
        self.tasks().filter(|(_, state)| !state.landed && !state.steps.is_empty())
    }

    /// The earliest date a step may have now. Steps of several branches are put in order by their dates, and the clock
    /// that made the others may be ahead of this one: no step is dated before one it follows, and after what a person
    /// has decided it is later.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// How many tasks of a tree are complete and landed.
    pub fn done(&self, tree: &TaskTree) -> usize {
        tree.order().iter().filter(|task| self.is_done(task)).count()
    }

    /// Whether a task is complete and landed.
    pub fn is_done(&self, task: &TaskId) -> bool {
        let state = self.task(task);
        state.status == TaskStatus::Complete && state.landed
    }

    /// All tasks and phases of the repository that have steps, by id.
    pub fn tasks(&self) -> impl Iterator<Item = (&TaskId, &TaskState)> {
        self.tasks.iter().filter(|(id, _)| !self.outside.contains_key(*id))
    }

    /// Whether a run over the tree was started: by its own start, or by the steps of a program that writes none. Those
    /// name no tree, so that steps of nodes it does not have are of another one.
    pub fn is_begun(&self, tree: &TaskTree) -> bool {
        let has_steps = |node: &TaskNode| self.tasks.get(&node.id).is_some_and(|state| !state.steps.is_empty());
        self.run_start().is_some() || tree.nodes().any(has_steps)
    }

    /// The tasks that have ended on their own branch but are not landed, in the order they ended.
    pub fn waiting_to_land(&self) -> Vec<&TaskId> {
        let waits = |(_, state): &(&TaskId, &TaskState)| state.status.is_over() && !state.landed;
        let mut waiting: Vec<_> = self.tasks().filter(waits).collect();
        waiting.sort_by_key(|(_, state)| state.newest);
        waiting.into_iter().map(|(id, _)| id).collect()
    }

    /// Tasks that were completed under another name than the tree gives them, with the name they had: the id may have
    /// been given to another task since.
    pub fn renamed<'a>(&'a self, tree: &'a TaskTree) -> Vec<(&'a TaskNode, &'a str)> {
        let renamed = |node: &'a TaskNode| {
            let state = Some(self.task(&node.id)).filter(|state| state.status == TaskStatus::Complete)?;
            // One that lacks a secret does not tell what it was.
            let then = state.name_then.as_deref().filter(|then| !redact::is_marked(then))?;
            let then = Some(then).filter(|then| *then != shown_name(&node.name))?;
            Some((node, then))
        };
        tree.nodes().filter(|node| node.is_leaf()).filter_map(renamed).collect()
    }

    /// The same without what the tasks of a tree did as phases before: the tests of a phase are no attempts.
    pub fn of(mut self, tree: &TaskTree) -> Self {
        for (_, state) in self.tasks.iter_mut().filter(|(id, _)| tree.is_leaf(id)) {
            // Steps of no session are those of a program that runs no such tests, and a phase has no tests of units.
            let is_of_units =
                |found: &StepCommit| found.step.test.as_ref().is_none_or(|test| test.kind == TestKind::Unit);
            let as_phase =
                |found: &StepCommit| found.step.session.is_some() && !is_of_units(found) && state.is_gate_run(found);
            if state.steps.iter().any(|found| as_phase(found)) {
                let steps: Vec<_> = state.steps.iter().filter(|found| !as_phase(found)).cloned().collect();
                *state = TaskState { newest: state.newest, ..TaskState::of(&steps) };
            }
        }
        self.tasks.retain(|_, state| !state.steps.is_empty());
        self
    }

    /// The same without what is no part of a tree: ad-hoc tasks are read together, and each run works some of them.
    pub fn only(mut self, tree: &TaskTree) -> Self {
        self.tasks.retain(|id, _| tree.node(id).is_some());
        self.open.retain(|branch| match &branch.place {
            StepPlace::Task(id) | StepPlace::Phase(id) => tree.node(id).is_some(),
            StepPlace::Target => true,
        });
        self
    }

    /// The same, with these gates to be run again.
    pub fn without_gates(self, outdated: BTreeSet<TaskId>) -> Self {
        Self { outdated, ..self }
    }

    /// The gate of an inner node with these leaves below it. A run that has not landed is none yet: landing it, or
    /// running it again, is still to be done.
    pub fn gate<'a>(&self, id: &TaskId, leaves: impl IntoIterator<Item = &'a TaskId>) -> GateProgress {
        if let Some(gate) = self.outside.get(id).and_then(|node| node.gate.clone()) {
            return gate;
        }
        let own = self.task(id);
        let is_run = |found: &&Arc<StepCommit>| own.is_gate_run(found) && !matches!(found.on, StepPlace::Task(_));
        let mut runs_of = own.steps.iter().filter(is_run);
        let runs = u32::try_from(runs_of.clone().count()).unwrap_or(u32::MAX);
        let newest = runs_of.next_back().cloned();
        let newer = |leaf: &TaskId| {
            let is_beside = newest.as_ref().is_some_and(|run| run.beside.contains(leaf));
            let is_later = |node: &OutsideNode| newest.as_ref().is_some_and(|run| node.is_later_than(run));
            if let Some(node) = self.outside.get(leaf) {
                return is_later(node);
            }
            is_beside || self.tasks.get(leaf).is_some_and(|leaf| leaf.newest > own.newest)
        };
        let passed = own.landed && newest.as_ref().is_some_and(|found| found.step.passed);
        let green = passed && !self.outdated.contains(id) && !leaves.into_iter().any(newer);
        GateProgress { runs, newest, green }
    }
}
