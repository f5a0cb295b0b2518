//! Runs that do more than one thing at a time.

use super::*;

/// What may start, in words.
fn starts(schedule: &Schedule, running: &[&str], slots: usize) -> Vec<String> {
    let word = |next: &NextAction| match next {
        NextAction::Work { task, .. } => format!("work {task}"),
        NextAction::GiveUp { task, .. } => format!("give up {task}"),
        NextAction::Land(task) => format!("land {task}"),
        NextAction::Gate(gate) => format!("gate {gate}"),
        NextAction::MergePhase(phase) => format!("merge {phase}"),
        other => format!("{other:?}"),
    };
    schedule.starts(&running.iter().copied().map(id).collect(), &BTreeSet::new(), slots).iter().map(word).collect()
}

fn gathering() -> (World, ScheduleOptions) {
    let limits = ScheduleOptions { isolation: Isolation::Phase, ..ScheduleOptions::default() };
    (World { phase_mode: true, ..World::default() }, limits)
}

#[test]
fn tasks_run_in_parallel_once_unblocked() {
    let tree = tree(&DIAMOND, None);
    let mut world = World::default();
    let at_first = world.schedule(&tree);
    assert_eq!(starts(&at_first, &[], 4), ["work A"]);
    assert!(starts(&at_first, &["A"], 4).is_empty());
    world.complete(&tree, "A");
    let schedule = world.schedule(&tree);
    assert_eq!(starts(&schedule, &[], 4), ["work B", "work C"]);
    assert_eq!(starts(&schedule, &[], 1), ["work B"]);
    assert_eq!(starts(&schedule, &["C"], 2), ["work B"]);
    assert!(starts(&schedule, &["B"], 1).is_empty());
    assert!(starts(&schedule, &[], 0).is_empty());
}

#[test]
fn nothing_starts_before_what_was_left_has_landed() {
    let tree = tree(&["A - -", "B - -", "C - A", "D - -", "E - B"], None);
    let mut world = World::default();
    for left in ["A", "D"] {
        world.attempt(left, 0, &PASSED);
    }
    let schedule = world.schedule(&tree);
    assert_eq!(starts(&schedule, &[], 3), ["land A", "land D"]);
    assert_eq!(starts(&schedule, &["B"], 3), ["land A", "land D"]);
    assert_eq!(starts(&schedule, &["A"], 3), ["land D"]);
    assert!(starts(&schedule, &["A", "D"], 3).is_empty());
    world.land(&tree, &id("A"));
    assert!(starts(&world.schedule(&tree), &["D"], 3).is_empty());
    world.land(&tree, &id("D"));
    assert_eq!(starts(&world.schedule(&tree), &[], 3), ["work B", "work C"]);
}

#[test]
fn a_task_that_goes_back_holds_nothing_up() {
    let before = tree(&["A - -", "B - -"], None);
    let mut world = World::default();
    world.attempt("B", 0, &PASSED);
    assert_eq!(starts(&world.schedule(&before), &[], 3), ["land B"]);
    // Its tests were red where it was to land: it is worked again.
    world.attempt("B", 1, &[(StepKind::Test, false)]);
    assert_eq!(starts(&world.schedule(&before), &["B"], 3), ["work A"]);
}

#[test]
fn what_ends_the_run_waits_until_nothing_runs() {
    let tree = tree(&["A - -", "B - -", "C - -"], None);
    let mut world = World::default();
    let mut schedule = world.schedule(&tree);
    world.fail(&tree, "A", 5);
    schedule.update(&world.progress(), &id("A"));
    assert!(starts(&schedule, &["B"], 4).is_empty());
    assert_eq!(schedule.starts(&BTreeSet::new(), &BTreeSet::new(), 4), [NextAction::Failed(id("A"))]);
    schedule.renew(&world.progress());
    assert_eq!(
        schedule.starts(&BTreeSet::new(), &BTreeSet::new(), 4),
        [NextAction::Failed(id("A"))],
        "it is known after everything was read"
    );
    for task in ["B", "C"] {
        world.complete(&tree, task);
    }
    let later = world.schedule(&tree);
    assert!(starts(&later, &["C"], 4).is_empty());
    assert_eq!(later.starts(&BTreeSet::new(), &BTreeSet::new(), 4), [NextAction::Failed(id("A"))]);
}

#[test]
fn a_gate_has_its_phase_for_itself() {
    let tree = tree(&["p - -", "g p - gate", "A g -", "B p -", "C p -", "D - -"], None);
    let mut world = World::default();
    world.complete(&tree, "A");
    let schedule = world.schedule(&tree);
    assert_eq!(starts(&schedule, &[], 4), ["gate g", "work D"]);
    assert_eq!(starts(&schedule, &["B"], 4), ["work D"], "it waits for B, and C for it");
    assert_eq!(starts(&schedule, &["g"], 4), ["work D"]);
    world.attempt("B", 0, &PASSED);
    assert_eq!(starts(&world.schedule(&tree), &[], 4), ["land B"]);
}

#[test]
fn a_phase_merge_runs_alone() {
    let lines = ["p1 - -", "A p1 -", "p2 - -", "B p2 -", "p3 - - gate", "C p3 -", "p4 - -", "D p4 -"];
    let tree = tree(&lines, None);
    let (mut world, limits) = gathering();
    for task in ["A", "B"] {
        world.complete(&tree, task);
    }
    let schedule = Schedule::new(&tree, &world.progress(), limits.clone());
    assert_eq!(starts(&schedule, &[], 4), ["merge p1", "work C", "work D"]);
    assert_eq!(starts(&schedule, &["p1", "D"], 4), ["work C"]);
    world.complete(&tree, "C");
    let schedule = Schedule::new(&tree, &world.progress(), limits);
    assert_eq!(starts(&schedule, &[], 4), ["gate p3", "work D"]);
    assert_eq!(starts(&schedule, &["p1"], 4), ["work D"], "a merge moves what the gate tests on");
    assert_eq!(starts(&schedule, &["p3"], 4), ["work D"]);
}

#[test]
fn a_chosen_task_has_the_run_for_itself() {
    let tree = tree(&["A - -", "B - -"], None);
    let mut world = World::default();
    world.attempt("A", 0, &PASSED);
    let schedule = Schedule::new(&tree, &world.progress(), only("B"));
    assert_eq!(starts(&schedule, &[], 4), ["land A"]);
    assert!(starts(&schedule, &["A"], 4).is_empty());
}

/// What a run with so many slots does of which a number of things end at random, and in what order: each task fails as
/// often as it is told to, each gate passes. Gives the tasks that are complete.
fn drive(
    tree: &Arc<TaskTree>,
    limits: &ScheduleOptions,
    slots: usize,
    fails: &[u32; 4],
    random: &mut fastrand::Rng,
) -> Result<BTreeSet<TaskId>, TestCaseError> {
    let mut world = World { phase_mode: limits.isolation == Isolation::Phase, ..World::default() };
    let mut schedule = Schedule::new(tree, &world.progress(), limits.clone());
    let mut running: BTreeMap<TaskId, NextAction> = BTreeMap::new();
    for _ in 0..3_000 {
        let ids: BTreeSet<TaskId> = running.keys().cloned().collect();
        let starts = schedule.starts(&ids, &BTreeSet::new(), slots);
        if ids.is_empty() {
            prop_assert_eq!(starts.first(), Some(&schedule.next()));
        }
        prop_assert!(ids.len() + starts.len() <= slots);
        let progress = world.progress();
        for next in starts {
            let id = match &next {
                NextAction::Work { task, .. } => {
                    let gathers = schedule.gathers(tree.phase_of(task));
                    for needed in tree.dependencies(task) {
                        prop_assert!(is_met(tree, &progress, task, needed, gathers), "{task} needs {needed}");
                    }
                    task
                }
                NextAction::Land(id)
                | NextAction::Gate(id)
                | NextAction::MergePhase(id)
                | NextAction::GiveUp { task: id, .. } => id,
                _ => {
                    prop_assert!(running.is_empty(), "{next:?} beside {running:?}");
                    let is_complete = |(_, state): &(&TaskId, &TaskState)| state.status == TaskStatus::Complete;
                    return Ok(progress.tasks().filter(is_complete).map(|(task, _)| task.clone()).collect());
                }
            };
            prop_assert!(running.insert(id.clone(), next.clone()).is_none(), "{id} twice at once");
        }
        let at = random.usize(0..running.len());
        let id = running.keys().nth(at).expect("it is one of them").clone();
        let did = running.remove(&id).expect("it is one of them");
        match &did {
            NextAction::Work { retry, .. } => {
                let number: usize = id.as_str().bytes().map(usize::from).sum();
                let passes = *retry >= fails[number % fails.len()];
                let steps = if passes { &PASSED[..] } else { &[(StepKind::Implement, true), (StepKind::Test, false)] };
                world.attempt(id.as_str(), *retry, steps);
            }
            NextAction::GiveUp { .. } => world.on_branch(id.as_str(), StepKind::Complete, false, 0),
            NextAction::Land(_) => world.land(tree, &id),
            NextAction::Gate(_) => world.gate(tree, &id, true),
            _ => world.merge(&id),
        }
        match did {
            NextAction::Land(_) | NextAction::MergePhase(_) => schedule.renew(&world.progress()),
            _ => schedule.update(&world.progress(), &id),
        }
    }
    Err(TestCaseError::fail("the run does not end"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn many_slots_do_what_one_slot_does(
        tree in any_tree(),
        seed in any::<u64>(),
        slots in 2..6_usize,
        by_phase in any::<bool>(),
        fails in prop::array::uniform4(0..4_u32),
        max_retries in 3..5_u32,
    ) {
        let isolation = if by_phase { Isolation::Phase } else { Isolation::None };
        let limits = ScheduleOptions { isolation, max_retries, ..ScheduleOptions::default() };
        let mut random = fastrand::Rng::with_seed(seed);
        let one = drive(&tree, &limits, 1, &fails, &mut random)?;
        let many = drive(&tree, &limits, slots, &fails, &mut random)?;
        // What fails ends the run: what was started beside it, a run with one slot never comes to.
        if fails.iter().all(|fails| *fails < max_retries) {
            prop_assert_eq!(one, many);
        }
    }
}

/// A tree without phases, of tasks and the files they touch.
fn touching(tasks: &[(&str, &[&str])]) -> Arc<TaskTree> {
    let node = |(id, touches): &(&str, &[&str])| ((*id).to_owned(), json!({"id": id, "name": id, "touches": touches}));
    let nodes: serde_json::Map<String, Value> = tasks.iter().map(node).collect();
    Arc::new(TaskTree::read(&json!({"nodes": nodes}).to_string()).unwrap())
}

#[test]
fn overlapping_tasks_start_together_only_without_others() {
    let tree = touching(&[("A", &["src/"]), ("B", &["src/b.rs"]), ("C", &["docs/**"]), ("D", &[])]);
    let schedule = World::default().schedule(&tree);
    assert_eq!(starts(&schedule, &[], 1), ["work A"]);
    assert_eq!(starts(&schedule, &[], 2), ["work A", "work C"]);
    assert_eq!(starts(&schedule, &["B"], 2), ["work C"]);
    assert_eq!(starts(&schedule, &["A", "C"], 3), ["work D"]);
    assert_eq!(starts(&schedule, &["A", "C", "D"], 4), ["work B"], "nothing else could use the slot");
    assert_eq!(starts(&schedule, &[], 9), ["work A", "work C", "work D", "work B"]);
}

#[test]
fn what_a_phase_touches_is_touched_by_its_tasks() {
    let nodes = json!({
        "p": {"id": "p", "name": "p", "children": ["A", "B"], "touches": ["src"]},
        "A": {"id": "A", "name": "A"},
        "B": {"id": "B", "name": "B", "touches": ["docs"]},
        "C": {"id": "C", "name": "C", "touches": ["src/c.rs"]},
        "D": {"id": "D", "name": "D"},
    });
    let tree = Arc::new(TaskTree::read(&json!({"nodes": nodes}).to_string()).unwrap());
    let schedule = World::default().schedule(&tree);
    assert_eq!(starts(&schedule, &["A"], 2), ["work B"]);
    assert_eq!(starts(&schedule, &["A", "B"], 3), ["work D"]);
}

#[test]
fn a_run_that_keeps_going_works_what_does_not_depend() {
    let tree = tree(&["A - -", "B - A", "p - - gate", "C p -", "D - p", "E - -"], None);
    let mut world = World::default();
    let limits = ScheduleOptions { keep_going: true, ..ScheduleOptions::default() };
    let mut schedule = Schedule::new(&tree, &world.progress(), limits);
    world.fail(&tree, "A", 5);
    schedule.update(&world.progress(), &id("A"));
    assert_eq!(starts(&schedule, &[], 4), ["work C", "work E"]);
    assert_eq!(starts(&schedule, &["C"], 4), ["work E"]);
    world.complete(&tree, "C");
    schedule.update(&world.progress(), &id("C"));
    assert_eq!(starts(&schedule, &[], 1), ["gate p"]);
    world.gate(&tree, &id("p"), false);
    schedule.update(&world.progress(), &id("p"));
    assert_eq!(starts(&schedule, &[], 4), ["work E"], "what was red in this run is not tried again");
    world.complete(&tree, "E");
    schedule.update(&world.progress(), &id("E"));
    let [NextAction::Stalled(blocked)] = &schedule.starts(&BTreeSet::new(), &BTreeSet::new(), 4)[..] else {
        panic!("nothing is left")
    };
    let waits: Vec<_> = blocked.iter().map(|blocked| blocked.task.as_str()).collect();
    assert_eq!(waits, ["B", "D"]);
}

#[test]
fn a_red_gate_ends_a_run_that_keeps_going() {
    let tree = tree(&["p - - gate", "A p -"], None);
    let mut world = World::default();
    world.complete(&tree, "A");
    let limits = ScheduleOptions { keep_going: true, ..ScheduleOptions::default() };
    let mut schedule = Schedule::new(&tree, &world.progress(), limits);
    world.gate(&tree, &id("p"), false);
    schedule.update(&world.progress(), &id("p"));
    assert_eq!(schedule.starts(&BTreeSet::new(), &BTreeSet::new(), 4), [NextAction::GateRed(id("p"))]);
}

#[test]
fn a_retried_task_that_fails_again_is_not_retried_twice() {
    let tree = tree(&["A - -", "B - -"], None);
    let mut world = World::default();
    world.fail(&tree, "A", 5);
    let limits = ScheduleOptions { keep_going: true, retry_failed: true, ..ScheduleOptions::default() };
    for retry in [5, 6] {
        let mut schedule = Schedule::new(&tree, &world.progress(), limits.clone());
        assert_eq!(starts(&schedule, &[], 4), ["work A", "work B"]);
        world.attempt("A", retry, &[(StepKind::Implement, true), (StepKind::Test, false)]);
        world.on_branch("A", StepKind::Complete, false, retry);
        world.land(&tree, &id("A"));
        if retry == 6 {
            schedule.renew(&world.progress());
        } else {
            schedule.update(&world.progress(), &id("A"));
        }
        assert_eq!(starts(&schedule, &[], 4), ["work B"]);
    }
}
