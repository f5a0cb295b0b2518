//! What is not in worktrees, because of `worktrees.exclude` or of the user's own sparse checkout: it stays as it is in
//! every commit, and what somebody makes in its place is work like any other.

use crate::sessions::{graph, tool};
use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree};

/// A command that must not write.
fn check(name: &str, command: &str) -> String {
    tool(name, command).replace("shape=parallelogram", "shape=parallelogram, write=false")
}

/// A repository with files in `out/` and some others.
fn with_files() -> TestEnv {
    let env = TestEnv::with_repo();
    for path in ["CLAUDE.md", "in/f", "out/deep/h", "out/g"] {
        env.write(format!("repo/{path}"), format!("{path}\n"));
    }
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
    env
}

#[test]
fn new_files_among_excluded_ones_are_work() {
    let exclude = |env: &TestEnv| env.configure("worktrees: {exclude: [out/]}\n");
    let cone = |env: &TestEnv| drop(env.git(&["sparse-checkout", "set", "--cone", "in"]));
    let no_cone = |env: &TestEnv| drop(env.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/out/"]));
    let ways: [&dyn Fn(&TestEnv); 3] = [&exclude, &cone, &no_cone];
    for leave_out in ways {
        let env = with_files();
        leave_out(&env);
        let dot = tool("a", "ls -A > seen; mkdir -p out; echo precious > out/new; mkdir out2; echo 1 > out2/x")
            + &check("t", "echo t > out/t; echo y > y")
            + &tool("b", "ls out > after")
            + "start -> a -> t -> b -> exit";
        let ran = env.run(&graph("work", &dot), &[]).expect(0);
        assert_eq!(env.committed("seen"), ".git\nCLAUDE.md\nREADME.md\nin\nseen");
        assert_eq!(env.committed("out/new"), "precious");
        assert_eq!(env.committed("after"), "new", "what must not be written is not there any more");
        let files = ["CLAUDE.md", "README.md", "after", "in/f", "out/deep/h", "out/g", "out/new", "out2/x", "seen"];
        assert_eq!(env.files(), files, "{ran}");
        let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
        assert_eq!(env.git(&["show", &format!("{kept}:out/t")]), "t");
        assert_eq!(env.git(&["show", &format!("{kept}:y")]), "y");
    }
}

#[test]
fn a_file_in_place_of_an_excluded_one_is_work() {
    let env = with_files();
    env.configure("worktrees: {exclude: [out/]}\n");
    let dot = check("t", "echo t > out") + &tool("a", "test ! -e out; echo work > out") + "start -> t -> a -> exit";
    env.run(&graph("place", &dot), &[]).expect(0);
    assert_eq!(env.files(), ["CLAUDE.md", "README.md", "in/f", "out"]);
    assert_eq!(env.committed("out"), "work");
}

#[test]
fn undone_files_are_excluded_again() {
    let env = with_files();
    env.configure("worktrees: {exclude: [out/, CLAUDE.md]}\n");
    let dot = check("t", "mkdir -p out; echo mine > out/g; echo mine > CLAUDE.md")
        + &tool("a", "ls -A > seen; git status --porcelain > state; rm -rf out CLAUDE.md")
        + "start -> t -> a -> exit";
    let ran = env.run(&graph("undo", &dot), &[]).expect(0);
    assert_eq!(env.committed("seen"), ".git\nREADME.md\nin\nseen", "{ran}");
    assert_eq!(env.committed("state"), "?? seen\n?? state");
    assert_eq!(env.files(), ["CLAUDE.md", "README.md", "in/f", "out/deep/h", "out/g", "seen", "state"]);
    assert_eq!((env.committed("CLAUDE.md"), env.committed("out/g")), ("CLAUDE.md".into(), "out/g".into()));
}

/// Says outside what a task sees.
const LOOKS: &str = "find . -type f -not -path './.git' -not -path './logs/*' -not -path './reports/*' | sort > \"$W/asked/$task.seen\"; echo 1 > \"$task.txt\"";

/// What a task has seen that is worked now.
fn seen(garden: &Garden, task: &str) -> Vec<String> {
    garden.garden(&[]).expect(0);
    let text = garden.env.read(format!("asked/{task}.seen"));
    text.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

#[test]
fn later_excluded_files_are_left_out_too() {
    for is_own in [false, true] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        garden.agent(LOOKS, APPROVES);
        garden.commit("out/g", "g\n");
        if is_own {
            drop(garden.env.git(&["sparse-checkout", "set", "--cone", "in"]))
        } else {
            garden.configure("worktrees: {exclude: [out/]}\n")
        }
        assert_eq!(seen(&garden, "T001"), ["README.md", "task-tree.json"]);
        garden.env.write("repo/out/new", "n\n");
        garden.env.git(&["add", "--sparse", "out/new"]);
        garden.env.git(&["commit", "--quiet", "-m", "New"]);
        assert_eq!(seen(&garden, "T002"), ["README.md", "T001.txt", "task-tree.json"]);
        let files = ["README.md", "T001.txt", "T002.txt", "out/g", "out/new", "task-tree.json"];
        assert_eq!(garden.files("main"), files);
    }
}

#[test]
fn a_changed_exclude_counts_in_worktrees_that_are_there() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003", "T004"]));
    garden.agent(LOOKS, APPROVES);
    garden.commit("out/g", "g\n");
    garden.commit("CLAUDE.md", "c\n");
    let all = ["CLAUDE.md", "README.md", "out/g", "task-tree.json"];
    assert_eq!(seen(&garden, "T001"), all);
    garden.configure("worktrees: {exclude: [out/]}\n");
    assert_eq!(seen(&garden, "T002"), ["CLAUDE.md", "README.md", "T001.txt", "task-tree.json"]);
    garden.configure("worktrees: {exclude: [CLAUDE.md]}\n");
    assert_eq!(seen(&garden, "T003"), ["README.md", "T001.txt", "T002.txt", "out/g", "task-tree.json"]);
    garden.configure("");
    let files = ["CLAUDE.md", "README.md", "T001.txt", "T002.txt", "T003.txt", "out/g", "task-tree.json"];
    assert_eq!(seen(&garden, "T004"), files);
    assert_eq!(garden.refs("refs/pleach/keep/"), Vec::<String>::new(), "nothing looked like work");
    assert_eq!((garden.file("main", "out/g"), garden.file("main", "CLAUDE.md")), ("g".into(), "c".into()));
}

/// A repository with settings of an agent in it.
fn with_agent_settings() -> TestEnv {
    let env = TestEnv::with_repo();
    env.write("repo/.claude/settings.json", "{}\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Settings"]);
    env
}

#[test]
fn claude_settings_are_left_out_by_default() {
    let work = tool("a", "ls -A > seen; mkdir -p .claude; echo n > .claude/new") + "start -> a -> exit";
    let env = with_agent_settings();
    env.run(&graph("work", &work), &[]).expect(0);
    assert_eq!(env.committed("seen"), ".git\nREADME.md\nseen");
    assert_eq!(env.files(), [".claude/new", ".claude/settings.json", "README.md", "seen"], "what is new there is work");
    let env = with_agent_settings();
    env.configure("worktrees: {exclude: []}\n");
    env.run(&graph("work", &work), &[]).expect(0);
    assert_eq!(env.committed("seen"), ".claude\n.git\nREADME.md\nseen");
}

#[test]
fn the_default_exclude_is_silent_where_it_matches_nothing() {
    let env = TestEnv::with_repo();
    let ran = env.run(&graph("work", &(tool("a", "echo 1 > x") + "start -> a -> exit")), &[]).expect(0);
    ran.does_not_warn("exclude-idle");
    let rules =
        env.git_in(&env.worktree(), &["rev-parse", "--path-format=absolute", "--git-path", "info/sparse-checkout"]);
    assert!(!std::path::Path::new(&rules).exists(), "and makes no sparse checkout");
}

#[test]
fn claude_settings_that_land_are_left_out_of_slots() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent(&format!("{LOOKS}; mkdir -p .claude; echo $task > .claude/$task"), APPROVES);
    garden.gardener(&[]).expect(0);
    let seen = garden.env.read("asked/T002.seen");
    assert!(!seen.contains(".claude") && seen.contains("T001.txt"), "{seen}");
    let files = garden.files("main");
    assert!([".claude/T001", ".claude/T002"].iter().all(|file| files.contains(&(*file).to_owned())), "{files:?}");
    assert_eq!(garden.refs("refs/pleach/keep/"), Vec::<String>::new(), "nothing looked like work");
}
