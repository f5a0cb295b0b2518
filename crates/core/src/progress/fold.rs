//! Which steps count, in which order, and what they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _};

use super::{
    AttemptNow, BranchNaming, CandidateStep, OpenBranch, Progress, StepCommit, StepPlace, TaskState, TaskStatus,
};
use crate::ids::CommitId;
use crate::step::{StepKind, TreeName};

/// A task's or phase's branch: its steps that are not in the target's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The branch.
    pub branch: OpenBranch,
    /// Its steps, oldest first.
    pub steps: Vec<CandidateStep>,
    /// The commits of the target that are not in the branch's history.
    pub beside: BTreeSet<CommitId>,
    /// Something was merged into it.
    pub has_merges: bool,
}

/// What the steps on a target and on the branches ahead of it say about a tree.
///
/// Steps count from the newest run-start of the tree on, those that name another tree never; one that names none counts
/// for every file. Ad-hoc tasks have no run-start. Where a run was started in two clones, both starts are its start. A step is its message and its
/// date: copies count once, where they are found first, looking at the target, then at phases, then at tasks. The
/// branch of a task counts for that task alone. A branch whose newest step is there already is closed: what it has
/// beyond is left over from work that landed in another shape.
pub fn fold(target: &[CandidateStep], branches: &[Chain], tree: &TreeName) -> Progress {
    let of_tree = |seen: &CandidateStep| tree.has_step(&seen.found.step);
    let starts = |seen: &&CandidateStep| seen.found.step.kind == StepKind::RunStart && of_tree(seen);
    let run_starts = standing(&target.iter().filter(starts).collect::<Vec<_>>());
    let counts = |seen: &CandidateStep| {
        let begun = run_starts.iter().any(|start| seen.runs.contains(&start.commit)) || run_starts.is_empty();
        seen.found.step.kind != StepKind::RunStart && of_tree(seen) && begun && seen.in_scope
    };
    let mut line =
        without_copies(target.iter().filter(|seen| counts(seen)).map(|seen| Arc::clone(&seen.found)).collect());
    let by_short_id = target.iter().filter(|seen| seen.form == BranchNaming::ShortId && counts(seen)).count();
    let mut open = Vec::new();
    let on_target = target.iter().filter(|_| !branches.is_empty());
    let mut prints: BTreeSet<u64> = on_target.map(|seen| seen.found.print).collect();
    let mut chains: Vec<&Chain> = branches.iter().collect();
    chains.sort_by(|one, two| one.branch.place.cmp(&two.branch.place));
    for chain in chains {
        // A task's branch also has what it was built on. Where nobody else has that any more, somebody dropped it.
        let is_own = |seen: &&CandidateStep| match &chain.branch.place {
            StepPlace::Task(task) => seen.found.step.task.as_ref() == Some(task),
            StepPlace::Phase(_) | StepPlace::Target => true,
        };
        // What somebody merged into a phase may be newer than all of its own, and is there already.
        let is_mixed = chain.has_merges && matches!(chain.branch.place, StepPlace::Phase(_));
        let newest = chain.steps.iter().rev().find(is_own);
        if !is_mixed && newest.is_none_or(|newest| prints.contains(&newest.found.print)) {
            continue;
        }
        let steps = counting(&chain.steps, &|seen| is_own(&seen) && counts(seen), &mut prints);
        if !steps.is_empty() {
            open.push(chain.branch.clone());
            line = merged(line, steps, chain);
        }
    }
    let mut progress = Progress { run_starts, open, by_short_id, ..Progress::default() };
    // A task's steps mostly are together, so it is looked up once for all of them.
    for steps in line.chunk_by(|one, two| one.step.task == two.step.task) {
        progress.apply(steps);
    }
    for state in progress.tasks.values_mut() {
        settle(state);
    }
    progress
}

impl Progress {
    /// Takes in a step that has just landed on the target, without reading anything again. One that was known from its
    /// branch is known to have landed now.
    pub fn take(&mut self, found: StepCommit) {
        let Some(task) = found.step.task.clone() else { return };
        let same = self.tasks.get_mut(&task).and_then(|state| {
            let at = state.steps.iter().rposition(|step| step.print == found.print)?;
            Some((state, at))
        });
        match same {
            Some((state, at)) => {
                state.landed = at + 1 == state.steps.len() || state.landed;
                state.steps[at] = Arc::new(found);
            }
            None => {
                self.apply(&[Arc::new(found)]);
                self.tasks.get_mut(&task).map(settle).unwrap_or_default();
            }
        }
    }

    /// Takes in steps of one task.
    fn apply(&mut self, steps: &[Arc<StepCommit>]) {
        let Some(task) = steps.first().and_then(|found| found.step.task.as_ref()) else { return };
        if !self.tasks.contains_key(task) {
            self.tasks.insert(task.clone(), TaskState::default());
        }
        let Some(state) = self.tasks.get_mut(task) else { return };
        state.apply(steps);
        self.not_before = steps.iter().map(|found| next_date(found)).fold(self.not_before, Timestamp::max);
        self.steps += steps.len();
        state.newest = self.steps;
    }
}

impl TaskState {
    /// What some steps of a task say.
    pub(super) fn of(steps: &[Arc<StepCommit>]) -> Self {
        let mut state = Self::default();
        state.apply(steps);
        settle(&mut state);
        state
    }

    fn apply(&mut self, steps: &[Arc<StepCommit>]) {
        let mut attempt = std::mem::take(&mut self.now);
        for found in steps {
            attempt.apply(self, found);
            apply(self, Arc::clone(found));
        }
        self.now = attempt;
    }
}

/// The starts of runs that no other was built on.
fn standing(starts: &[&CandidateStep]) -> Vec<Arc<StepCommit>> {
    let is_taken_over = |start: &CandidateStep| starts.iter().any(|other| other.runs.contains(&start.found.commit));
    starts.iter().filter(|start| !is_taken_over(start)).map(|start| Arc::clone(&start.found)).collect()
}

/// The steps without those that are copies of an earlier one.
fn without_copies(mut steps: Vec<Arc<StepCommit>>) -> Vec<Arc<StepCommit>> {
    let mut prints: Vec<u64> = steps.iter().map(|found| found.print).collect();
    prints.sort_unstable();
    // Nearly always there are none, and then nothing is looked up.
    let mut copied: BTreeMap<u64, bool> =
        prints.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| (pair[0], false)).collect();
    if !copied.is_empty() {
        steps.retain(|found| copied.get_mut(&found.print).is_none_or(|seen| !std::mem::replace(seen, true)));
    }
    steps
}

/// The steps that count and are no copies of ones seen before.
fn counting(
    steps: &[CandidateStep],
    counts: &dyn Fn(&CandidateStep) -> bool,
    prints: &mut BTreeSet<u64>,
) -> Vec<Arc<StepCommit>> {
    let fresh = |seen: &&CandidateStep| counts(seen) && prints.insert(seen.found.print);
    steps.iter().filter(fresh).map(|seen| Arc::clone(&seen.found)).collect()
}

/// Puts the steps of a branch among the others: behind all it was built on, and by date among those made on the target
/// since; one of those wins against a step of the same second, because its author knew the branch.
fn merged(line: Vec<Arc<StepCommit>>, steps: Vec<Arc<StepCommit>>, chain: &Chain) -> Vec<Arc<StepCommit>> {
    let began = steps.first().map(|step| step.at);
    // Where something was merged into the branch, only dates tell what was there before its first step.
    let is_below = |found: &StepCommit| !chain.has_merges || began.is_none_or(|began| found.at < began);
    let below = |found: &Arc<StepCommit>| {
        found.on == StepPlace::Target && !chain.beside.contains(&found.commit) && is_below(found)
    };
    let from = line.iter().rposition(below).map_or(0, |last| last + 1);
    let mut merged = line;
    let mut rest = merged.split_off(from).into_iter().peekable();
    for step in steps {
        let is_older = |other: &Arc<StepCommit>| match other.on {
            StepPlace::Target => other.at < step.at,
            StepPlace::Phase(_) | StepPlace::Task(_) => other.at <= step.at,
        };
        while let Some(other) = rest.next_if(is_older) {
            merged.push(other);
        }
        merged.push(step);
    }
    merged.extend(rest);
    merged
}

/// The earliest date of a step after another. What is decided about a task on the target wins against a step of the
/// same second on a branch, and deciding the same once more in one second would look like a copy. A task that failed on
/// the branch of its phase may be done on that of another, and only dates tell which was later.
fn next_date(found: &StepCommit) -> Timestamp {
    let step = &found.step;
    let gave_up = TaskStatus::after(step) == TaskStatus::Failed && matches!(found.on, StepPlace::Phase(_));
    let decided = step.kind == StepKind::Reset || step.skipped || gave_up;
    let apart = if decided { 1.second() } else { 0.seconds() };
    found.at.checked_add(apart).unwrap_or(found.at)
}

fn apply(state: &mut TaskState, found: Arc<StepCommit>) {
    let step = &found.step;
    state.status = TaskStatus::after(step);
    state.landed = !matches!(found.on, StepPlace::Task(_));
    state.untested = step.untested;
    state.skipped = step.skipped;
    state.steps.push(found);
}

/// Sets the fields that only the newest step decides.
fn settle(state: &mut TaskState) {
    let newest_first = || state.steps.iter().rev().map(|found| &found.step);
    let session = newest_first().find_map(|step| step.session.clone());
    let name_then = newest_first().find_map(|step| step.name.clone());
    (state.session, state.name_then) = (session, name_then);
}

impl AttemptNow {
    fn apply(&mut self, state: &mut TaskState, found: &StepCommit) {
        let step = &found.step;
        let completed = std::mem::take(&mut self.completed);
        match step.kind {
            StepKind::RunStart => {}
            StepKind::Reset => self.end(state),
            StepKind::Complete if !step.passed => self.end(state),
            StepKind::Complete => {
                if !step.skipped && state.unfinished > 0 {
                    self.completed = state.unfinished + 1;
                    self.count(state);
                }
                // Should the landing find it broken, that is still the result of the same attempt.
                self.has_result = true;
                state.unfinished = 0;
            }
            StepKind::Implement | StepKind::Test | StepKind::Review | StepKind::Custom(_) => {
                if self.has_result && (step.kind == StepKind::Implement || step.retry != self.retry) {
                    self.has_result = false;
                }
                if state.unfinished > 0 && !self.has_result && step.retry != self.retry {
                    // The attempt before was cut off: its number was given to nobody else, so it does not count.
                    state.unfinished = 0;
                }
                self.retry = step.retry;
                if self.has_result && step.passed && completed > 0 {
                    // Somebody has changed what was completed: it is checked again, and has no result until then.
                    self.has_result = false;
                    state.unfinished = completed;
                    (state.attempts, state.in_budget) = (state.attempts - 1, state.in_budget - 1);
                }
                if self.has_result {
                    return;
                }
                if step.passed {
                    state.unfinished += 1;
                } else {
                    self.count(state);
                }
            }
        }
    }

    /// The attempt has its result.
    fn count(&mut self, state: &mut TaskState) {
        self.has_result = true;
        state.unfinished = 0;
        state.attempts += 1;
        state.in_budget += 1;
    }

    /// The next step starts an attempt and a budget.
    fn end(&mut self, state: &mut TaskState) {
        *self = Self::default();
        state.unfinished = 0;
        state.in_budget = 0;
    }
}
