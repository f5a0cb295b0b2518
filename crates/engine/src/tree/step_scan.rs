//! Finds the step commits of a history, with facts known only while walking it: which runs they belong to, and whether
//! they are before the fork from the base branch.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use git::{CommitText, HistoryCommit, HistoryParent};
use pleach_core::ids::{CommitId, SessionId, TaskId};
use pleach_core::progress::{BranchNaming, CandidateStep, StepCommit, StepPlace, print};
use pleach_core::step::{Step, StepKind};
use pleach_core::trailer::{CommitMessage, TurnFacts};

/// The run starts in a commit's history.
pub type Runs = Arc<BTreeSet<CommitId>>;

/// The steps of a target's history up to some commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepScan {
    /// That commit.
    pub tip: CommitId,
    /// All step commits made for the target, of any tree, oldest first.
    pub steps: Vec<CandidateStep>,
    /// All run starts among them, since the tip descends from each.
    pub runs: Runs,
    /// Where steps of the older form count.
    pub scope: ScanScope,
    /// Where the history is cut off, if it is.
    pub cut: Option<Cut>,
}

/// A history cut off by a shallow clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The run starts that have every cut-off point below them, so that everything since is available.
    pub whole: BTreeSet<CommitId>,
}

impl Cut {
    /// The cut of a history; `None` if it is complete. A run start that has a cut-off point outside its history is not
    /// listed: a merge after it may have brought in commits that are missing.
    pub fn of(commits: &[HistoryCommit], runs: &Runs) -> Option<Self> {
        commits.iter().find(|commit| commit.cut_off)?;
        let is_below = |start: CommitId| {
            let below = below(commits, start);
            commits.iter().zip(below).all(|(commit, below)| below || !commit.cut_off)
        };
        Some(Self { whole: runs.iter().copied().filter(|start| is_below(*start)).collect() })
    }
}

/// Where in a history steps of the older form count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ScanScope {
    /// There are none.
    Unneeded,
    /// Everywhere: the target is the base branch itself, or has no common history with it.
    All,
    /// Only in commits that are not in this commit's history.
    After(CommitId),
}

/// The steps of a part of a history.
#[derive(Debug)]
pub(crate) struct ScannedSteps {
    /// The steps, oldest first, each with its index in that part.
    pub steps: Vec<(usize, CandidateStep)>,
    /// The run starts in the last commit's history, itself included.
    pub runs: Runs,
    /// Whether a step does not name the target in full, so that it only counts in some scope.
    pub needs_scope: bool,
}

/// The names of a target in subjects.
#[derive(Debug, Clone, Copy)]
pub struct Names<'t> {
    /// Its name.
    pub branch: &'t str,
    /// Its short id, if steps may use it.
    pub short_id: Option<&'t str>,
}

impl<'t> Names<'t> {
    /// A target known only by its name.
    pub fn branch(branch: &'t str) -> Self {
        Self { branch, short_id: None }
    }
}

/// Whether a message may be a step of a target: checks only its first bytes, because nearly all commits are not.
pub(crate) fn is_candidate(message: &[u8], target: Names<'_>) -> bool {
    let Some(rest) = message.trim_ascii_start().strip_prefix(b"task(") else { return false };
    let is_named = |name: &str| rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"@"));
    let named = is_named(target.branch) || target.short_id.is_some_and(is_named);
    named || rest.iter().find(|byte| !is_id(**byte)) == Some(&b')')
}

/// Whether a message is that of a turn. Its first parent is the commit it was made on; the other is an agent's own
/// commit, which is never a step, whatever it says.
pub(crate) fn is_turn(message: &[u8]) -> bool {
    turn(message).is_some()
}

/// The facts of a turn, if the message is that of one.
pub fn turn(message: &[u8]) -> Option<TurnFacts> {
    TurnFacts::read(&CommitMessage::read(&String::from_utf8_lossy(message)))
}

fn is_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// Extracts the steps from a part of a history. `outside` gives the runs of a commit the part starts on. Steps with the
/// target's short id count as long as none uses its name: after that they belong to another branch.
pub fn gather<E>(
    commits: &[HistoryCommit],
    on: &StepPlace,
    target: Names<'_>,
    outside: &mut dyn FnMut(CommitId) -> Result<Runs, E>,
) -> Result<ScannedSteps, E> {
    let none = Runs::default();
    let mut all: Vec<Runs> = Vec::with_capacity(commits.len());
    let mut gathered = ScannedSteps { steps: Vec::new(), runs: none.clone(), needs_scope: false };
    let mut target = target;
    for (place, commit) in commits.iter().enumerate() {
        let mut runs: Option<Runs> = None;
        for parent in &commit.parents {
            let of_parent = match parent {
                HistoryParent::Passed(place) => Arc::clone(&all[*place]),
                HistoryParent::Outside(id) => outside(*id)?,
            };
            runs = Some(match runs {
                None => of_parent,
                Some(runs) if Arc::ptr_eq(&runs, &of_parent) || of_parent.is_subset(&runs) => runs,
                Some(runs) => Arc::new(runs.union(&of_parent).copied().collect()),
            });
        }
        let mut runs = runs.unwrap_or_else(|| none.clone());
        let read = commit.kept.as_ref().and_then(|kept| read(commit.id, kept, on, target));
        if let Some((found, form)) = read {
            gathered.needs_scope |= form != BranchNaming::Branch;
            if form == BranchNaming::Branch {
                target.short_id = None;
            }
            let is_start = found.step.kind == StepKind::RunStart;
            let found = Arc::new(found);
            gathered.steps.push((place, CandidateStep { found, runs: Arc::clone(&runs), in_scope: true, form }));
            if is_start {
                runs = Arc::new(runs.iter().copied().chain([commit.id]).collect());
            }
        }
        all.push(runs);
    }
    gathered.runs = all.pop().unwrap_or(none);
    if commits.iter().any(|commit| commit.parents.len() > 1) {
        gathered.steps = by_date(commits, gathered.steps);
        tell_beside(commits, &mut gathered.steps);
    }
    Ok(gathered)
}

/// Whether a step is a decision about a task, rather than work on it.
fn is_decision(step: &Step) -> bool {
    step.kind == StepKind::Reset || step.skipped
}

/// Marks the newest runs of gates with the tasks they ran without, even those whose steps are older by date.
fn tell_beside(commits: &[HistoryCommit], steps: &mut [(usize, CandidateStep)]) {
    // A task's tests run in a session that has other steps as well.
    let others = steps.iter().map(|(_, seen)| &seen.found.step).filter(|step| step.kind != StepKind::Test);
    let of_tasks: BTreeSet<SessionId> = others.filter_map(|step| step.session.clone()).collect();
    let mut newest = BTreeMap::new();
    for (at, (_, seen)) in steps.iter().enumerate() {
        let step = &seen.found.step;
        let is_run = step.kind == StepKind::Test && step.session.as_ref().is_some_and(|id| !of_tasks.contains(id));
        if let Some(task) = step.task.clone().filter(|_| is_run) {
            newest.insert(task, at);
        }
    }
    for at in newest.into_values() {
        let below = below(commits, steps[at].1.found.commit);
        let is_below = |(place, _): &&(usize, CandidateStep)| below[*place];
        let known: BTreeSet<u64> = steps[..at].iter().filter(is_below).map(|(_, seen)| seen.found.print).collect();
        // Decisions change no file.
        let is_other = |seen: &CandidateStep| !is_decision(&seen.found.step) && !known.contains(&seen.found.print);
        let others = steps[..at].iter().filter(|(place, seen)| !below[*place] && is_other(seen));
        let beside: BTreeSet<TaskId> = others.filter_map(|(_, seen)| seen.found.step.task.clone()).collect();
        if !beside.is_empty() {
            Arc::make_mut(&mut steps[at].1.found).beside = beside;
        }
    }
}

/// Sorts steps in the order of their commits, and by date if neither is built on the other: merged steps may be older
/// than a decision made meanwhile. A decision wins against a step of the same second, because its author knew of the
/// step.
fn by_date(commits: &[HistoryCommit], steps: Vec<(usize, CandidateStep)>) -> Vec<(usize, CandidateStep)> {
    let mut steps: BTreeMap<usize, CandidateStep> = steps.into_iter().collect();
    let parents = |commit: &HistoryCommit| {
        let places = commit.parents.iter().filter_map(|parent| match parent {
            HistoryParent::Passed(place) => Some(*place),
            HistoryParent::Outside(_) => None,
        });
        places.collect::<Vec<_>>()
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); commits.len()];
    let mut missing: Vec<usize> = Vec::with_capacity(commits.len());
    for (place, commit) in commits.iter().enumerate() {
        let parents = parents(commit);
        missing.push(parents.len());
        parents.into_iter().for_each(|parent| children[parent].push(place));
    }
    // A commit that is not a step waits only for its parents.
    let mut free: Vec<usize> = (0..commits.len()).rev().filter(|place| missing[*place] == 0).collect();
    let mut waiting = BinaryHeap::new();
    let mut ordered = Vec::with_capacity(steps.len());
    loop {
        let place = match free.pop() {
            Some(place) => match steps.get(&place) {
                Some(CandidateStep { found, .. }) => {
                    waiting.push(Reverse((found.at, is_decision(&found.step), place)));
                    continue;
                }
                None => place,
            },
            None => match waiting.pop() {
                Some(Reverse((_, _, place))) => {
                    ordered.extend(steps.remove(&place).map(|seen| (place, seen)));
                    place
                }
                None => return ordered,
            },
        };
        for child in &children[place] {
            missing[*child] -= 1;
            if missing[*child] == 0 {
                free.push(*child);
            }
        }
    }
}

/// The step of a commit, and how it names the target. A step that does not name it in full counts only on the target.
pub fn read(
    commit: CommitId,
    kept: &CommitText,
    on: &StepPlace,
    target: Names<'_>,
) -> Option<(StepCommit, BranchNaming)> {
    let message = CommitMessage::read(&String::from_utf8_lossy(&kept.message));
    let by_short_id = || target.short_id.and_then(|id| Step::read(&message, id));
    let (step, form) = match Step::read(&message, target.branch) {
        Some(step) => (step, BranchNaming::Branch),
        None if *on == StepPlace::Target => match by_short_id() {
            Some(step) => (step, BranchNaming::ShortId),
            None => (Step::read_old(&message)?, BranchNaming::Nothing),
        },
        None => return None,
    };
    let keeps_body = !step.passed || step.kind == StepKind::Reset;
    let found = StepCommit {
        commit,
        at: Timestamp::from_second(kept.seconds).unwrap_or(Timestamp::UNIX_EPOCH),
        step,
        body: if keeps_body { message.body } else { String::new() },
        on: on.clone(),
        print: print(&kept.message, kept.seconds, kept.offset),
        beside: BTreeSet::new(),
    };
    Some((found, form))
}

/// Makes steps that do not name the target in full count only above `base`, outside the base branch's history.
pub fn limit(commits: &[HistoryCommit], steps: &mut [(usize, CandidateStep)], base: CommitId) {
    let below = below(commits, base);
    for (place, seen) in steps {
        seen.in_scope = !(seen.form != BranchNaming::Branch && below[*place]);
    }
}

/// Which commits are in the history of `top`, itself included.
fn below(commits: &[HistoryCommit], top: CommitId) -> Vec<bool> {
    let mut below = vec![false; commits.len()];
    for (place, commit) in commits.iter().enumerate().rev() {
        below[place] |= commit.id == top;
        if below[place] {
            for parent in &commit.parents {
                if let HistoryParent::Passed(parent) = parent {
                    below[*parent] = true;
                }
            }
        }
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lands_is_read_as_the_history_is() {
        let commit = CommitId::from_bytes([7; 20]);
        let kept = |message: &str, offset| CommitText { seconds: 60, offset, message: message.as_bytes().to_vec() };
        let gathered = |kept: &CommitText, on: &StepPlace| {
            let passed = HistoryCommit { id: commit, parents: Vec::new(), kept: Some(kept.clone()), cut_off: false };
            let nothing = &mut |_| Ok::<_, ()>(Runs::default());
            let steps = gather(&[passed], on, Names::branch("main"), nothing).unwrap().steps;
            steps.into_iter().next().map(|(_, seen)| (seen.found.as_ref().clone(), seen.form))
        };
        let trailers = "Arborist-Step: test\nArborist-Test: fail\n";
        let step = format!("task(main@T1@test-fail): tests fail for \"N\"\n\nWhy.\n\n{trailers}");
        let older = format!("task(T1): tests fail for \"N\"\n\nWhy.\n\n{trailers}");
        let passed = "task(main@T1@implement-pass): implement \"N\"\n\nHow.\n\nArborist-Step: implement\n";
        let places = [StepPlace::Target, StepPlace::Task("T1".parse().unwrap())];
        for message in [&step, &older, passed, "Mend it\n"] {
            for on in &places {
                let kept = kept(message, 3600);
                assert_eq!(read(commit, &kept, on, Names::branch("main")), gathered(&kept, on), "{message} {on:?}");
            }
        }
        let [target, branch] = &places;
        let (found, form) = read(commit, &kept(&step, 0), target, Names::branch("main")).unwrap();
        assert_eq!((found.body.as_str(), &found.on, form), ("Why.", target, BranchNaming::Branch));
        assert_ne!(found.print, read(commit, &kept(&step, 3600), target, Names::branch("main")).unwrap().0.print);
        assert_eq!(read(commit, &kept(passed, 0), target, Names::branch("main")).unwrap().0.body, "", "nobody is told");
        assert_eq!(read(commit, &kept(&older, 0), target, Names::branch("main")).unwrap().1, BranchNaming::Nothing);
        assert_eq!(read(commit, &kept(&older, 0), branch, Names::branch("main")), None, "it names no branch");
    }

    #[test]
    fn a_short_id_counts_until_the_branch_is_named() {
        let step = |name: &str, task: &str| {
            format!("task({name}@{task}@complete): complete \"N\"\n\nArborist-Step: complete\nArborist-Result: pass\n")
        };
        let passed = |at: u8, message: String| HistoryCommit {
            id: CommitId::from_bytes([at; 20]),
            parents: if at == 0 { Vec::new() } else { vec![HistoryParent::Passed(usize::from(at) - 1)] },
            kept: Some(CommitText { seconds: 60, offset: 0, message: message.into_bytes() }),
            cut_off: false,
        };
        let history = [step("os-4", "T0"), step("os-47", "T1"), step("feature/os-47-x", "T2"), step("os-47", "T3")];
        let history: Vec<HistoryCommit> = (0..).zip(history).map(|(at, message)| passed(at, message)).collect();
        let names = Names { branch: "feature/os-47-x", short_id: Some("os-47") };
        let nothing = &mut |_| Ok::<_, ()>(Runs::default());
        let gathered = gather(&history, &StepPlace::Target, names, nothing).unwrap();
        let steps: Vec<_> = gathered
            .steps
            .iter()
            .map(|(_, seen)| (seen.found.step.task.as_ref().unwrap().as_str(), seen.form))
            .collect();
        assert_eq!(steps, [("T1", BranchNaming::ShortId), ("T2", BranchNaming::Branch)]);
        assert!(gathered.needs_scope);
    }
}
