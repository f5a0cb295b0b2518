//! What the setup of a worktree makes is what work starts with: in no commit, and there after every reset.

use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree};

/// A new file, a change of a tracked one, and one less.
const SETUP: &str = "mkdir -p made; echo s > made/new; echo 2 >> lock; rm gone";

fn world() -> TestEnv {
    let env = TestEnv::with_repo();
    env.write("repo/lock", "1\n");
    env.write("repo/gone", "still here\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A lock file"]);
    env.configure(&format!("worktrees: {{setup: '{SETUP}'}}\n"));
    env
}

fn kept(env: &TestEnv) -> String {
    env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"])
}

#[test]
fn setup_files_are_committed_only_once_changed() {
    let env = world();
    let dot = graph(
        "four",
        &(tool("first", "cat lock made/new > seen")
            + &tool("second", "echo more >> made/new")
            + &tool("third", "echo mine >> lock")
            + &tool("fourth", "rm made/new; echo back > gone")
            + "start -> first -> second -> third -> fourth -> exit"),
    );
    let ran = env.run(&dot, &[]).expect(0);
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [vec!["seen"], vec!["made/new"], vec!["lock"], vec!["gone", "made/new"]]);
    assert_eq!(env.committed("seen"), "1\n2\ns", "the setup was there to work with");
    assert_eq!(env.committed("lock"), "1\n2\nmine");
    let warned: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("`worktrees.setup` changed")).collect();
    assert_eq!(warned.len(), 1, "{ran}");
    assert!(warned[0].contains("`gone` (tracked), `lock` (tracked), `made/new`;"), "{}", warned[0]);
    assert_eq!(kept(&env), "");
}

#[test]
fn an_ignored_setup_gives_no_warning() {
    let env = world();
    env.configure("worktrees: {setup: 'echo s > \"$(git rev-parse --git-path s)\"; touch lock'}\n");
    let ran = env.run(&graph("one", &(tool("work", "echo 1 > one") + "start -> work -> exit")), &[]).expect(0);
    assert!(!ran.stderr.contains("worktrees.setup"), "{ran}");
    assert_eq!(env.changed(&env.commits()[0]), ["one"]);
}

#[test]
fn a_kill_and_resume_leave_the_setup_unchanged() {
    let env = world();
    let gate = Gate::new(&env, "second");
    // The first time it changes everything and waits; the second time it finds the gate open and what it started with.
    let passed = env.root().join("second.passed");
    let spoil = format!("test -e '{}' || (rm made/new; echo bad > lock; echo half > half)", passed.display());
    let second = format!("{spoil}; ({}); cat lock made/new > seen", gate.command());
    let dot =
        graph("two", &(tool("first", "echo 1 > one") + &tool("second", &second) + "start -> first -> second -> exit"));
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    let ran = env.resume(&[]).expect(0);
    assert_eq!(env.committed("seen"), "1\n2\ns");
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [["one"], ["seen"]]);
    let kept = kept(&env);
    assert_eq!(env.git(&["show", &format!("{kept}:lock")]), "bad", "what it had changed is kept: {ran}");
    assert!(!ran.stderr.contains("worktrees.setup"), "it has not run again: {ran}");
}

#[test]
fn work_in_place_of_setup_files_stays() {
    let env = world();
    env.configure("worktrees: {setup: 'mkdir build; echo s > build/s; echo s > plain'}\n");
    let dot = graph(
        "two",
        &(tool("work", "rm -r build plain; echo mine > build; mkdir plain; echo mine > plain/file")
            + " ask [shape=hexagon, label=\"Go on?\"]\n"
            + &tool("look", "cat build plain/file > seen")
            + "start -> work -> ask; ask -> look [label=\"Yes\"]; ask -> exit [label=\"No\"]; look -> exit"),
    );
    env.run(&dot, &[]).expect(4);
    env.resume(&["--answer", "ask=Yes"]).expect(0);
    assert_eq!(env.committed("seen"), "mine\nmine");
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [vec!["build", "plain/file"], vec!["seen"]]);
    assert_eq!(kept(&env), "");
}

#[test]
fn a_node_that_must_not_write_gives_the_setup_back() {
    let env = world();
    let check =
        " check [shape=parallelogram, write=false, tool_command=\"rm made/new; echo bad > lock; echo x > junk\"]\n";
    let dot = graph(
        "two",
        &(check.to_owned()
            + &tool("work", "cat lock made/new > seen; test ! -e gone")
            + "start -> check -> work -> exit"),
    );
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("seen"), "1\n2\ns");
    assert_eq!(env.commits().len(), 1);
    assert_eq!(env.changed(&env.commits()[0]), ["seen"]);
    // What is left in the worktree is nobody's work, so removing the session keeps nothing of it.
    let before = kept(&env);
    env.git(&["merge", "--quiet", &env.branch()]);
    let ran = env.pleach(&["rm", &env.session()]).expect(0);
    assert_eq!(kept(&env), before, "{ran}");
}

#[test]
fn a_read_only_nodes_removals_and_reverts_are_undone() {
    let setups_work = "cat lock made/new > seen; test ! -e gone";
    for (command, named) in [
        ("rm made/new", "`made/new`"),
        ("git checkout -q lock", "`lock`"),
        ("git checkout -q gone", "`gone`"),
        ("rm -r made; mkdir -p made/new", "`made/new`"),
        ("git checkout -q .; git clean -qfd", "`gone`, `lock`, `made/new`"),
    ] {
        let env = world();
        let check = format!(" check [shape=parallelogram, write=false, tool_command=\"{command}\"]\n");
        let dot = graph("two", &(check + &tool("work", setups_work) + "start -> check -> work -> exit"));
        let ran = env.run(&dot, &[]).expect(0);
        let said = format!("`check` must not write; its changes ({named}) were undone\n");
        assert_eq!(ran.stderr.matches("must not write").count(), 1, "{ran}");
        assert!(ran.stderr.contains(&said), "{said}{ran}");
        assert_eq!(env.committed("seen"), "1\n2\ns");
        assert_eq!(kept(&env), "", "there was nothing no commit has: {ran}");
    }
}

#[test]
fn foreign_setup_changes_are_not_blamed_on_read_only_nodes() {
    let env = world();
    let check = " check [shape=parallelogram, write=false, tool_command=\"true\"]\n";
    let dot = graph(
        "three",
        &(tool("work", "rm made/new; git checkout -q lock")
            + check
            + &tool("look", "cat lock > seen; test ! -e made/new")
            + "start -> work -> check -> look -> exit"),
    );
    let ran = env.run(&dot, &[]).expect(0);
    ran.does_not_warn("read-only-undone");
    assert_eq!(env.committed("seen"), "1");
}

#[test]
fn a_removed_setup_is_restored_for_the_next_task() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.configure("worktrees: {setup: 'echo s > made'}\n");
    garden.agent("cat made > \"$task.txt\"; rm made; echo Done.", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    ran.does_not_warn("read-only-undone");
    assert_eq!([garden.file("main", "T001.txt"), garden.file("main", "T002.txt")], ["s", "s"]);
}

#[test]
fn tree_tasks_share_a_setup_that_never_lands() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.configure("worktrees: {setup: 'echo s > made; echo 2 >> README.md'}\n");
    garden.agent("cat made README.md > \"$task.txt\"; echo Done.", APPROVES);
    let readme = garden.env.git(&["show", "main:README.md"]);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "T002.txt", "task-tree.json"]);
    assert_eq!(garden.env.git(&["show", "main:README.md"]), readme);
    for task in ["T001", "T002"] {
        assert_eq!(garden.env.read(format!("repo/{task}.txt")), format!("s\n{readme}\n2\n"));
    }
    assert_eq!(ran.stderr.matches("`worktrees.setup` changed").count(), 1, "{ran}");
    assert_eq!(kept(&garden.env), "", "nothing of it had to be kept");
    // Another run finds the same worktree.
    garden.plant(&Tree::of(&["T001", "T002: T001", "T003: T002"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.env.read("repo/T003.txt"), format!("s\n{readme}\n2\n"));
    assert_eq!(garden.env.git(&["show", "main:README.md"]), readme);
    assert_eq!(kept(&garden.env), "");
}

#[test]
fn a_setup_swapping_files_and_directories_removes_nothing() {
    let setup = "rm -r vendor plain; ln -s ../elsewhere vendor; mkdir plain; echo s > plain/s";
    let env = world();
    env.write("repo/vendor/lib.c", "int lib;\n");
    env.write("repo/plain", "a file\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "A directory and a file"]);
    env.configure(&format!("worktrees: {{setup: '{setup}'}}\n"));
    let check = tool("check", "rm vendor; echo bad > plain/s").replace("[", "[write=false, ");
    let seen = "readlink vendor > seen; cat plain/s >> seen";
    let dot = graph(
        "three",
        &(tool("first", "echo 1 > one") + &check + &tool("last", seen) + "start -> first -> check -> last -> exit"),
    );
    env.run(&dot, &[]).expect(0);
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [["one"], ["seen"]]);
    assert_eq!(env.committed("seen"), "../elsewhere\ns");
    assert_eq!(env.committed("vendor/lib.c"), "int lib;");

    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.commit("vendor/lib.c", "int lib;\n");
    garden.commit("plain", "a file\n");
    garden.configure(&format!("worktrees: {{setup: '{setup}'}}\n"));
    garden.agent("echo mine > \"$task.txt\"; echo Done.", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    let files = ["README.md", "T001.txt", "T002.txt", "plain", "task-tree.json", "vendor/lib.c"];
    assert_eq!(garden.files("main"), files);
    assert_eq!(kept(&garden.env), "");
}

#[test]
fn work_in_place_of_removed_setup_files_stays() {
    let env = world();
    let dot = graph(
        "three",
        &(tool("first", "mkdir gone; echo work > gone/y")
            + &tool("second", "echo 2 > two")
            + &tool("third", "echo 3 > three")
            + "start -> first -> second -> third -> exit"),
    );
    env.run(&dot, &[]).expect(0);
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [vec!["gone", "gone/y"], vec!["two"], vec!["three"]]);
    assert_eq!(env.committed("gone/y"), "work");
}

#[test]
fn setup_files_an_agent_commits_are_committed() {
    let env = world();
    let own = "git add lock gone made/new; git commit --quiet -m \"Update the lock file as asked\"";
    let dot = graph(
        "two",
        &(tool("first", "git add lock; git commit --quiet -m \"The lock file\"; echo 1 > one")
            + &tool("second", own)
            + "start -> first -> second -> exit"),
    );
    env.run(&dot, &[]).expect(0);
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [["lock", "one"], ["gone", "made/new"]]);
    assert_eq!(env.committed("lock"), "1\n2");
    assert_eq!(env.git(&["diff", "--name-only", &format!("{}^2", env.branch()), &env.branch()]), "");
    assert_eq!(kept(&env), "");
}

#[test]
fn setup_files_too_large_to_commit_stay() {
    let env = world();
    env.configure("worktrees: {setup: 'truncate -s 51M model.bin'}\n");
    let check = tool("check", "echo x > junk").replace("[", "[write=false, ");
    let dot = graph(
        "two",
        &(tool("first", "echo 1 > one")
            + &check
            + " ask [shape=hexagon, label=\"Go on?\"]\n"
            + &tool("last", "stat -c %s model.bin > seen")
            + "start -> first -> check -> ask; ask -> last [label=\"Yes\"]; ask -> exit [label=\"No\"]; last -> exit"),
    );
    let ran = env.run(&dot, &[]).expect(4);
    ran.warns("setup-changed-files").naming("`model.bin`");
    // Nobody's work is held back.
    ran.does_not_warn("file-held-back");
    env.resume(&["--answer", "ask=Yes"]).expect(0);
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [["one"], ["seen"]]);
    assert_eq!(env.committed("seen"), "53477376");
}

/// A garden whose setup makes what git ignores and counts how often it runs.
fn with_deps(tree: &Tree) -> Garden {
    let garden = Garden::new(tree);
    garden.commit(".gitignore", "deps/\n");
    sets_up(&garden, "");
    garden
}

fn sets_up(garden: &Garden, more: &str) {
    let setup = format!("echo ran >> \"$HOME/ran\"; {more} mkdir -p deps; echo s > deps/lib");
    garden.configure(&format!("worktrees:\n  setup: |\n    {setup}\n"));
}

fn runs(garden: &Garden) -> usize {
    garden.env.read("home/ran").lines().count()
}

const NEEDS_DEPS: &[&str] = &["unit: test -e deps/lib"];

#[test]
fn a_setup_reruns_after_a_test_exposed_its_files() {
    let tree = Tree::of(&["T001", "T002: T001"]).tests("T001", &["unit: test -e deps/lib; : > .gitignore"]);
    let garden = with_deps(&tree.tests("T002", NEEDS_DEPS));
    garden.agent("cp deps/lib \"$task.txt\"; echo Done.", "test -e deps/lib || exit 1; echo APPROVED");
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(runs(&garden), 2, "{ran}");
    assert_eq!(ran.stderr.matches("`worktrees.setup` has run again").count(), 1, "{ran}");
    assert_eq!(garden.files("main"), [".gitignore", "README.md", "T001.txt", "T002.txt", "task-tree.json"]);
    let kept = kept(&garden.env);
    assert_eq!(garden.env.git(&["show", &format!("{kept}:deps/lib")]), "s", "what was removed is kept: {ran}");
}

#[test]
fn a_setup_reruns_when_the_next_task_has_other_rules() {
    // Once somebody has committed other rules, and once a task that is given up had some of its own.
    for gives_up in [false, true] {
        let tree = Tree::of(&["T001", "T002"]).tests("T002", NEEDS_DEPS);
        let garden = with_deps(&tree);
        if gives_up {
            garden.agent(": > .gitignore; echo 1 > \"$task.txt\"", "echo REJECTED no");
            garden.gardener(&["--max-retries", "1"]).expect(1);
            assert_eq!(garden.file("pleach/tasks/main/T001", "deps/lib"), "s", "it was taken for work");
            garden.agent("echo 2 > \"$task.txt\"", APPROVES);
        } else {
            garden.garden(&["--task", "T001"]).expect(0);
            garden.commit(".gitignore", "other/\n");
        }
        assert_eq!(runs(&garden), 1);
        let ran = garden.garden(&["--task", "T002"]).expect(0);
        assert_eq!(runs(&garden), 2, "{gives_up}: {ran}");
        assert!(!garden.files("main").contains(&"deps/lib".to_owned()), "{gives_up}: {ran}");
        let names = "changed files that git does not ignore: `deps/lib`;";
        assert_eq!(ran.stderr.contains(names), !gives_up, "{gives_up}: {ran}");
        // It is there now, and stays.
        garden.plant(&Tree::of(&["T001", "T002", "T003"]).tests("T003", NEEDS_DEPS));
        garden.garden(&["--task", "T003"]).expect(0);
        assert_eq!(runs(&garden), 2, "{gives_up}");
    }
}

#[test]
fn an_interrupted_setup_rerun_runs_once_more() {
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: test -e deps/lib; : > .gitignore"]);
    let garden = with_deps(&tree);
    let gate = Gate::new(&garden.env, "setup");
    sets_up(&garden, &format!("if [ $(wc -l < \"$HOME/ran\") = 2 ]; then {}; fi;", gate.command()));
    garden.agent("echo 1 > one", "test -e deps/lib || exit 1; echo APPROVED");
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(runs(&garden), 3, "{ran}");
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 test-pass", "T001 review-approved", "T001 complete"]);
    assert_eq!(garden.files("main"), [".gitignore", "README.md", "one", "task-tree.json"]);
}
