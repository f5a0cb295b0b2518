//! The commands a run ends with: each works as it is printed, from where the run was started.

use std::path::Path;

use super::garden::{APPROVES, Garden, Tree};
use crate::sessions::graph;
use crate::support::Ran;

/// Two trees with the same tasks, and an agent whose work fails every test.
fn alike(tree: &Tree) -> Garden {
    let garden = Garden::new(tree);
    garden.env.git(&["rm", "--quiet", "task-tree.json"]);
    for place in ["specs/a", "specs/b"] {
        garden.commit(&format!("{place}/task-tree.json"), &tree.json());
    }
    garden.agent("echo \"$n\" > \"$task\"", APPROVES);
    on_path(garden)
}

/// A garden in which a shell finds the built program.
fn on_path(garden: Garden) -> Garden {
    let bin = garden.env.root().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pleach"), bin.join("pleach")).unwrap();
    garden
}

/// Types a command line at a shell.
#[track_caller]
fn type_in(garden: &Garden, dir: &Path, line: &str) -> Ran {
    let mut shell = garden.env.program("sh", dir);
    garden.env.finish(shell.args(["-c", line]).output().expect("a shell can be started"))
}

/// What is printed behind a word.
#[track_caller]
fn told<'a>(ran: &'a Ran, word: &str) -> &'a str {
    let line = ran.stdout.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no `{word}`: {ran}")).trim()
}

#[test]
fn printed_commands_inspect_and_retry_a_failed_task() {
    let failing = Tree::of(&["T001"]).tests("T001", &["unit: false"]);
    for (inside, line) in [
        (true, "pleach -y gardener --fresh --tree specs/a/task-tree.json --max-retries 1"),
        (true, "pleach -y garden --tree=specs/a/task-tree.json --max-retries 1 --task T001"),
        (false, "pleach -C repo gardener -y --tree specs/a/task-tree.json --max-retries 1"),
        (false, "pleach -y gardener --target-repo ./repo --tree repo/specs/a/task-tree.json --max-retries 1"),
        (false, "pleach -y -C repo/specs gardener --target-repo .. --tree a/task-tree.json --max-retries 1"),
    ] {
        let garden = alike(&failing);
        let dir = if inside { garden.env.repo_path() } else { garden.env.root().to_owned() };
        let ran = type_in(&garden, &dir, line).expect(1);
        let look = type_in(&garden, &dir, told(&ran, "look")).expect(0);
        assert!(look.stdout.contains("T001 ") && look.stdout.contains("(tests failed: exit 1)"), "{line}: {look}");
        assert_eq!(garden.times_asked("T001", "implement"), 1);
        let again = type_in(&garden, &dir, told(&ran, "retry")).expect(1);
        assert_eq!(garden.times_asked("T001", "implement"), 2, "{line}: {again}");
        assert_eq!(told(&again, "retry"), told(&ran, "retry"), "once is enough");
    }
}

#[test]
fn printed_commands_inspect_and_reopen_a_red_phase() {
    let garden = alike(&Tree::default().phase("p1", &["T001"]).tests("p1", &["integration: false"]));
    let root = garden.env.root();
    let ran = type_in(&garden, root, "pleach -C repo gardener -y --tree specs/b/task-tree.json").expect(1);
    let look = type_in(&garden, root, told(&ran, "look")).expect(0);
    assert!(look.stdout.contains("p1"), "{look}");
    let reset = told(&ran, "next").split('`').nth(3).expect("a command").replace("TASK", "T001");
    let reset = type_in(&garden, root, &reset).expect(0);
    assert!(reset.stdout.contains("reset: T001"), "{reset}");
}

#[test]
fn printed_commands_continue_a_stalled_tree() {
    let tree = Tree::of(&["T001", "T002: T001"]).tests("T001", &["unit: false"]);
    let garden = alike(&tree);
    let root = garden.env.root();
    let line = "pleach -C repo gardener -y --tree specs/a/task-tree.json --max-retries 1";
    let ran = type_in(&garden, root, line).expect(1);
    assert_eq!(told(&ran, "code"), "on `pleach/tasks/main/T001`");
    assert_eq!(garden.file("pleach/tasks/main/T001", "T001"), "1");
    let ran = type_in(&garden, root, line).expect(1);
    assert_eq!((ran.ended().0, ran.waits("T002")), ("stalled", ("T001", "failed")), "{ran}");
    let look = type_in(&garden, root, told(&ran, "look")).expect(0);
    assert!(look.stdout.contains("T001 ") && look.stdout.contains("(tests failed: exit 1)"), "{look}");
    type_in(&garden, root, told(&ran, "retry")).expect(1);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    let status = type_in(&garden, root, "pleach -C repo status --tree specs/a/task-tree.json").expect(0);
    assert!(
        status.stdout.contains("waits for T001 (failed)\n  --retry-failed gives what failed another budget\n"),
        "{status}"
    );
    type_in(&garden, root, told(&ran, "skip")).expect(0);
    type_in(&garden, root, line).expect(0);

    let ran = type_in(&garden, root, &format!("{line} --fresh")).expect(1);
    assert_eq!(ran.landed(), [], "{ran}");
    assert!(ran.stderr.contains("the steps of T001, without its code, are on main"), "{ran}");
}

#[test]
fn a_blocked_task_names_the_run_of_its_blockers() {
    let garden = alike(&Tree::of(&["T001", "T002: T001"]));
    let root = garden.env.root();
    let ran = type_in(&garden, root, "pleach -C repo garden -y --task T002 --tree specs/b/task-tree.json").expect(1);
    type_in(&garden, root, told(&ran, "first")).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

#[test]
fn printed_commands_retry_what_one_task_waits_for() {
    let tree =
        Tree::default().leaf("T001", None).phase("p1", &["T003"]).leaf("T002: T001", None).leaf("T004: p1", None);
    let garden = alike(&tree.tests("T001", &["unit: false"]).tests("T003", &["unit: false"]));
    let root = garden.env.root();
    let line =
        |task: &str| format!("pleach -C repo garden -y --tree specs/a/task-tree.json --max-retries 1 --task {task}");
    type_in(&garden, root, &line("T001")).expect(1);
    type_in(&garden, root, &line("T003")).expect(1);
    let ran = type_in(&garden, root, &line("T002")).expect(1);
    type_in(&garden, root, told(&ran, "retry")).expect(1);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    // Of a phase, the task that failed is named.
    let ran = type_in(&garden, root, &line("T004")).expect(1);
    assert!(ran.waits("T004") == ("p1", "failed") && ran.stdout.contains("(T003 "), "{ran}");
    let look = type_in(&garden, root, told(&ran, "look")).expect(0);
    assert!(look.stdout.contains("T003 Grow T003"), "{look}");
    type_in(&garden, root, told(&ran, "retry")).expect(1);
    assert_eq!(garden.times_asked("T003", "implement"), 2);
    type_in(&garden, root, told(&ran, "skip")).expect(0);
    type_in(&garden, root, &line("T004")).expect(0);

    garden.env.git(&["branch", "--quiet", "-D", "pleach/tasks/main/T001"]);
    let ran = type_in(&garden, root, &line("T001")).expect(1);
    assert!(!ran.stdout.contains("code:"), "there is none: {ran}");
}

#[test]
fn a_phase_names_its_tasks_that_are_in_the_way() {
    let tree = Tree::default().phase("p1", &["T001", "T002"]).phase("p2", &["T003: p1"]);
    let garden = Garden::new(&tree.tests("T002", &["unit: false"]));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let ran = garden.gardener(&[]).expect(1);
    assert!(ran.waits("T003") == ("p1", "failed") && ran.stdout.contains("(T002 "), "{ran}");
    assert_eq!(told(&ran, "look"), "pleach inspect T002 --tree task-tree.json");
    assert_eq!(told(&ran, "skip"), "pleach skip T002 --tree task-tree.json");
    let status = garden.env.pleach(&["status", "--json"]).expect(0).json();
    let wait = serde_json::json!({"on": "p1", "why": "failed", "failed": ["T002"]});
    assert_eq!(status["trees"][0]["next"]["blocked"][0]["waits_for"][0], wait);
    let look = garden.env.pleach(&["inspect", "p1"]).expect(0);
    assert!(look.stdout.contains("\n  T002 Grow T002: failed"), "{look}");
    assert!(!look.stdout.contains("No step was done yet"), "{look}");
    let look = garden.env.pleach(&["inspect", "p1", "--json"]).expect(0).json();
    assert_eq!(look["not_done"], serde_json::json!([{"id": "T002", "status": "failed"}]));
    assert!(garden.env.pleach(&["inspect", "T001", "--json"]).expect(0).json()["not_done"].is_null());
}

#[test]
fn printed_commands_resolve_phases_waiting_for_each_other() {
    let tree = |p1: &[&str], p2: &[&str]| Tree::default().phase("p1", p1).phase("p2", p2);
    let stall = |p1: &[&str], p2: &[&str]| {
        let garden = on_path(Garden::new(&tree(&["T001", "T002", "T004"], &["T003"])));
        garden.env.git(&["config", "user.name", "User"]);
        garden.env.git(&["config", "user.email", "user@example.org"]);
        garden.garden(&["--isolation", "phase"]).expect(0);
        garden.plant(&tree(p1, p2));
        let ran = garden.gardener(&[]).expect(1);
        assert!(ran.stdout.starts_with("stalled: "), "{ran}");
        (garden, ran)
    };
    for (way, done) in [(1, 1), (3, 2)] {
        let (garden, ran) = stall(&["T001", "T004", "T002: T003"], &["T003: T001"]);
        let command = told(&ran, "next").split('`').nth(way).expect("a command");
        type_in(&garden, &garden.env.repo_path(), command).expect(0);
        garden.gardener(&[]).expect(0);
        assert_eq!((garden.times_asked("T001", "implement"), garden.times_asked("T003", "implement")), (done, 1));
    }
    // Nothing that is done is waited for.
    let (garden, ran) = stall(&["T001", "T004", "T002: T003"], &["T003: T004"]);
    let way = told(&ran, "next");
    assert_eq!(way, "merge what is done of p1 with `git merge pleach/phase/main/p1`");
    type_in(&garden, &garden.env.repo_path(), "git merge pleach/phase/main/p1").expect(0);
    garden.gardener(&[]).expect(0);
}

#[test]
fn an_unmerged_phase_names_its_failed_task() {
    let garden = on_path(Garden::new(&Tree::default().phase("p1", &["T001", "T002"]).phase("p2", &["T003: T001"])));
    garden.agent("test $task != T002 || exit 1; date > $task", APPROVES);
    garden.gardener(&["--isolation", "phase", "--max-retries", "1"]).expect(1);
    let ran = garden.gardener(&["--isolation", "phase"]).expect(1);
    assert_eq!(ran.waits("T003"), ("T001", "not_merged"), "{ran}");
    assert_eq!(told(&ran, "skip"), "pleach skip T002 --tree task-tree.json");
    type_in(&garden, &garden.env.repo_path(), told(&ran, "skip")).expect(0);
    garden.gardener(&["--isolation", "phase"]).expect(0);
}

#[test]
fn printed_commands_resolve_a_conflict() {
    let garden = alike(&Tree::of(&["T001"]));
    let root = garden.env.root();
    garden.env.git(&["config", "user.name", "User"]);
    garden.env.git(&["config", "user.email", "user@example.org"]);
    garden.agent(
        "cd \"$HOME/../repo\" && echo user > README.md && git commit --quiet -am mine; cd - && echo agent > README.md",
        APPROVES,
    );
    let line = "pleach -y gardener --target-repo ./repo --tree repo/specs/a/task-tree.json";
    garden.configure("sandbox: {mode: off}\n");
    let ran = type_in(&garden, root, line).expect(5);
    let why = ran.stdout.lines().nth(1).expect("a reason");
    let commands: Vec<&str> = why.split('`').skip(1).step_by(2).filter(|part| part.contains(' ')).collect();
    let [switch, merge, back, reset] = commands[..] else { panic!("{commands:?}: {ran}") };
    type_in(&garden, root, switch).expect(0);
    let conflict = type_in(&garden, root, merge).expect(1);
    assert!(conflict.stdout.contains("CONFLICT"), "{conflict}");
    garden.env.git(&["checkout", "--quiet", "--ours", "README.md"]);
    garden.env.git(&["commit", "--quiet", "-am", "Merge by hand"]);
    type_in(&garden, root, back).expect(0);
    assert!(type_in(&garden, root, reset).expect(0).stdout.contains("reset: T001"));
}

#[test]
fn printed_commands_work_for_any_branch_name() {
    let garden = on_path(Garden::new(&Tree::of(&["T001", "T002"])));
    let (repo, branch) = (garden.env.repo_path(), "fix(api)&it's");
    garden.switch_to_new(branch);
    garden.env.git(&["config", "user.name", "User"]);
    garden.env.git(&["config", "user.email", "user@example.org"]);
    garden.agent(
        "cd \"$HOME/../repo\" && echo user > README.md && git commit -qam mine; cd - && echo a > README.md",
        APPROVES,
    );
    garden.configure("sandbox: {mode: off}\n");
    let ran = garden.garden(&[]).expect(5);
    let why = ran.stdout.lines().nth(1).expect("a reason");
    let commands: Vec<&str> = why.split('`').skip(1).step_by(2).filter(|part| part.starts_with("git ")).collect();
    let [switch, merge, back] = commands[..] else { panic!("{commands:?}: {ran}") };
    type_in(&garden, &repo, switch).expect(0);
    assert_eq!(garden.env.git(&["branch", "--show-current"]), format!("pleach/tasks/{branch}/T001"));
    assert!(type_in(&garden, &repo, merge).expect(1).stdout.contains("CONFLICT"));
    garden.env.git(&["merge", "--abort"]);
    // So it is where pleach is run on the branch of a task.
    for (ran, code) in [(garden.env.pleach(&["status"]), 0), (garden.gardener(&[]), 2)] {
        let ran = ran.expect(code);
        assert!(ran.stdout.contains(back) || ran.stderr.contains(back), "{ran}");
    }
    type_in(&garden, &repo, back).expect(0);
    assert_eq!(garden.env.git(&["branch", "--show-current"]), branch);
    // What nothing lands any more is taken or dropped.
    garden.plant(&Tree::of(&["T002"]));
    let ran = garden.gardener(&[]).expect(5);
    let take = ran.stdout.split('`').find(|part| part.starts_with("git merge ")).expect("a way to take it");
    assert!(type_in(&garden, &repo, take).expect(1).stdout.contains("CONFLICT"));
}

#[test]
fn printed_commands_do_not_restart_an_interrupted_fresh_run() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = crate::sessions::Gate::new(&garden.env, "agent");
    garden.agent(&gate.command(), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--fresh"]);
    let held = gate.reached(&mut run);
    run.stop();
    drop(held);
    let ran = run.end().expect(3);
    assert_eq!(told(&ran, "resume"), "pleach -y gardener", "{ran}");
}

#[test]
fn printed_commands_inspect_and_resume_a_session() {
    let garden = alike(&Tree::of(&["T001"]));
    let (env, root) = (&garden.env, garden.env.root());
    let gate = "gate [shape=hexagon] start -> gate  gate -> exit [label=Yes]  gate -> exit [label=No]";
    env.pipeline(&graph("asks", gate));
    let ran = type_in(&garden, root, "pleach -y -C repo run ../pipeline.dot").expect(4);
    let status = type_in(&garden, root, &format!("pleach -C repo status {}", env.session())).expect(0);
    let answer = told(&ran, "answer");
    assert!(status.stdout.contains(&format!(" {answer}\n")), "{status}");
    type_in(&garden, root, &format!("{} -y", answer.replace("CHOICE", "Yes"))).expect(0);

    garden.commit(
        "asks.dot",
        "digraph asks { start [shape=Mdiamond] done [shape=Msquare] implement [step=implement]
        gate [shape=hexagon] start -> implement -> gate  gate -> done [label=Yes]  gate -> done [label=No] }",
    );
    type_in(&garden, root, "pleach -y -C repo gardener --tree specs/b/task-tree.json --pipeline asks.dot").expect(4);
    let task = env.sessions().into_iter().nth(1).expect("the session of the task");
    let status = type_in(&garden, &env.repo_path().join("specs"), &format!("pleach --json status {task}")).expect(0);
    assert_eq!(status.json()["go_on"], "pleach gardener --tree b/task-tree.json --answer T001/gate=CHOICE");
}
