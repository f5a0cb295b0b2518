//! Where tasks are worked: their worktrees, their branches, and the repositories that have some.

use super::{start, task, world};
use crate::sessions::Gate;
use crate::support::Checkout;
use crate::trees::garden::APPROVES;

#[test]
fn a_tasks_worktree_is_shown_while_it_has_one() {
    let garden = world();
    let env = &garden.env;
    let id = task(env, "first", &[]);
    let worktree = || env.pleach(&["--json", "task", "worktree", &id]).expect(0).json();
    assert_eq!(worktree()["worktree"], serde_json::Value::Null);
    let gate = Gate::new(env, "work");
    garden.agent(&format!("{}; echo $task > $task.txt; pwd > where.txt", gate.command()), APPROVES);
    let mut run = env.spawn(&["-y", "task", "start", &id]);
    let waiting = gate.reached(&mut run);
    let shown = worktree();
    assert_eq!((&shown["state"], &shown["repo"]), (&"used".into(), &"repo".into()));
    assert!(shown["created"].is_string() && shown["branch"] == format!("pleach/tasks/main/{id}"));
    let path = shown["worktree"].as_str().expect("a path").to_owned();
    gate.open(waiting);
    run.end().expect(0);
    assert_eq!(garden.file("main", "where.txt"), path);
    assert_eq!(worktree()["worktree"], serde_json::Value::Null, "its slot is free again");
    env.pleach(&["task", "worktree", "task-zzzzzz"]).expect(2).fails_with("no-such-task");
}

#[test]
fn branches_of_all_known_repositories_are_listed() {
    let garden = world();
    let env = &garden.env;
    let id = task(env, "first", &[]);
    start(&garden, &[&id]).expect(0);
    let other = env.repo_at("other");
    env.git_in(&other, &["branch", "pleach/tasks/main/T007"]);
    env.pleach(&["task", "new", "x", "--repo", "../other"]).expect(0);
    let branches = |args: &[&str]| {
        let list = env.pleach(&[&["--json"], args, &["task", "branches"]].concat()).expect(0).json();
        let all = list["branches"].as_array().expect("a list").iter();
        all.map(|branch| (branch["task"].as_str().expect("an id").to_owned(), branch["state"].clone()))
            .collect::<Vec<_>>()
    };
    let expected = [("T007".to_owned(), serde_json::Value::Null), (id, "landed".into())];
    assert_eq!(branches(&[]), expected);
    assert_eq!(branches(&["-C", ".."]), expected, "also from outside");
    // The list is a cache; without it the repository around is known.
    std::fs::remove_file(env.root().join("state/pleach/repositories")).expect("the list");
    assert_eq!(branches(&[]), expected[1..]);
    std::fs::write(env.root().join("state/pleach/repositories"), format!("{}\n", env.root().join("home").display()))
        .expect("a file of the test's own");
    env.pleach(&["task", "branches"]).expect(0).warns("repository-unusable").naming("home");
}

#[test]
fn the_checkout_is_untouched_until_a_task_lands() {
    let garden = world();
    let env = &garden.env;
    env.write("repo/README.md", "changed by the user\n");
    let id = task(env, "first", &[]);
    let gate = Gate::new(env, "work");
    garden.agent(&format!("echo $task > $task.txt; {}", gate.command()), APPROVES);
    let before = Checkout::of(env, &env.repo_path());
    let mut run = env.spawn(&["-y", "task", "start", &id]);
    let waiting = gate.reached(&mut run);
    before.assert_unchanged(env, &env.repo_path());
    gate.open(waiting);
    let ran = run.end().expect(0);
    ran.warns("dirty-files").naming("README.md");
    assert_eq!(env.git(&["status", "--porcelain"]), " M README.md");
}

#[test]
fn a_taken_branch_of_a_task_is_kept() {
    let garden = world();
    let env = &garden.env;
    let id = task(env, "first", &[]);
    // Somebody has made a branch of that name, with a commit that is in no step.
    env.git(&["switch", "--quiet", "--create", &format!("pleach/tasks/main/{id}")]);
    garden.commit("by-hand.txt", "mine\n");
    let by_hand = env.git(&["rev-parse", "HEAD"]);
    env.git(&["switch", "--quiet", "main"]);
    let ran = start(&garden, &[&id]).expect(0);
    ran.warns("task-branch-restarted").naming("refs/pleach/keep/");
    let kept = env.git(&["for-each-ref", "--format=%(objectname)", "refs/pleach/keep/"]);
    assert_eq!(kept, by_hand, "nothing of it is lost");
}

#[test]
fn files_in_the_place_of_a_worktree_are_moved_aside() {
    let garden = world();
    let env = &garden.env;
    garden.configure(&format!("worktrees: {{base: '{}/copies'}}\n", env.root().display()));
    env.write("copies/tasks/main/main/notes.txt", "the user's own\n");
    let id = task(env, "first", &[]);
    let ran = start(&garden, &[&id]).expect(0);
    ran.warns("moved-aside").naming("copies/tasks/main");
    let find = env.program("find", env.root()).args(["copies", "-name", "notes.txt"]).output().expect("find is there");
    let found = String::from_utf8(find.stdout).expect("text");
    assert_eq!(env.read(found.trim()), "the user's own\n", "nothing of it is lost");
    assert_eq!(garden.completed(), [id]);
}
