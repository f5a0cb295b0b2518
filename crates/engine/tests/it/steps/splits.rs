//! Reading a history in one go and bit by bit comes to the same.

use engine::tree::progress::ProgressReader;
use pleach_core::ids::BranchName;
use pleach_core::progress::{Progress, TaskStatus};
use proptest::collection::vec;
use proptest::prelude::*;

use super::world::{TREE, World, named, old, run_start, step, step_of, task};

/// What happens to the repository next.
#[derive(Debug, Clone)]
enum Deed {
    /// A step on the target, the side branch or the task's branch.
    Step { on: usize, task: usize, status: usize, retry: u32, form: usize },
    /// The target's run starts over.
    Start { tree: usize },
    /// One branch is merged into another.
    Merge { into: usize, from: usize },
    /// A branch goes to where another is.
    Move { from: usize, to: usize },
    /// Somebody reads.
    Read,
}

const BRANCHES: [&str; 4] = ["main", "side", "pleach/tasks/main/T1", "pleach/phase/main/p1"];
const TREES: [&str; 2] = [TREE, "other.json"];

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..4usize, 0..3usize, 0..6usize, 0..3u32, 0..6usize)
            .prop_map(|(on, task, status, retry, form)| Deed::Step { on, task, status, retry, form }),
        1 => (0..3usize).prop_map(|tree| Deed::Start { tree }),
        2 => (0..4usize, 0..4usize).prop_map(|(into, from)| Deed::Merge { into, from }),
        2 => (0..4usize, 0..4usize).prop_map(|(from, to)| Deed::Move { from, to }),
        3 => Just(Deed::Read),
    ]
}

fn perform(world: &World, deed: &Deed, target: &str) {
    let statuses = ["implement-pass", "implement-fail", "test-fail", "complete", "failed", "reset"];
    match deed {
        Deed::Step { on, task, status, retry, form } => {
            let id = format!("T{task}");
            let message = match form {
                0 => old(&id, "complete", "Arborist-Result: pass"),
                1 => step_of(TREES[1], target, &id, statuses[*status], *retry),
                2 => "words".to_owned(),
                _ => step(target, &id, statuses[*status], *retry),
            };
            world.say(BRANCHES[*on], message);
        }
        Deed::Start { tree } => {
            let none = "task(main@@run-start): run started\n\nArborist-Step: run-start\n".to_owned();
            world.say(BRANCHES[0], TREES.get(*tree).map_or(none, |tree| run_start(target, tree)));
        }
        Deed::Merge { into, from } if into != from => world.merge(BRANCHES[*into], BRANCHES[*from]),
        Deed::Move { from, to } => world.place(BRANCHES[*from], world.tip(BRANCHES[*to])),
        Deed::Merge { .. } | Deed::Read => {}
    }
}

fn reader(world: &World) -> ProgressReader {
    ProgressReader::new(&world.repo, &BranchName::new("main").unwrap(), "pleach/", None)
}

/// What a reader that has looked before finds, and one that has not.
fn both(world: &World, held: &mut ProgressReader) -> [TaskStatus; 2] {
    let status = |reader: &mut ProgressReader| reader.read(&named(TREE)).unwrap().task(&task("T1")).status;
    [status(held), status(&mut reader(world))]
}

#[test]
fn a_diverged_target_is_read_again() {
    let world = World::new();
    world.place("side", world.tip("main"));
    world.say("side", step("main", "T1", "test-pass", 0));
    world.say("main", step("main", "T1", "implement-pass", 0));
    let mut held = reader(&world);
    assert_eq!(both(&world, &mut held), [TaskStatus::Implementing; 2]);
    // As a pull does that goes forward to a merge somebody else made.
    world.merge("side", "main");
    world.place("main", world.tip("side"));
    assert_eq!(both(&world, &mut held), [TaskStatus::Implementing; 2]);
}

#[test]
fn steps_merged_from_before_the_run_do_not_count() {
    let world = World::new();
    world.place("side", world.tip("main"));
    world.say("side", step("main", "T1", "complete", 0));
    world.say("main", run_start("main", TREE));
    let mut held = reader(&world);
    assert_eq!(both(&world, &mut held), [TaskStatus::Pending; 2]);
    world.merge("main", "side");
    assert_eq!(both(&world, &mut held), [TaskStatus::Pending; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn what_was_read_before_changes_nothing(deeds in vec(any_deed(), 1..40), on_main in any::<bool>()) {
        let world = World::on(BRANCHES[0]);
        BRANCHES.iter().skip(1).for_each(|branch| world.place(branch, world.tip(BRANCHES[0])));
        // As the base branch itself, or as a branch that left another one.
        let base = BranchName::new(if on_main { BRANCHES[0] } else { BRANCHES[1] }).unwrap();
        let target = BranchName::new(BRANCHES[0]).unwrap();
        let new = || ProgressReader::new(&world.repo, &target, "pleach/", Some(&base));
        let read = |reader: &mut ProgressReader| -> Vec<Progress> { TREES.map(|tree| reader.read(&named(tree)).unwrap()).into() };
        let mut held = new();
        for deed in &deeds {
            perform(&world, deed, target.as_str());
            if matches!(deed, Deed::Read) {
                prop_assert_eq!(read(&mut held), read(&mut new()));
            }
        }
        prop_assert_eq!(read(&mut held), read(&mut new()));
    }
}
