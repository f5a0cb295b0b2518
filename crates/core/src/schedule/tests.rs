//! Runs over small trees, by hand and at random, against commits folded as those of a real run.

mod parallel;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::blockers::Blockers;
use super::leaf_state::{DependencyLevel, GateState, LeafState};
use super::*;
use crate::ids::{BranchName, CommitId};
use crate::progress::{
    BranchNaming, CandidateStep, Chain, OpenBranch, StepCommit, StepPlace, StrandedWork, TaskState, TaskStatus, fold,
};
use crate::step::{Step, StepKind, TreeName};

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

/// A tree from lines `id parent depends,on [gate]`, with `-` for nothing; the given order, if any, limits the leaves.
fn tree(lines: &[&str], order: Option<&[&str]>) -> Arc<TaskTree> {
    let mut nodes = serde_json::Map::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let depends_on: Vec<&str> = words[2].split(',').filter(|word| *word != "-").collect();
        let parent = Some(words[1]).filter(|word| *word != "-");
        let gate = words.get(3).map(|_| json!({"type": "integration", "command": "make check"}));
        let tests: Vec<Value> = gate.into_iter().collect();
        let children: Vec<&str> =
            lines.iter().filter(|other| other.split(' ').nth(1) == Some(words[0])).map(|other| first(other)).collect();
        let node = json!({"id": words[0], "name": words[0], "parent": parent, "children": children,
                          "depends_on": depends_on, "test_commands": tests});
        nodes.insert(words[0].to_owned(), node);
    }
    let mut tree = json!({"nodes": nodes});
    if let Some(order) = order {
        tree["execution_order"] = json!(order);
    }
    Arc::new(TaskTree::read(&tree.to_string()).unwrap())
}

fn first(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

/// The commits of a run, where they are.
#[derive(Default)]
struct World {
    phase_mode: bool,
    target: Vec<CandidateStep>,
    phases: BTreeMap<TaskId, Vec<CandidateStep>>,
    tasks: BTreeMap<TaskId, Vec<CandidateStep>>,
    clock: u32,
}

impl World {
    fn step(&mut self, task: &TaskId, kind: StepKind, passed: bool, retry: u32, on: StepPlace) -> CandidateStep {
        self.clock += 1;
        let mut bytes = [0; 20];
        bytes[..4].copy_from_slice(&self.clock.to_be_bytes());
        let mut step = Step::new(Some(task.clone()), kind, passed);
        step.retry = Some(retry);
        let found = StepCommit {
            commit: CommitId::from_bytes(bytes),
            at: Timestamp::from_second(i64::from(self.clock)).unwrap(),
            step,
            body: String::new(),
            on,
            print: u64::from(self.clock),
            beside: Default::default(),
        };
        CandidateStep { found: Arc::new(found), runs: Arc::default(), in_scope: true, form: BranchNaming::Branch }
    }

    fn on_branch(&mut self, task: &str, kind: StepKind, passed: bool, retry: u32) {
        let step = self.step(&id(task), kind, passed, retry, StepPlace::Task(id(task)));
        self.tasks.entry(id(task)).or_default().push(step);
    }

    /// An attempt that came so far and no further.
    fn attempt(&mut self, task: &str, retry: u32, steps: &[(StepKind, bool)]) {
        for (kind, passed) in steps {
            self.on_branch(task, kind.clone(), *passed, retry);
        }
    }

    fn complete(&mut self, tree: &Arc<TaskTree>, task: &str) {
        self.attempt(task, 0, &PASSED);
        self.land(tree, &id(task));
    }

    fn fail(&mut self, tree: &Arc<TaskTree>, task: &str, attempts: u32) {
        for retry in 0..attempts {
            self.attempt(task, retry, &[(StepKind::Implement, true), (StepKind::Test, false)]);
        }
        self.on_branch(task, StepKind::Complete, false, 0);
        self.land(tree, &id(task));
    }

    fn land(&mut self, tree: &Arc<TaskTree>, task: &TaskId) {
        let steps = self.tasks.remove(task).unwrap_or_default();
        let phase = tree.phase_of(task).clone();
        if phase != *task && self.schedule(tree).gathers(&phase) {
            let on = StepPlace::Phase(phase.clone());
            self.phases.entry(phase).or_default().extend(steps.iter().map(|seen| moved(seen, &on)));
        } else {
            self.target.extend(steps.iter().map(|seen| moved(seen, &StepPlace::Target)));
        }
    }

    fn gate(&mut self, tree: &Arc<TaskTree>, gate: &TaskId, passed: bool) {
        let phase = tree.phase_of(gate).clone();
        let on = if self.schedule(tree).is_ahead(&phase) { StepPlace::Phase(phase.clone()) } else { StepPlace::Target };
        let step = self.step(gate, StepKind::Test, passed, 0, on.clone());
        if on == StepPlace::Target { self.target.push(step) } else { self.phases.entry(phase).or_default().push(step) }
    }

    fn schedule(&self, tree: &Arc<TaskTree>) -> Schedule {
        let isolation = if self.phase_mode { Isolation::Phase } else { Isolation::None };
        Schedule::new(tree, &self.progress(), ScheduleOptions { isolation, ..ScheduleOptions::default() })
    }

    fn merge(&mut self, phase: &TaskId) {
        let steps = self.phases.remove(phase).unwrap_or_default();
        self.target.extend(steps.iter().map(|seen| moved(seen, &StepPlace::Target)));
    }

    fn progress(&self) -> Progress {
        let chain = |place: StepPlace, steps: &Vec<CandidateStep>| Chain {
            branch: OpenBranch { name: BranchName::new("b").unwrap(), place, tip: steps[0].found.commit },
            steps: steps.clone(),
            beside: self.target.iter().map(|seen| seen.found.commit).collect(),
            has_merges: false,
        };
        let phases = self.phases.iter().map(|(phase, steps)| chain(StepPlace::Phase(phase.clone()), steps));
        let tasks = self.tasks.iter().map(|(task, steps)| chain(StepPlace::Task(task.clone()), steps));
        fold(&self.target, &phases.chain(tasks).collect::<Vec<_>>(), &TreeName::File(String::new()))
    }

    fn next(&self, tree: &Arc<TaskTree>, limits: &ScheduleOptions) -> NextAction {
        next(tree, &self.progress(), limits)
    }
}

const PASSED: [(StepKind, bool); 4] =
    [(StepKind::Implement, true), (StepKind::Test, true), (StepKind::Review, true), (StepKind::Complete, true)];

fn moved(seen: &CandidateStep, on: &StepPlace) -> CandidateStep {
    let found = StepCommit { on: on.clone(), ..(*seen.found).clone() };
    CandidateStep { found: Arc::new(found), ..seen.clone() }
}

fn work(task: &str, number: u32, retry: u32) -> NextAction {
    NextAction::Work { task: id(task), attempt: AttemptNumber { number, of: 5 }, retry }
}

fn only(task: &str) -> ScheduleOptions {
    ScheduleOptions { only: Some(id(task)), ..ScheduleOptions::default() }
}

fn stalled(next: NextAction) -> Vec<String> {
    match next {
        NextAction::Stalled(blocked) => blocked.iter().map(Blocked::to_string).collect(),
        other => panic!("not a stall: {other:?}"),
    }
}

const DIAMOND: [&str; 4] = ["A - -", "B - A", "C - A", "D - B,C"];

#[test]
fn a_run_reaches_requested_tasks_and_waiting_landings() {
    let tree = tree(&["A - -", "B - -", "C - B", "D - -", "E - -", "F - -"], Some(&["A", "B", "C", "D", "E"]));
    let mut world = World::default();
    world.on_branch("A", StepKind::Complete, true, 0);
    for (task, passed) in [("D", true), ("E", false)] {
        let step = world.step(&id(task), StepKind::Complete, passed, 0, StepPlace::Target);
        world.target.push(step);
    }
    let comes_to = |only: Option<&str>, retry_failed| {
        let limits = ScheduleOptions { only: only.map(id), retry_failed, ..ScheduleOptions::default() };
        let schedule = Schedule::new(&tree, &world.progress(), limits);
        ["A", "B", "C", "D", "E", "F", "G"]
            .into_iter()
            .filter(|task| schedule.may_come_to(&id(task)))
            .collect::<String>()
    };
    assert_eq!(comes_to(None, false), "ABC");
    assert_eq!(comes_to(None, true), "ABCE");
    assert_eq!(comes_to(Some("C"), false), "AC");
    assert_eq!(comes_to(Some("D"), true), "A");
    assert_eq!(comes_to(Some("E"), true), "AE");
}

#[test]
fn a_diamond_is_worked_from_its_top() {
    let tree = tree(&DIAMOND, None);
    let mut world = World::default();
    let mut schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    let mut ready = Vec::new();
    for task in ["A", "B", "C", "D"] {
        ready.push(schedule.ready().map(TaskId::as_str).collect::<Vec<_>>().join(" "));
        assert_eq!(schedule.next(), work(task, 1, 0));
        world.complete(&tree, task);
        schedule.update(&world.progress(), &id(task));
    }
    assert_eq!(ready, ["A", "B C", "C", "D"]);
    assert_eq!(schedule.next(), NextAction::Done);
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), NextAction::Done, "the next run has nothing to do");
}

const PHASES: [&str; 5] = ["p1 - - gate", "A p1 -", "p2 - p1", "B p2 -", "C - -"];

#[test]
fn a_red_phase_blocks_its_dependents() {
    let tree = tree(&PHASES, Some(&["A", "B", "C"]));
    let mut world = World::default();
    world.complete(&tree, "A");
    let mut schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    assert_eq!(schedule.next(), NextAction::Gate(id("p1")));
    assert_eq!(schedule.ready().collect::<Vec<_>>(), [&id("C")], "B waits for the gate");
    world.gate(&tree, &id("p1"), true);
    schedule.update(&world.progress(), &id("p1"));
    assert_eq!(schedule.next(), work("B", 1, 0));
}

#[test]
fn a_red_gate_ends_the_run_and_runs_first_next() {
    let tree = tree(&PHASES, None);
    let mut world = World::default();
    world.complete(&tree, "A");
    world.gate(&tree, &id("p1"), false);
    for limits in [ScheduleOptions::default(), only("C")] {
        let mut schedule = Schedule::new(&tree, &world.progress(), limits);
        assert_eq!(schedule.next(), NextAction::Gate(id("p1")));
        world.gate(&tree, &id("p1"), false);
        schedule.update(&world.progress(), &id("p1"));
        assert_eq!(schedule.next(), NextAction::GateRed(id("p1")));
    }
}

#[test]
fn a_reopened_leaf_is_worked_and_its_gate_rerun() {
    let tree = tree(&PHASES, None);
    let mut world = World::default();
    world.complete(&tree, "A");
    world.gate(&tree, &id("p1"), true);
    let mut schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    let reset = world.step(&id("A"), StepKind::Reset, true, 0, StepPlace::Target);
    world.target.push(reset);
    schedule.update(&world.progress(), &id("A"));
    assert_eq!(schedule.next(), work("A", 1, 1));
    assert!(!schedule.ready().any(|task| *task == id("B")));
    world.complete(&tree, "A");
    schedule.update(&world.progress(), &id("A"));
    assert_eq!(schedule.next(), NextAction::Gate(id("p1")));
}

#[test]
fn a_gate_stays_stale_when_another_leaf_is_looked_at() {
    let tree = tree(&["p1 - - gate", "A p1 -", "B p1 -", "C - p1"], None);
    let mut world = World::default();
    world.complete(&tree, "A");
    world.complete(&tree, "B");
    world.gate(&tree, &id("p1"), true);
    let mut schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    assert_eq!(schedule.next(), work("C", 1, 0));
    let reset = world.step(&id("A"), StepKind::Reset, true, 0, StepPlace::Target);
    world.target.push(reset);
    for task in ["A", "B"] {
        schedule.update(&world.progress(), &id(task));
    }
    world.complete(&tree, "A");
    for task in ["A", "B"] {
        schedule.update(&world.progress(), &id(task));
    }
    assert_eq!(schedule.next(), NextAction::Gate(id("p1")));
    assert_eq!(schedule.ready().count(), 0, "C waits for the gate");
}

#[test]
fn gates_run_from_the_inside_out() {
    let tree = tree(&["p - - gate", "g p - gate", "A g -", "B p -"], None);
    let mut world = World::default();
    world.complete(&tree, "A");
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), NextAction::Gate(id("g")));
    world.complete(&tree, "B");
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), NextAction::Gate(id("g")));
    world.gate(&tree, &id("g"), true);
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), NextAction::Gate(id("p")));
    world.gate(&tree, &id("p"), true);
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), NextAction::Done);
}

#[test]
fn what_waits_to_land_comes_first() {
    let tree = tree(&PHASES, None);
    let mut world = World::default();
    world.complete(&tree, "A");
    world.gate(&tree, &id("p1"), false);
    world.attempt("C", 0, &PASSED);
    for limits in [ScheduleOptions::default(), only("B"), only("C")] {
        assert_eq!(world.next(&tree, &limits), NextAction::Land(id("C")));
    }
}

#[test]
fn a_task_that_waits_to_land_meets_no_dependency() {
    let tree = tree(&DIAMOND, None);
    let mut world = World::default();
    world.attempt("A", 0, &PASSED);
    let schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    assert_eq!(schedule.next(), NextAction::Land(id("A")));
    assert_eq!(schedule.ready().count(), 0);
}

#[test]
fn a_stall_names_what_blocks_what() {
    let tree = tree(&["A - -", "B - A", "C - B,X", "X - -"], Some(&["A", "B", "C"]));
    let mut world = World::default();
    world.fail(&tree, "A", 5);
    let reasons = stalled(world.next(&tree, &ScheduleOptions::default()));
    assert_eq!(reasons, ["B waits for A (failed)", "C waits for B (not done), X (not in execution_order)"]);
}

#[test]
fn a_phase_may_block_too() {
    let lines = ["p1 - - gate", "A p1 -", "X p1 -", "p2 - p1", "B p2 -", "p3 - -", "Y p3 -", "C - p3"];
    let tree = tree(&lines, Some(&["A", "B", "C"]));
    let mut world = World::default();
    world.fail(&tree, "A", 1);
    let reasons = stalled(world.next(&tree, &ScheduleOptions::default()));
    assert_eq!(reasons, ["B waits for p1 (A failed)", "C waits for p3 (not in execution_order)"]);
    let mut world = World::default();
    world.complete(&tree, "A");
    world.gate(&tree, &id("p1"), false);
    let schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    assert_eq!(schedule.next(), NextAction::Gate(id("p1")), "X is left out and does not hold up the gate");
    world.complete(&tree, "Y");
    world.gate(&tree, &id("p1"), true);
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), work("B", 1, 0));
}

#[test]
fn a_failed_task_ends_only_its_own_run() {
    let tree = tree(&["A - -", "B - -"], None);
    let mut world = World::default();
    let mut schedule = Schedule::new(&tree, &world.progress(), ScheduleOptions::default());
    for retry in 0..5 {
        assert_eq!(schedule.next(), work("A", retry + 1, retry));
        world.attempt("A", retry, &[(StepKind::Implement, false)]);
        schedule.update(&world.progress(), &id("A"));
    }
    let given_up = NextAction::GiveUp { task: id("A"), reason: GiveUpReason::OutOfAttempts };
    assert_eq!(schedule.next(), given_up);
    world.on_branch("A", StepKind::Complete, false, 0);
    schedule.update(&world.progress(), &id("A"));
    assert_eq!(schedule.next(), NextAction::Land(id("A")), "what was tried is told on the target");
    world.land(&tree, &id("A"));
    schedule.update(&world.progress(), &id("A"));
    assert_eq!(schedule.next(), NextAction::Failed(id("A")));
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), work("B", 1, 0));
    world.complete(&tree, "B");
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), NextAction::Failed(id("A")));
    assert_eq!(world.next(&tree, &only("A")), NextAction::Failed(id("A")));
}

#[test]
fn a_failed_task_gets_one_new_budget_per_run() {
    let tree = tree(&["A - -", "B - A"], None);
    let mut world = World::default();
    world.fail(&tree, "A", 2);
    let limits = ScheduleOptions { max_retries: 2, retry_failed: true, ..ScheduleOptions::default() };
    let mut schedule = Schedule::new(&tree, &world.progress(), limits.clone());
    for (number, retry) in [(1, 2), (2, 3)] {
        let attempt = AttemptNumber { number, of: 2 };
        assert_eq!(schedule.next(), NextAction::Work { task: id("A"), attempt, retry });
        world.attempt("A", retry, &[(StepKind::Implement, true), (StepKind::Review, false)]);
        schedule.update(&world.progress(), &id("A"));
    }
    assert!(matches!(schedule.next(), NextAction::GiveUp { .. }));
    let begun = ScheduleOptions { max_retries: 3, ..ScheduleOptions::default() };
    let goes_on = NextAction::Work { task: id("A"), attempt: AttemptNumber { number: 3, of: 3 }, retry: 4 };
    assert_eq!(world.next(&tree, &begun), goes_on, "a budget once opened goes on without being asked for");
    world.on_branch("A", StepKind::Complete, false, 0);
    schedule.update(&world.progress(), &id("A"));
    let later = Schedule::new(&tree, &world.progress(), limits.clone());
    world.land(&tree, &id("A"));
    schedule.update(&world.progress(), &id("A"));
    assert_eq!(schedule.next(), NextAction::Failed(id("A")), "not over and over in one run");
    assert_eq!(later.next(), NextAction::Land(id("A")));
    let mut later = later;
    later.update(&world.progress(), &id("A"));
    assert!(
        matches!(later.next(), NextAction::Work { retry: 4, .. }),
        "it had failed before that run: {:?}",
        later.next()
    );
}

#[test]
fn attempts_are_counted_over_restarts_and_only_with_a_result() {
    let tree = tree(&["A - -"], None);
    let mut world = World::default();
    for retry in 0..4 {
        world.attempt("A", retry, &[(StepKind::Implement, true), (StepKind::Test, false)]);
        assert_eq!(world.next(&tree, &ScheduleOptions::default()), work("A", retry + 2, retry + 1));
    }
    world.attempt("A", 4, &PASSED[..3]);
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), work("A", 5, 4), "approved but not yet complete");
    let fewer = ScheduleOptions { max_retries: 2, ..ScheduleOptions::default() };
    let finish = NextAction::Work { task: id("A"), attempt: AttemptNumber { number: 5, of: 5 }, retry: 4 };
    assert_eq!(world.next(&tree, &fewer), finish, "what is begun is finished");
    world.attempt("A", 4, &[(StepKind::Review, false)]);
    let given_up = NextAction::GiveUp { task: id("A"), reason: GiveUpReason::OutOfAttempts };
    assert_eq!(world.next(&tree, &ScheduleOptions::default()), given_up);
}

#[test]
fn a_chosen_task_is_worked_alone_and_names_blockers() {
    let lines = ["p - - gate", "A p -", "B p A", "C - B", "X - -"];
    let tree = tree(&lines, Some(&["A", "B", "C"]));
    let mut world = World::default();
    assert_eq!(stalled(world.next(&tree, &only("C"))), ["C waits for B (not done)"]);
    assert_eq!(stalled(world.next(&tree, &only("X"))), ["X is not in execution_order"]);
    assert_eq!(stalled(world.next(&tree, &only("p"))), ["p is not a task of this tree"]);
    assert_eq!(stalled(world.next(&tree, &only("nope"))), ["nope is not a task of this tree"]);
    world.complete(&tree, "A");
    assert_eq!(world.next(&tree, &only("A")), NextAction::Done);
    assert_eq!(world.next(&tree, &only("B")), work("B", 1, 0));
    world.complete(&tree, "B");
    assert_eq!(world.next(&tree, &only("B")), NextAction::Gate(id("p")), "its end brings the gate about");
    assert_eq!(world.next(&tree, &only("C")), work("C", 1, 0), "a gate that was never red is not C's");
    world.gate(&tree, &id("p"), true);
    assert_eq!(world.next(&tree, &only("B")), NextAction::Done);
}

#[test]
fn phases_are_merged_whole_and_start_with_all_they_need() {
    let lines = ["p1 - - gate", "A p1 -", "B p1 A", "p2 - -", "C p2 -", "D p2 B", "E - C"];
    let tree = tree(&lines, None);
    let limits = ScheduleOptions { isolation: Isolation::Phase, ..ScheduleOptions::default() };
    let mut world = World { phase_mode: true, ..World::default() };
    let mut schedule = Schedule::new(&tree, &world.progress(), limits.clone());
    let mut did = Vec::new();
    loop {
        let step = schedule.next();
        let (word, task) = match &step {
            NextAction::Work { task, .. } => ("work", task.clone()),
            NextAction::Gate(task) => ("gate", task.clone()),
            NextAction::MergePhase(task) => ("merge", task.clone()),
            _ => break,
        };
        match word {
            "work" => world.complete(&tree, task.as_str()),
            "gate" => world.gate(&tree, &task, true),
            _ => world.merge(&task),
        }
        did.push(format!("{word} {task}"));
        schedule.update(&world.progress(), &task);
    }
    let expected = "work A, work B, gate p1, merge p1, work C, work D, merge p2, work E";
    assert_eq!(did.join(", "), expected);
    assert_eq!(schedule.next(), NextAction::Done);
}

#[test]
fn in_phase_mode_a_phase_waits_for_a_merge() {
    let tree = tree(&["p1 - -", "A p1 -", "B p1 -", "p2 - -", "C p2 -", "D p2 A"], None);
    let limits = ScheduleOptions { isolation: Isolation::Phase, ..ScheduleOptions::default() };
    let mut world = World { phase_mode: true, ..World::default() };
    world.complete(&tree, "A");
    world.fail(&tree, "B", 1);
    let reasons = stalled(world.next(&tree, &limits));
    assert_eq!(reasons, ["C waits for A (its phase is not merged)", "D waits for A (its phase is not merged)"]);
    let NextAction::Stalled(blocked) = world.next(&tree, &limits) else { panic!("it can go on") };
    assert_eq!(blocked[0].waits_for[0].failed.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["B"]);
}

#[test]
fn a_stall_names_the_tasks_that_failed() {
    let tree = tree(&["p1 - -", "g1 p1 -", "A g1 -", "B g1 -", "C g1 -", "D p1 g1", "E - B"], None);
    let mut world = World::default();
    world.complete(&tree, "A");
    world.fail(&tree, "B", 1);
    world.fail(&tree, "C", 1);
    assert_eq!(
        stalled(world.next(&tree, &ScheduleOptions::default())),
        ["E waits for B (failed)", "D waits for g1 (B, C failed)"]
    );
}

/// A thousand tasks in ten phases, each phase waiting for the one before it task by task, with a gate each.
#[test]
fn a_thousand_tasks_are_all_scheduled() {
    let mut lines = Vec::new();
    for phase in 0..10 {
        lines.push(format!("p{phase} - - gate"));
        let earlier: Vec<String> = (0..100).map(|n| format!("T{}x{n}", phase - 1)).collect();
        let depends_on = if phase == 0 { "-".to_owned() } else { earlier.join(",") };
        lines.extend((0..100).map(|n| format!("T{phase}x{n} p{phase} {depends_on}")));
    }
    let mut nodes = serde_json::Map::new();
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let depends_on: Vec<&str> = words[2].split(',').filter(|word| *word != "-").collect();
        let mut node = json!({"id": words[0], "name": words[0], "depends_on": depends_on});
        if words[1] == "-" {
            node["test_commands"] = json!([{"type": "e2e", "command": "x"}]);
        } else {
            node["parent"] = json!(words[1]);
        }
        nodes.insert(words[0].to_owned(), node);
    }
    let tree = Arc::new(TaskTree::read(&json!({"nodes": nodes}).to_string()).unwrap());
    let open = |_: &TaskId| LeafState::Open { attempts: 0, in_budget: 0, begun: false, left_on: None };
    let mut schedule = Schedule::build(&tree, ScheduleOptions::default(), &open, &|_| GateState::default());
    let (mut tasks, mut gates) = (0, 0);
    loop {
        match schedule.next() {
            NextAction::Work { task, .. } => {
                schedule.set(&task, LeafState::Waiting { failed: false });
                tasks += 1;
            }
            NextAction::Land(task) => schedule.set(&task, LeafState::Complete { on_target: true }),
            NextAction::Gate(gate) => {
                schedule.set_gate(&gate, GateState { runs: 1, green: true, ..GateState::default() });
                gates += 1;
            }
            NextAction::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((tasks, gates), (1000, 10));
}

/// A tree at random: leaves in order, cut into phases, some with a group inside, some with gates, each waiting for what
/// came before it.
fn any_tree() -> impl Strategy<Value = Arc<TaskTree>> {
    let leaf = (any::<[bool; 6]>(), any::<bool>(), any::<bool>(), any::<u8>());
    proptest::collection::vec(leaf, 1..9).prop_map(|leaves| {
        let mut lines: Vec<String> = Vec::new();
        let mut earlier: Vec<String> = Vec::new();
        let (mut phase, mut group) = ("-".to_owned(), "-".to_owned());
        let mut order = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for (number, (depends, new_phase, new_group, chance)) in leaves.into_iter().enumerate() {
            let gate = if chance % 3 == 0 { " gate" } else { "" };
            let mut picks = depends.into_iter();
            if new_phase {
                seen.append(&mut earlier);
                phase = format!("p{number}");
                let on: Vec<String> =
                    seen.iter().rev().take(2).filter(|_| picks.next() == Some(true)).cloned().collect();
                let on = if on.is_empty() { "-".to_owned() } else { on.join(",") };
                lines.push(format!("{phase} - {on}{gate}"));
                seen.push(phase.clone());
                group.clone_from(&phase);
            } else if new_group && phase != "-" {
                group = format!("g{number}");
                lines.push(format!("{group} {phase} -{gate}"));
            }
            let picked = earlier.iter().chain(&seen).filter(|other| **other != phase && picks.next() == Some(true));
            let on: Vec<&str> = picked.map(String::as_str).collect();
            let on = if on.is_empty() { "-".to_owned() } else { on.join(",") };
            let leaf = format!("T{number}");
            lines.push(format!("{leaf} {group} {on}"));
            earlier.push(leaf.clone());
            if chance < 230 {
                order.push(leaf);
            }
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let order: Vec<&str> = order.iter().map(String::as_str).collect();
        tree(&lines, Some(&order).filter(|order| !order.is_empty()).map(Vec::as_slice))
    })
}

/// Whether a dependency of a task is met, said in the plainest way. `gathers`: the task lands on the branch of its phase.
fn is_met(tree: &TaskTree, progress: &Progress, task: &TaskId, dependency: &TaskId, gathers: bool) -> bool {
    let branch = StepPlace::Phase(tree.phase_of(task).clone());
    let there = |leaf: &TaskId| {
        let state = progress.task(leaf);
        let is_there = |on: &StepPlace| *on == StepPlace::Target || gathers && *on == branch;
        state.status == TaskStatus::Complete && state.newest().is_some_and(|found| is_there(&found.on))
    };
    let below = |node: &TaskId| {
        let mut above = Some(node.clone());
        while let Some(current) = above {
            if current == *dependency {
                return true;
            }
            above = tree.node(&current).and_then(|node| node.parent.clone());
        }
        false
    };
    let leaves = tree.leaves_below(dependency);
    let gates = tree.gates();
    let mut gates = gates.iter().filter(|gate| below(&gate.id));
    !leaves.is_empty()
        && leaves.iter().all(|leaf| there(leaf))
        && gates.all(|gate| progress.gate(&gate.id, tree.leaves_below(&gate.id)).green)
}

/// Does what the schedule says, with results at random.
fn act(world: &mut World, tree: &Arc<TaskTree>, next: &NextAction, random: &mut fastrand::Rng) -> Option<TaskId> {
    let task = match next {
        NextAction::Work { task, retry, .. } => {
            let failing = random.usize(0..3);
            let steps = match random.u8(0..10) {
                0..5 => PASSED.to_vec(),
                5..7 => PASSED[..=failing].to_vec(),
                _ => [&PASSED[..failing], &[(PASSED[failing].0.clone(), false)]].concat(),
            };
            world.attempt(task.as_str(), *retry, &steps);
            task
        }
        NextAction::GiveUp { task, .. } => {
            world.on_branch(task.as_str(), StepKind::Complete, false, 0);
            task
        }
        NextAction::Land(task) => {
            world.land(tree, task);
            task
        }
        NextAction::Gate(gate) => {
            world.gate(tree, gate, random.u8(0..4) > 0);
            gate
        }
        NextAction::MergePhase(phase) => {
            world.merge(phase);
            phase
        }
        NextAction::Done
        | NextAction::Failed(_)
        | NextAction::GateRed(_)
        | NextAction::Stalled(_)
        | NextAction::Stranded(_)
        | NextAction::OtherTree(_)
        | NextAction::Unreadable(_) => {
            return None;
        }
    };
    Some(task.clone())
}

#[test]
fn a_phase_keeps_its_work_after_another_is_merged() {
    let tree = tree(&["p1 - -", "A p1 -", "p2 - -", "B p2 -"], None);
    let mut world = World { phase_mode: true, ..World::default() };
    world.complete(&tree, "B");
    world.complete(&tree, "A");
    let branch = |phase: &str, steps: Vec<CandidateStep>, has_merges| Chain {
        branch: OpenBranch {
            name: BranchName::new(phase).unwrap(),
            place: StepPlace::Phase(id(phase)),
            tip: steps[0].found.commit,
        },
        steps,
        beside: Default::default(),
        has_merges,
    };
    let (one, two) = (world.phases[&id("p1")].clone(), world.phases[&id("p2")].clone());
    let both = two.iter().chain(&one).cloned().collect();
    let progress = fold(&[], &[branch("p1", one, false), branch("p2", both, true)], &TreeName::File(String::new()));
    assert!(["A", "B"].iter().all(|task| progress.task(&id(task)).status == TaskStatus::Complete));
    assert_eq!(progress.open.len(), 2);
}

/// How far a dependency must have come, leaf by leaf and gate by gate.
fn plain_level(schedule: &Schedule, phase: usize, dependency: usize) -> Option<DependencyLevel> {
    let (tree, items) = (&schedule.tree, &schedule.items);
    if !items[phase].gathers {
        return Some(DependencyLevel::OnTarget);
    }
    if items[dependency].phase == phase {
        return Some(DependencyLevel::Landed);
    }
    let standing = |leaf: &TaskId| &items[schedule.index[leaf]].standing;
    let comes_along = |leaf: &TaskId| standing(leaf).comes_with() == Some(&items[phase].id);
    let leaves = tree.leaves_below(&items[dependency].id);
    let has_all = leaves.iter().any(|leaf| comes_along(leaf))
        && leaves.iter().all(|leaf| comes_along(leaf) || standing(leaf).is_there(DependencyLevel::OnTarget));
    let is_below = |gate: usize| std::iter::successors(Some(gate), |at| items[*at].parent).any(|at| at == dependency);
    let mut gates = items.iter().enumerate().filter(|(_, item)| item.gate.is_some_and(|gate| !gate.green));
    if has_all && !gates.any(|(gate, _)| is_below(gate)) { None } else { Some(DependencyLevel::OnTarget) }
}

fn plain_wait(schedule: &Schedule, node: usize, why: Why) -> Wait {
    let failed = schedule.fails_in(node, &why).map(|holder| schedule.failed_in(holder).cloned().collect());
    Wait { on: schedule.items[node].id.clone(), failed: failed.unwrap_or_default(), why }
}

/// What a task waits for, without anything that was found out for another.
fn plain_waits(schedule: &Schedule, leaf: usize) -> Vec<Wait> {
    let (tree, items) = (&schedule.tree, &schedule.items);
    let item = &items[leaf];
    if let Some(phase) = item.standing.comes_with() {
        return vec![plain_wait(schedule, leaf, Why::Elsewhere(phase.clone()))];
    }
    let mut waits: Vec<Wait> = Vec::new();
    let mut seen = BTreeSet::new();
    let gathers = items[item.phase].gathers;
    let leaves = if gathers { tree.leaves_below(&items[item.phase].id) } else { vec![&item.id] };
    let is_to_do = |leaf: &&TaskId| !items[schedule.index[*leaf]].standing.is_done();
    for other in [&item.id].into_iter().chain(leaves.into_iter().filter(is_to_do)) {
        for dependency in tree.dependencies(other) {
            let dependency = schedule.index[dependency];
            let inside = items[dependency].phase == item.phase;
            if inside && *other != item.id || !seen.insert(dependency) {
                continue;
            }
            let Some(level) = plain_level(schedule, item.phase, dependency) else { continue };
            waits.extend(schedule.why(dependency, level).map(|why| plain_wait(schedule, dependency, why)));
        }
    }
    waits
}

/// What may happened to a leaf, by a number.
fn any_standing(tree: &TaskTree, number: u8) -> LeafState {
    let roots = tree.roots();
    let gone = TaskId::new("gone").unwrap();
    match number % 8 {
        0 => LeafState::Open { attempts: 0, in_budget: 0, begun: false, left_on: None },
        1 => LeafState::Waiting { failed: number & 8 == 0 },
        2 => LeafState::Failed { attempts: 1 },
        3 => LeafState::Complete { on_target: false },
        4 => LeafState::Complete { on_target: true },
        _ => LeafState::Elsewhere { phase: roots.get(usize::from(number / 8) % 4).cloned().unwrap_or(gone) },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn shared_counts_agree_with_the_leaves(
        tree in any_tree(),
        numbers in prop::array::uniform16(any::<u8>()),
        later in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        green in any::<bool>(),
        by_phase in any::<bool>(),
    ) {
        let isolation = if by_phase { Isolation::Phase } else { Isolation::None };
        let places: BTreeMap<&TaskId, usize> = tree.nodes().enumerate().map(|(at, node)| (&node.id, at)).collect();
        let standing = |leaf: &TaskId| any_standing(&tree, numbers[places[leaf] % 16]);
        let gate = |_: &TaskId| GateState { runs: 1, green, ..GateState::default() };
        let limits = ScheduleOptions { isolation, ..ScheduleOptions::default() };
        let mut schedule = Schedule::build(&tree, limits, &standing, &gate);
        for (at, number) in later {
            let leaves: Vec<TaskId> = tree.nodes().filter(|node| node.is_leaf()).map(|node| node.id.clone()).collect();
            schedule.set(at.get(&leaves), any_standing(&tree, number));
        }
        for node in 0..schedule.items.len() {
            let phase = schedule.items[node].phase;
            let needed = tree.dependencies(&schedule.items[node].id);
            for dependency in needed.into_iter().map(|needed| schedule.index[needed]) {
                prop_assert_eq!(schedule.level(phase, dependency), plain_level(&schedule, phase, dependency));
            }
        }
        let mut waits = Blockers::new(&schedule);
        for leaf in (0..schedule.items.len()).filter(|node| schedule.items[*node].is_leaf) {
            prop_assert_eq!(waits.of(leaf), plain_waits(&schedule, leaf));
        }
    }
}

/// Takes or drops what nothing would land.
fn settle(world: &mut World, stray: &StrandedWork, random: &mut fastrand::Rng) {
    let steps = match &stray.branch.place {
        StepPlace::Phase(phase) => world.phases.remove(phase),
        StepPlace::Task(task) => world.tasks.remove(task),
        StepPlace::Target => None,
    };
    let taken = steps.filter(|_| random.bool()).unwrap_or_default();
    world.target.extend(taken.iter().map(|seen| moved(seen, &StepPlace::Target)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn every_run_ends_and_never_works_a_task_too_early(
        trees in prop::array::uniform2(any_tree()),
        seed in any::<u64>(),
        by_phase in prop::array::uniform5(any::<bool>()),
        retry_failed in any::<bool>(),
        max_retries in 1..4_u32,
    ) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::default();
        for (round, phase_mode) in by_phase.into_iter().enumerate() {
            // Somebody edits the tree after some runs, whatever they have left.
            let tree = &trees[usize::from(round > 2)];
            world.phase_mode = phase_mode;
            let isolation = if phase_mode { Isolation::Phase } else { Isolation::None };
            let limits = ScheduleOptions { max_retries, isolation, retry_failed, ..ScheduleOptions::default() };
            while let NextAction::Stranded(stray) = next(tree, &world.progress(), &limits) {
                settle(&mut world, &stray, &mut random);
            }
            let mut schedule = Schedule::new(tree, &world.progress(), limits.clone());
            let mut steps = 0;
            loop {
                steps += 1;
                prop_assert!(steps < 3_000, "the run does not end");
                let next = schedule.next();
                let progress = world.progress();
                let met = |task: &TaskId, dependency: &TaskId| {
                    is_met(tree, &progress, task, dependency, schedule.gathers(tree.phase_of(task)))
                };
                match &next {
                    NextAction::Work { task, attempt, retry } => {
                        for dependency in tree.dependencies(task) {
                            prop_assert!(met(task, dependency), "{task} needs {dependency}");
                        }
                        prop_assert!(attempt.number <= max_retries);
                        prop_assert_eq!(*retry, progress.task(task).attempts);
                        let fresh = Schedule::new(tree, &progress, limits.clone());
                        prop_assert!(schedule.ready().eq(fresh.ready()), "a run that starts now sees the same");
                        prop_assert_eq!(fresh.next(), next.clone());
                    }
                    NextAction::Land(task) if progress.task(task).status == TaskStatus::Complete => {
                        let is_done = |leaf: &&TaskId| progress.task(leaf).status == TaskStatus::Complete;
                        let needed = tree.dependencies(task).into_iter().flat_map(|needed| tree.leaves_below(needed));
                        for leaf in needed.filter(is_done) {
                            prop_assert!(met(task, leaf), "{task} is built on {leaf}");
                        }
                    }
                    NextAction::Done => {
                        let done = |task: &TaskId| is_met(tree, &progress, &id("nobody"), task, false);
                        prop_assert!(tree.order().iter().all(done));
                        let green = |gate: &&crate::plan::tree::TaskNode| {
                            progress.gate(&gate.id, tree.leaves_below(&gate.id)).green
                        };
                        prop_assert!(tree.gates().iter().all(green));
                        let is_there = |state: &TaskState| state.newest().is_some_and(|found| found.on == StepPlace::Target);
                        for (task, state) in progress.tasks().filter(|(_, state)| state.status == TaskStatus::Complete) {
                            prop_assert!(is_there(state), "{task} is done and forgotten");
                        }
                    }
                    NextAction::Stalled(blocked) => {
                        prop_assert!(blocked.iter().all(|blocked| !blocked.waits_for.is_empty()), "{blocked:?}");
                    }
                    _ => {}
                }
                let Some(task) = act(&mut world, tree, &next, &mut random) else { break };
                let progress = world.progress();
                let is_merged = matches!(next, NextAction::MergePhase(_));
                let is_gathered = progress.task(&task).status == TaskStatus::Complete
                    && progress.task(&task).newest().is_some_and(|found| matches!(found.on, StepPlace::Phase(_)));
                // Whatever happens to the branch of a phase is read again.
                if is_merged || is_gathered {
                    schedule = Schedule::new(tree, &progress, limits.clone());
                } else {
                    schedule.update(&progress, &task);
                }
                if random.u8(0..20) == 0 {
                    break;
                }
            }
        }
    }
}
