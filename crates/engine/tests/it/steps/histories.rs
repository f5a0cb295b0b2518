//! What histories add up to, in real repositories.

use engine::tree::progress::ProgressReader;
use pleach_core::ids::BranchName;
use pleach_core::plan::tree::TaskTree;
use pleach_core::progress::{StepPlace, TaskStatus};
use pleach_core::step::{Feedback, FeedbackKind, TreeName};

use super::world::{TREE, World, git, named, old, open, run_start, step, step_of, task};

#[test]
fn the_newest_step_is_the_state() {
    let table = [
        ("implement-pass", TaskStatus::Implementing),
        ("implement-fail", TaskStatus::Implementing),
        ("lint-fail", TaskStatus::Implementing),
        ("test-pass", TaskStatus::Testing),
        ("test-fail", TaskStatus::Testing),
        ("review-approved", TaskStatus::Reviewing),
        ("review-rejected", TaskStatus::Reviewing),
        ("complete", TaskStatus::Complete),
        ("skipped", TaskStatus::Complete),
        ("failed", TaskStatus::Failed),
        ("reset", TaskStatus::Pending),
    ];
    let world = World::new();
    assert_eq!(world.status("main", "T001"), TaskStatus::Pending);
    for (status, expected) in table {
        world.say("main", step("main", "T001", status, 0));
        world.say("main", "something else");
        let state = world.task("main", "T001");
        assert_eq!((state.status, state.skipped), (expected, status == "skipped"), "{status}");
    }
    let steps = world.task("main", "T001").steps;
    assert_eq!(steps.len(), table.len(), "the latest wins, and the others are still told");
    world.say("main", "task(main@T002@complete): complete \"N\"\n\nArborist-Step: complete\n");
    assert_eq!(world.status("main", "T002"), TaskStatus::Complete, "no result is a good one");
}

#[test]
fn ids_are_compared_whole() {
    let world = World::new();
    world.say("main", step("main", "T0010", "complete", 0));
    world.say("main", old("T00100", "complete", "Arborist-Result: pass"));
    assert_eq!(world.status("main", "T001"), TaskStatus::Pending);
    assert_eq!(world.status("main", "T0010"), TaskStatus::Complete);
    assert_eq!(world.status("main", "T00100"), TaskStatus::Complete);
}

#[test]
fn a_hundred_and_thirty_tasks_on_main_are_all_found() {
    let world = World::new();
    for number in 0..130 {
        world.say("main", step("main", &format!("T{number}"), "implement-pass", 0));
        world.say("main", step("main", &format!("T{number}"), "complete", 0));
    }
    for again in ["cold", "from the cache"] {
        let progress = world.progress("main");
        let complete = progress.tasks().filter(|(_, state)| state.status == TaskStatus::Complete).count();
        assert_eq!(complete, 130, "{again}");
        assert_eq!(progress.task(&task("T99")).attempts, 1);
        assert_eq!(world.cache_files().len(), 1);
    }
}

#[test]
fn a_repository_without_main_works_too() {
    let world = World::on("master");
    world.say("master", step("master", "T001", "complete", 0));
    world.say("master", old("T002", "complete", "Arborist-Result: fail"));
    assert_eq!(world.status("master", "T001"), TaskStatus::Complete);
    assert_eq!(world.status("master", "T002"), TaskStatus::Failed);
    let trunk = World::on("trunk");
    trunk.say("trunk", old("T002", "complete", "Arborist-Result: pass"));
    assert_eq!(trunk.status("trunk", "T002"), TaskStatus::Complete, "without a base branch all history counts");
}

#[test]
fn branches_do_not_see_each_others_steps() {
    let names = ["main", "feature/x", "a@b", "x)", "main@T001"];
    let world = World::new();
    for name in names.iter().skip(1) {
        world.place(name, world.tip("main"));
    }
    // All on one line of history, so that nothing but the name keeps them apart.
    for name in names {
        world.say("main", step(name, "T001", "complete", 0));
        world.say("main", step(name, &format!("only-{}", name.len()), "test-pass", 0));
    }
    for name in names {
        world.place(name, world.tip("main"));
        let found: Vec<_> = world.progress(name).tasks().map(|(id, _)| id.to_string()).collect();
        assert_eq!(found, ["T001".to_owned(), format!("only-{}", name.len())], "{name}");
    }
}

#[test]
fn a_feature_branch_keeps_its_steps_when_it_was_merged() {
    let world = World::new();
    world.place("feature/x", world.tip("main"));
    world.say("feature/x", step("feature/x", "T001", "complete", 0));
    world.say("feature/x", old("T002", "complete", "Arborist-Result: pass"));
    world.say("main", "meanwhile");
    let both = |branch| [world.status(branch, "T001"), world.status(branch, "T002")];
    assert_eq!(both("feature/x"), [TaskStatus::Complete, TaskStatus::Complete]);
    assert_eq!(both("main"), [TaskStatus::Pending, TaskStatus::Pending]);
    world.merge("main", "feature/x");
    // The older form is the base branch's from now on, and no longer what the feature branch is ahead by.
    assert_eq!(both("feature/x"), [TaskStatus::Complete, TaskStatus::Pending]);
    assert_eq!(both("main"), [TaskStatus::Pending, TaskStatus::Complete]);
}

#[test]
fn the_older_form_counts_since_the_base_branch_was_left() {
    let world = World::new();
    world.say("main", old("T001", "complete", "Arborist-Result: pass"));
    world.place("feature", world.tip("main"));
    world.say("feature", old("T002", "complete", "Arborist-Result: pass"));
    assert_eq!(world.status("feature", "T001"), TaskStatus::Pending);
    assert_eq!(world.status("feature", "T002"), TaskStatus::Complete);
    world.say("main", old("T003", "complete", "Arborist-Result: pass"));
    world.merge("feature", "main");
    world.say("feature", old("T004", "test", "Arborist-Test: pass"));
    let found: Vec<_> = world.progress("feature").tasks().map(|(id, _)| id.to_string()).collect();
    assert_eq!(found, ["T002", "T004"]);
    assert!(world.read("feature", TREE, Some("develop")).unwrap_err().to_string().contains("`develop`"));
    world.place("develop", world.tip("feature"));
    assert_eq!(world.read("feature", TREE, Some("develop")).unwrap().tasks().count(), 0);
    assert!(world.read("gone", TREE, None).unwrap_err().to_string().contains("`gone`"));
}

#[test]
fn the_remotes_default_branch_is_the_base() {
    let world = World::on("trunk");
    world.say("trunk", old("T001", "complete", "Arborist-Result: pass"));
    world.place("feature", world.tip("trunk"));
    world.say("feature", old("T002", "complete", "Arborist-Result: pass"));
    let found = |branch: &str| world.progress(branch).tasks().map(|(id, _)| id.to_string()).collect::<Vec<_>>();
    assert_eq!(found("feature"), ["T001", "T002"], "nobody says where it was begun");
    let remote = "refs/remotes/origin/HEAD";
    world.git(&["symbolic-ref", remote, "refs/remotes/origin/trunk"]);
    assert_eq!(found("feature"), ["T002"]);
    assert_eq!(found("trunk"), ["T001"], "it is its own base");
    // A branch that happens to have a usual name is another one, and its own base.
    world.place("master", world.tip("feature"));
    assert_eq!(found("feature"), ["T002"]);
    assert_eq!(found("master"), ["T001", "T002"]);
    // Where the remote's branch is gone, or named by no branch at all, the usual one is the base again.
    world.git(&["symbolic-ref", remote, "refs/remotes/origin/gone"]);
    assert_eq!(found("feature"), [""; 0]);
    world.git(&["symbolic-ref", "--delete", remote]);
    world.git(&["update-ref", remote, "refs/heads/trunk"]);
    assert_eq!(found("feature"), [""; 0]);
}

/// A tree of one task.
fn tree_of(id: &str) -> TaskTree {
    TaskTree::read(&format!(r#"{{"nodes": {{"{id}": {{"id": "{id}", "name": "N"}}}}}}"#)).unwrap()
}

#[test]
fn work_on_a_closed_phase_is_found_on_task_branches() {
    let world = World::new();
    world.say("main", run_start("main", TREE));
    let (phase, one) = ("pleach/phase/main/P1", "pleach/tasks/main/T001");
    world.place(phase, world.tip("main"));
    world.say(phase, step("main", "T001", "complete", 0));
    world.place(one, world.tip(phase));
    let two = world.say(phase, step("main", "T002", "complete", 0));
    world.say(phase, "by hand");
    assert!(world.task("main", "T001").landed, "on its phase");
    // Somebody took the newest of it over by hand.
    let taken = world.repo.commit(two).unwrap();
    let copy = world.commit(&[world.tip("main")], taken.message, taken.at.as_second());
    world.place("main", copy);
    assert_eq!(world.status("main", "T001"), TaskStatus::Complete);
    assert!(!world.task("main", "T001").landed);
}

#[test]
fn a_failure_on_one_phase_precedes_later_work() {
    let world = World::new();
    world.say("main", run_start("main", TREE));
    let (failed_on, done_on) = ("pleach/phase/main/P2", "pleach/phase/main/P1");
    world.place(failed_on, world.tip("main"));
    world.place(done_on, world.tip("main"));
    let failed =
        "task(main@T001@failed): failed \"A\" after 1 retries\n\nArborist-Step: complete\nArborist-Result: fail\n";
    let failed = world.repo.commit(world.say(failed_on, failed)).unwrap();
    let progress = world.progress("main");
    assert_eq!(progress.task(&task("T001")).status, TaskStatus::Failed);
    assert_eq!(progress.not_before().as_second(), failed.at.as_second() + 1);
    // As early as it may be: the branch of the phase it moved to is read first.
    let at = progress.not_before().as_second();
    let done = world.commit(&[world.tip(done_on)], step("main", "T001", "complete", 1), at);
    world.place(done_on, done);
    assert_eq!(world.status("main", "T001"), TaskStatus::Complete);
}

#[test]
fn a_run_started_twice_is_one_run() {
    let world = World::new();
    world.place("other", world.tip("main"));
    world.say("main", run_start("main", TREE));
    world.say("main", step("main", "T001", "complete", 0));
    world.say("other", run_start("main", TREE));
    world.say("other", step("main", "T002", "complete", 0));
    world.merge("main", "other");
    let done = |ids: &[&str]| ids.iter().map(|id| world.status("main", id)).collect::<Vec<_>>();
    assert_eq!(done(&["T001", "T002"]), [TaskStatus::Complete, TaskStatus::Complete]);
    world.say("main", step("main", "T003", "complete", 0));
    assert_eq!(done(&["T001", "T002", "T003"]), [TaskStatus::Complete; 3]);
    // Begun again by who knew of both.
    world.say("main", run_start("main", TREE));
    assert_eq!(done(&["T001", "T002", "T003"]), [TaskStatus::Pending; 3]);
}

#[test]
fn ad_hoc_tasks_and_trees_share_a_target() {
    let world = World::new();
    let ids = ["task-aaaaaa", "task-bbbbbb"];
    let names = ids.map(|id| format!("task:{id}"));
    world.say("main", step_of(&names[0], "main", ids[0], "implement-pass", 0));
    world.say("main", run_start("main", TREE));
    world.say("main", step_of(TREE, "main", "T001", "complete", 0));
    world.say("main", step_of(&names[0], "main", ids[0], "complete", 0));
    // One that names the tree of another task is none of its steps.
    world.say("main", step_of(&names[0], "main", ids[1], "complete", 0));
    world.place(&format!("pleach/tasks/main/{}", ids[1]), world.tip("main"));
    world.say(&format!("pleach/tasks/main/{}", ids[1]), step_of(&names[1], "main", ids[1], "test-fail", 0));
    let main = BranchName::new("main").unwrap();
    let mut reader = ProgressReader::new(&world.repo, &main, "pleach/", None);
    let tasks = reader.read(&TreeName::Tasks).unwrap();
    assert_eq!(ids.map(|id| tasks.task(&task(id)).status), [TaskStatus::Complete, TaskStatus::Testing]);
    assert_eq!(tasks.task(&task(ids[0])).steps.len(), 2, "no start of a run is between them");
    assert!(tasks.run_starts.is_empty() && tasks.task(&task("T001")).steps.is_empty());
    assert!(tasks.taken.is_empty(), "the tree has no branch");
    let tree = world.progress("main");
    assert_eq!(tree.tasks().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), ["T001"]);
    let taken: Vec<_> = tree.taken.iter().map(|taken| (taken.id.to_string(), taken.tree.clone())).collect();
    assert_eq!(taken, [(ids[1].to_owned(), TreeName::Tasks)]);
    assert_eq!(reader.trees().unwrap().into_iter().collect::<Vec<_>>(), [TREE], "tasks have no file");
    // A run works some of them, and knows nothing of the others.
    let own = tasks.only(&tree_of(ids[0]));
    assert_eq!((own.tasks().count(), own.open.len()), (1, 0));
}

#[test]
fn each_tree_has_its_own_run() {
    let world = World::new();
    world.say("main", run_start("main", "one.json"));
    world.say("main", step_of("one.json", "main", "T001", "complete", 0));
    world.say("main", run_start("main", "two.json"));
    world.say("main", step_of("two.json", "main", "T001", "test-fail", 0));
    world.say("main", step_of("one.json", "main", "T002", "implement-pass", 0));
    let status = |tree: &str, id: &str| world.read("main", tree, None).unwrap().task(&task(id)).status;
    assert_eq!(status("one.json", "T001"), TaskStatus::Complete);
    assert_eq!(status("one.json", "T002"), TaskStatus::Implementing);
    assert_eq!(status("two.json", "T001"), TaskStatus::Testing);
    assert_eq!(status("two.json", "T002"), TaskStatus::Pending);
    assert!(!world.read("main", "three.json", None).unwrap().is_begun(&tree_of("T001")));
    // Started over: what was before is before.
    let again = world.say("main", run_start("main", "one.json"));
    assert_eq!(status("one.json", "T001"), TaskStatus::Pending);
    assert_eq!(status("two.json", "T001"), TaskStatus::Testing);
    assert_eq!(world.read("main", "one.json", None).unwrap().run_start().unwrap().commit, again);
    // One that names no tree is a start for all.
    world.say("main", "task(main@@run-start): run started\n\nArborist-Step: run-start\n");
    assert_eq!(status("two.json", "T001"), TaskStatus::Pending);
    world.say("main", "task(main@T001@complete): complete \"N\"\n\nArborist-Step: complete\n");
    assert_eq!(status("two.json", "T001"), TaskStatus::Complete);
    assert_eq!(status("one.json", "T001"), TaskStatus::Complete);
}

#[test]
fn a_step_from_before_the_run_never_counts() {
    let world = World::new();
    world.place("side", world.tip("main"));
    world.say("side", step("main", "T001", "complete", 0));
    world.say("main", run_start("main", TREE));
    world.merge("main", "side");
    assert_eq!(world.status("main", "T001"), TaskStatus::Pending);
    world.say("main", step("main", "T002", "complete", 0));
    assert_eq!(world.status("main", "T002"), TaskStatus::Complete);
}

#[test]
fn histories_of_arborist_are_continued() {
    let world = World::new();
    world.say("main", "task(main@T001@test-fail): tests fail for \"A\" (attempt 1/5)\n\nArborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0\n");
    world.say("main", "task(main@T001@complete): complete \"A\"\n\nArborist-Step: complete\nArborist-Result: pass\n");
    world.say("main", old("T002", "implement", "Arborist-Result: pass\nArborist-Retry: 0"));
    let progress = world.progress("main");
    assert!(progress.is_begun(&tree_of("T001")) && progress.run_start().is_none());
    assert!(!progress.is_begun(&tree_of("T003")), "steps that name no tree may be of another one");
    assert_eq!(progress.task(&task("T001")).status, TaskStatus::Complete);
    assert_eq!(progress.task(&task("T002")).status, TaskStatus::Implementing);
    world.say("main", step("main", "T002", "complete", 0));
    assert_eq!(world.status("main", "T002"), TaskStatus::Complete);
}

#[test]
fn messages_are_read_however_they_were_written() {
    let world = World::new();
    let trailers = "Arborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0\n";
    let body = "Arborist-Step: complete\nArborist-Result: pass\n\n--- FAIL: TestA\n---\nmore";
    world.say("main", format!("task(main@T001@test-fail): t \"A\"\n\n{body}\n\n{trailers}"));
    world.say("main", format!("task(main@T002@test-fail): t \"A\"\n\n{body}\n\n{trailers}").replace('\n', "\r\n"));
    let latin = format!("task(main@T003@test-fail): caf\u{e9}\n\ncaf\u{e9}\n\n{trailers}");
    world.say("main", latin.chars().map(|c| c as u8).collect::<Vec<u8>>());
    world.say("main", format!("\n\ntask(main@T004@test-fail): t\n\n\n\n{trailers}\n\n"));
    for id in ["T001", "T002", "T003", "T004"] {
        let state = world.task("main", id);
        assert_eq!((state.status, state.attempts), (TaskStatus::Testing, 1), "{id}");
    }
    let feedback = told(&world, "T001");
    assert_eq!(feedback, told(&world, "T002"));
    assert_eq!(feedback[0].text, body);
    assert_eq!(told(&world, "T003")[0].text, "caf\u{fffd}");
}

/// What the commits of a task tell its next attempt.
fn told(world: &World, id: &str) -> Vec<Feedback> {
    world.task("main", id).feedback_steps().iter().filter_map(|found| found.feedback()).collect()
}

/// One letter a step: implement, test, review, complete, failed, reset; capital letters went wrong.
fn work(world: &World, branch: &str, id: &str, steps: &str) {
    for letters in steps.split(' ') {
        let (letters, retry) = letters.split_at(letters.find(|c: char| c.is_ascii_digit()).unwrap_or(letters.len()));
        for letter in letters.chars() {
            let status = match letter {
                'i' => "implement-pass",
                'I' => "implement-fail",
                't' => "test-pass",
                'T' => "test-fail",
                'r' => "review-approved",
                'R' => "review-rejected",
                'c' => "complete",
                'F' => "failed",
                'z' => "reset",
                's' => "skipped",
                other => panic!("{other}"),
            };
            world.say(branch, step("main", id, status, retry.parse().unwrap_or_default()));
        }
    }
}

#[test]
fn attempts_are_counted_by_their_results() {
    // Steps, attempts in all, in the budget, steps of the attempt that is not over.
    let table = [
        ("i0", 0, 0, 1),
        ("it0", 0, 0, 2),
        ("iT0", 1, 1, 0),
        ("I0", 1, 1, 0),
        ("iT0 i1", 1, 1, 1),
        ("iT0 itR1 itr2", 2, 2, 3),
        ("iT0 itr1 c", 2, 2, 0),
        ("iT0 I1 F", 2, 0, 0),
        ("iT0 I1 F iT2", 3, 1, 0),
        ("iT0 I1 F i2", 2, 0, 1),
        ("itr0 c z", 1, 0, 0),
        ("itr0 c z iT1", 2, 1, 0),
        ("s", 0, 0, 0),
        // The original counts from 0 again when it is started again, and may test what was not implemented.
        ("IT0 itr1 c", 2, 2, 0),
        ("iT0 iT0 i0", 2, 2, 1),
        ("iT0 iT1 F iT0 iT1 F", 4, 0, 0),
        // The landing finds the completed task broken: still the same attempt's result.
        ("itr0 c T0", 1, 1, 0),
        ("itr0 c T0 i1", 1, 1, 1),
        // Somebody changes what is complete, and it is checked again.
        ("iT0 itr1 c t1", 1, 1, 5),
        ("iT0 itr1 c tr1 c", 2, 2, 0),
        ("iT0 itr1 c tR1", 2, 2, 0),
        ("iT0 itr1 c tr1 c t1", 1, 1, 8),
        // A crash in mid-attempt, and the step done again.
        ("i0 it0", 0, 0, 3),
    ];
    let world = World::new();
    for (number, (steps, attempts, in_budget, unfinished)) in table.into_iter().enumerate() {
        let id = format!("T{number}");
        work(&world, "main", &id, steps);
        let state = world.task("main", &id);
        let found = (state.attempts, state.in_budget, state.unfinished().len());
        assert_eq!(found, (attempts, in_budget, unfinished), "{steps}");
    }
}

#[test]
fn feedback_lasts_until_the_task_completes_or_resets() {
    let world = World::new();
    let kinds = || told(&world, "T1").iter().map(|told| told.kind).collect::<Vec<_>>();
    work(&world, "main", "T1", "I0 iT1 itR2 F");
    let all = [FeedbackKind::RunnerError, FeedbackKind::TestFailure, FeedbackKind::Rejected];
    assert_eq!(kinds(), all, "a new budget learns from the old one");
    work(&world, "main", "T1", "itr3 c");
    assert_eq!(kinds(), []);
    work(&world, "main", "T1", "z");
    assert_eq!(kinds(), [FeedbackKind::TestFailure], "the reset says why");
    assert_eq!(told(&world, "T1")[0].text, "words about reset 0");
    work(&world, "main", "T1", "iT4");
    assert_eq!(kinds(), [FeedbackKind::TestFailure; 2]);
}

#[test]
fn a_task_branch_is_read_until_it_has_landed() {
    let world = World::new();
    world.say("main", run_start("main", TREE));
    let branch = "pleach/tasks/main/T001";
    world.place(branch, world.tip("main"));
    work(&world, branch, "T001", "iT0 itr1");
    let progress = world.progress("main");
    let state = progress.task(&task("T001"));
    assert_eq!((state.status, state.landed, state.attempts), (TaskStatus::Reviewing, false, 1));
    assert_eq!(state.newest().unwrap().on, StepPlace::Task(task("T001")));
    assert_eq!(progress.open[0].name, BranchName::new(branch).unwrap());
    assert!(progress.waiting_to_land().is_empty(), "it is not done");
    work(&world, branch, "T001", "c1");
    assert_eq!(world.progress("main").waiting_to_land(), [&task("T001")]);
    // Landed in the same shape.
    world.place("main", world.tip(branch));
    let progress = world.progress("main");
    assert!(progress.task(&task("T001")).landed && progress.open.is_empty());
    assert_eq!(progress.task(&task("T001")).steps.len(), 6);
    assert!(progress.waiting_to_land().is_empty());
}

#[test]
fn copies_of_steps_count_once() {
    let world = World::new();
    world.say("main", run_start("main", TREE));
    let branch = "pleach/tasks/main/T001";
    world.place(branch, world.tip("main"));
    work(&world, branch, "T001", "iT0 itr1 c1");
    world.say("main", "somebody else's work");
    let copies: Vec<_> = world.task("main", "T001").steps.iter().map(|found| found.commit).collect();
    for original in &copies {
        let commit = world.repo.commit(*original).unwrap();
        let copy = world.commit(&[world.tip("main")], &commit.message, commit.at.as_second());
        world.place("main", copy);
    }
    let progress = world.progress("main");
    let state = progress.task(&task("T001"));
    assert_eq!((state.steps.len(), state.attempts, state.landed), (6, 2, true));
    assert!(state.steps.iter().all(|found| found.on == StepPlace::Target));
    assert!(progress.open.is_empty(), "the branch is closed");
    // Merged beside its originals after all, by somebody who wanted to be sure.
    work(&world, "main", "T001", "z");
    world.merge("main", branch);
    let state = world.task("main", "T001");
    assert_eq!((state.steps.len(), state.status), (7, TaskStatus::Pending));
}

#[test]
fn a_closed_branch_is_left_alone_whatever_else_it_has() {
    let world = World::new();
    let branch = "pleach/tasks/main/T001";
    world.place(branch, world.tip("main"));
    work(&world, branch, "T001", "iT0");
    let newest = world.say(branch, step("main", "T001", "failed", 0));
    // Only the end of it was taken over.
    let commit = world.repo.commit(newest).unwrap();
    let copy = world.commit(&[world.tip("main")], &commit.message, commit.at.as_second());
    world.place("main", copy);
    assert_eq!(world.task("main", "T001").steps.len(), 1);
    // Also when something that is no step came after it.
    world.say(branch, "an afterthought");
    assert_eq!(world.task("main", "T001").steps.len(), 1);
    // A step after it opens the branch again.
    work(&world, branch, "T001", "i1");
    assert_eq!(world.status("main", "T001"), TaskStatus::Implementing);
}

#[test]
fn branches_of_other_targets_and_runs_are_not_read() {
    let world = World::new();
    world.place("feature/x", world.tip("main"));
    let own = "pleach/tasks/feature%2Fx/T001";
    world.place(own, world.tip("main"));
    world.say(own, step("feature/x", "T001", "test-fail", 0));
    world.place("pleach/tasks/main/T001", world.tip("main"));
    world.say("pleach/tasks/main/T001", step("main", "T001", "complete", 0));
    world.say("main", run_start("main", TREE));
    assert_eq!(world.status("feature/x", "T001"), TaskStatus::Testing);
    assert_eq!(world.status("main", "T001"), TaskStatus::Pending, "its branch is of a run before this one");
    world.merge("pleach/tasks/main/T001", "main");
    assert_eq!(world.status("main", "T001"), TaskStatus::Pending, "and stays so");
    world.say("pleach/tasks/main/T001", step("main", "T001", "implement-pass", 1));
    assert_eq!(world.status("main", "T001"), TaskStatus::Implementing);
    assert_eq!(world.task("main", "T001").steps.len(), 1);
}

#[test]
fn a_reset_is_newer_than_its_branch() {
    let world = World::new();
    let branch = "pleach/tasks/main/T001";
    world.place(branch, world.tip("main"));
    work(&world, branch, "T001", "itr0 c0");
    world.now.set(world.now.get() - 1);
    work(&world, "main", "T001", "z");
    assert_eq!(world.status("main", "T001"), TaskStatus::Pending, "also in the same second");
    work(&world, branch, "T001", "T1");
    assert_eq!(world.status("main", "T001"), TaskStatus::Testing);
}

#[test]
fn a_branch_is_newer_than_its_base_whatever_dates() {
    let world = World::new();
    work(&world, "main", "T001", "iT0 F");
    world.now.set(1_500_000_000);
    let branch = "pleach/tasks/main/T001";
    world.place(branch, world.tip("main"));
    work(&world, branch, "T001", "i1");
    assert_eq!(world.status("main", "T001"), TaskStatus::Implementing);
}

#[test]
fn tasks_land_on_their_phase_first() {
    let world = World::new();
    world.say("main", run_start("main", TREE));
    let phase = "pleach/phase/main/phase1";
    let branch = "pleach/tasks/main/T001";
    world.place(phase, world.tip("main"));
    world.place(branch, world.tip("main"));
    work(&world, branch, "T001", "itr0 c0");
    assert_eq!(world.progress("main").waiting_to_land(), [&task("T001")]);
    world.place(phase, world.tip(branch));
    let progress = world.progress("main");
    let state = progress.task(&task("T001"));
    assert_eq!((state.landed, state.newest().unwrap().on.clone()), (true, StepPlace::Phase(task("phase1"))));
    assert_eq!(progress.open.iter().map(|open| open.name.as_str()).collect::<Vec<_>>(), [phase]);
    work(&world, phase, "phase1", "t0");
    assert!(world.progress("main").gate(&task("phase1"), [&task("T001")]).green);
    world.merge("main", phase);
    let progress = world.progress("main");
    assert_eq!(progress.task(&task("T001")).newest().unwrap().on, StepPlace::Target);
    assert!(progress.gate(&task("phase1"), [&task("T001")]).green);
}

#[test]
fn a_gate_is_green_until_something_below_it_changes() {
    let world = World::new();
    let gate = || {
        let gate = world.progress("main").gate(&task("phase1"), [&task("T1"), &task("T2")]);
        (gate.runs, gate.newest.is_some(), gate.green)
    };
    work(&world, "main", "T1", "itr0 c0");
    assert_eq!(gate(), (0, false, false));
    work(&world, "main", "phase1", "T0");
    assert_eq!(gate(), (1, true, false));
    work(&world, "main", "phase1", "t1");
    work(&world, "main", "T9", "i0");
    assert_eq!(gate(), (2, true, true));
    work(&world, "main", "T2", "z");
    assert_eq!(gate(), (2, true, false));
    work(&world, "main", "phase1", "t2");
    assert_eq!(gate(), (3, true, true));
}

#[test]
fn a_task_keeps_the_name_it_had() {
    let world = World::new();
    work(&world, "main", "T1", "itr0 c0");
    assert_eq!(world.task("main", "T1").name_then.as_deref(), Some("Name"));
    let untested = "task(main@T2@complete): complete \"B\"\n\nArborist-Step: complete\nArborist-Result: pass\n\
                    Pleach-Tested: none\nPleach-Session: abcdefgh\n";
    world.say("main", untested);
    let state = world.task("main", "T2");
    assert_eq!((state.untested, state.session.unwrap().as_str()), (true, "abcdefgh"));
}

#[test]
fn a_shallow_history_is_read_as_far_as_possible() {
    let world = World::new();
    work(&world, "main", "T1", "itr0 c0");
    work(&world, "main", "T2", "i0");
    let clone = tempfile::tempdir().unwrap();
    let from = format!("file://{}", world.path().display());
    git(clone.path(), &["clone", "-q", "--depth", "2", &from, "."], b"");
    let repo = open(clone.path());
    let main = BranchName::new("main").unwrap();
    let mut reader = engine::tree::progress::ProgressReader::new(&repo, &main, "pleach/", None);
    let progress = reader.read(&named(TREE)).unwrap();
    assert!(progress.cut_off && !world.progress("main").cut_off);
    assert!(reader.read_whole(&named(TREE)).is_err(), "who goes on from there has to know all");
    assert_eq!(
        progress.tasks().map(|(id, state)| (id.as_str(), state.steps.len())).collect::<Vec<_>>(),
        [("T1", 1), ("T2", 1)]
    );
}

#[test]
fn cached_steps_are_not_read_again() {
    let world = World::new();
    let start = world.tip("main");
    work(&world, "main", "T1", "iT0 itr1 c1");
    for number in 0..120 {
        world.say("main", format!("commit {number}"));
    }
    let before = world.progress("main");
    work(&world, "main", "T2", "I0");
    let text = start.to_string();
    std::fs::remove_file(world.repo.common_dir().join("objects").join(&text[..2]).join(&text[2..])).unwrap();
    let after = world.progress("main");
    assert_eq!(after.task(&task("T1")), before.task(&task("T1")));
    assert_eq!(after.task(&task("T2")).attempts, 1);
    std::fs::remove_file(world.cache_files().pop().unwrap()).unwrap();
    let error = world.read("main", TREE, None).unwrap_err().to_string();
    assert!(error.contains(&text), "without a cache the first commit is missed: {error}");
}

#[test]
fn the_cache_may_be_deleted_or_damaged_at_any_time() {
    let world = World::new();
    work(&world, "main", "T1", "iT0 itr1 c1");
    for number in 0..120 {
        world.say("main", format!("commit {number}"));
    }
    let first = world.progress("main");
    let file = world.cache_files().pop().unwrap();
    let good = std::fs::read(&file).unwrap();
    for number in (0..good.len()).step_by(37) {
        let mut bad = good.clone();
        bad[number] ^= 0x55;
        std::fs::write(&file, bad).unwrap();
        assert_eq!(world.progress("main"), first, "byte {number}");
    }
    for length in [0, 7, 8, 30, good.len() - 1] {
        std::fs::write(&file, &good[..length]).unwrap();
        assert_eq!(world.progress("main"), first, "{length} bytes");
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(world.progress("main"), first);
    assert_eq!(std::fs::read(&file).unwrap(), good);
    // A target that was moved back has not done what the cache knows.
    world.git(&["update-ref", "refs/heads/main", &first.task(&task("T1")).steps[1].commit.to_string()]);
    assert_eq!(world.status("main", "T1"), TaskStatus::Testing);
}
