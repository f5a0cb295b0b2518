//! Going on in another clone, with what was fetched from the one where a run was started.

use std::path::{Path, PathBuf};

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;
use crate::support::Ran;

const BRANCH: &str = "pleach/tasks/main/T001";
const RECORDS: &str = "refs/pleach/*:refs/pleach/*";
const BRANCHES: &str = "refs/heads/pleach/*:refs/heads/pleach/*";

/// A clone that has fetched more than git does by itself.
fn clone(garden: &Garden, fetched: &[&str]) -> PathBuf {
    let place = garden.env.root().join("clone");
    garden.env.git(&["clone", "--quiet", ".", place.to_str().unwrap()]);
    garden.env.git_in(&place, &[&["fetch", "--quiet", "origin"], fetched].concat());
    place
}

#[track_caller]
fn gardener(garden: &Garden, place: &Path, more: &[&str]) -> Ran {
    let ran = garden.env.pleach(&[&["-y", "-C", place.to_str().unwrap(), "gardener"], more].concat());
    garden.env.assert_no_process_left();
    ran
}

/// A garden whose first task waits to land.
fn waiting() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    garden
}

#[test]
fn work_that_waits_lands_in_another_clone() {
    for fetched in [&[RECORDS][..], &[RECORDS, BRANCHES]] {
        let garden = waiting();
        let place = clone(&garden, fetched);
        let ran = gardener(&garden, &place, &[]).expect(0);
        assert_eq!(garden.times_asked("T001", "implement"), 1, "{ran}");
        assert_eq!(garden.times_asked("T001", "review"), 1, "{ran}");
        assert_eq!(garden.env.git_in(&place, &["show", "main:T001.txt"]), "T001 1");
        assert_eq!(garden.env.git_in(&place, &["show", "main:T002.txt"]), "T002 1");
    }
}

#[test]
fn interrupted_work_resumes_in_another_clone() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
    let gate = Gate::new(&garden.env, "review");
    garden.agent(WRITES, &format!("{}; echo APPROVED", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(WRITES, APPROVES);
    let place = clone(&garden, &[RECORDS]);
    let ran = gardener(&garden, &place, &[]).expect(0);
    assert!(ran.resumed().contains(&"T001"), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1, "{ran}");
    assert_eq!(garden.times_asked("T001", "review"), 2, "{ran}");
}

#[test]
fn a_phase_resumes_in_another_clone() {
    let phase = ["--isolation", "phase"];
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&phase).expect(0);
    let place = clone(&garden, &[RECORDS, BRANCHES]);
    let ran = gardener(&garden, &place, &phase).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1, "{ran}");
    assert_eq!(garden.env.git_in(&place, &["log", "-1", "--format=%s", "main"]), "merge: phase1 complete");
}

#[test]
fn a_task_whose_branch_was_removed_is_redone() {
    let garden = waiting();
    let tip = garden.env.git(&["rev-parse", "--short=7", BRANCH]);
    garden.env.git(&["branch", "--quiet", "-D", BRANCH]);
    std::fs::remove_file(garden.env.repo_path().join("T001.txt")).unwrap();
    let ran = garden.gardener(&[]).expect(0);
    let session = &garden.env.sessions()[0];
    ran.warns("session-abandoned").naming("T001").naming(session).naming(format!("`{BRANCH}`"));
    assert!(ran.stderr.contains(&tip), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);

    // In another clone the branch is made, and it is that clone's from then on.
    let garden = waiting();
    let place = clone(&garden, &[RECORDS]);
    garden.env.write("clone/T001.txt", "mine\n");
    gardener(&garden, &place, &[]).expect(5);
    garden.env.git_in(&place, &["branch", "--quiet", "-D", BRANCH]);
    std::fs::remove_file(place.join("T001.txt")).unwrap();
    gardener(&garden, &place, &[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn a_task_whose_phase_branch_vanished_is_redone() {
    let phase = ["--isolation", "phase"];
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&phase).expect(0);
    let (session, on) = (garden.env.sessions()[0].clone(), "pleach/phase/main/phase1");
    let tip = garden.env.git(&["rev-parse", "--short=10", on]);
    let listed = garden.env.pleach(&["status", "-v"]).expect(0);
    let standing = |ran: &str| ran.lines().find(|line| line.starts_with(&session)).unwrap_or_default().to_owned();
    assert!(standing(&listed.stdout).contains("  landed  "), "{listed}");
    garden.env.git(&["branch", "--quiet", "-D", on, BRANCH]);
    let listed = garden.env.pleach(&["status", "-v"]).expect(0);
    assert!(standing(&listed.stdout).contains("  landed, not here  "), "{listed}");
    let ran = garden.gardener(&phase).expect(0);
    ran.warns_once("task-lost").naming("T001").naming(&session).naming(format!("`{on}`")).naming(&tip);
    assert_eq!((garden.times_asked("T001", "implement"), garden.times_asked("T002", "implement")), (2, 1));

    // Whoever says that it is to be done again is told nothing, nor is one who starts all again.
    garden.env.pleach(&["reset", "T001"]).expect(0);
    let ran = garden.gardener(&[]).expect(0);
    ran.does_not_warn("task-lost");
    let ran = garden.gardener(&["--fresh"]).expect(0);
    ran.does_not_warn("task-lost");
}

#[test]
fn what_two_clones_did_each_by_itself_counts_in_both() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    let place = clone(&garden, &[]);
    let name = place.to_str().unwrap();
    garden.env.pleach(&["-C", name, "skip", "T003"]).expect(0);
    garden.env.pleach(&["-y", "-C", name, "garden", "--task", "T002"]).expect(0);
    garden.garden(&["--task", "T001"]).expect(0);
    garden.env.git(&["pull", "--quiet", "--no-rebase", "--no-edit", name, "main"]);
    let status = garden.env.pleach(&["status"]).expect(0);
    assert_eq!(status.tasks_done(), (3, 3), "{status}");
    garden.gardener(&[]).expect(0);
    let asked = ["T001", "T002", "T003"].map(|task| garden.times_asked(task, "implement"));
    assert_eq!(asked, [1, 1, 0]);
    // Who starts again means all of it.
    garden.gardener(&["--fresh"]).expect(0);
    let asked = ["T001", "T002", "T003"].map(|task| garden.times_asked(task, "implement"));
    assert_eq!(asked, [2, 2, 1]);
}

/// A pipeline of one clone alone, in which a person is asked before anything is run that reports it.
const OWN: &str = r#"digraph own {
    start [shape=Mdiamond]
    done [shape=Msquare]
    implement [step=implement]
    q [shape=hexagon, label="Go on?"]
    lint [shape=parallelogram, step=lint, tool_command="touch ~/linted"]
    mend [step=mend, agent="command:sh -c 'touch ~/mended'", prompt="Mend it."]
    polish [step=polish, agent=" command:sh -c 'touch ~/polished'", prompt="Polish it."]
    start -> implement -> q
    q -> lint [label="Yes"]
    lint -> mend -> polish -> done
}
"#;

#[test]
fn unfetched_code_is_reported_as_missing() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    garden.agent("echo 1 > mended", APPROVES);
    let place = clone(&garden, &[RECORDS]);
    let ran = gardener(&garden, &place, &["--retry-failed"]).expect(0);
    ran.warns("code-missing").naming("T001").naming(format!("`{BRANCH}`"));
}

/// Dates alone would say that the tests of the phase came last.
#[test]
fn phase_tests_say_nothing_of_parallel_work() {
    let passes = "integration: test ! -e T002.txt || ! grep -q 2 T001.txt";
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("phase1", &[passes]);
    let garden = Garden::new(&tree);
    garden.garden(&[]).expect(0);
    let place = clone(&garden, &[RECORDS]);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.garden(&["--task", "T001"]).expect(0);
    gardener(&garden, &place, &[]).expect(0);
    garden.env.git(&["pull", "--quiet", "--no-rebase", "--no-edit", place.to_str().unwrap(), "main"]);
    for _ in 0..2 {
        // Also where it is known from the last time.
        let shown = garden.env.pleach(&["status"]).expect(0);
        assert!(shown.stdout.contains("2/2  tests must run again\n"), "{shown}");
    }
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    garden.commit("T001.txt", "mended\n");
    garden.gardener(&[]).expect(0);
    let shown = garden.env.pleach(&["status"]).expect(0);
    assert!(shown.stdout.contains("2/2  tests pass\n"), "{shown}");
}

/// A garden whose task waits in a pipeline that is not in the repository.
fn begun(tasks: &[&str]) -> Garden {
    let garden = Garden::new(&Tree::of(tasks));
    garden.env.write("own.dot", OWN);
    garden.gardener(&["--pipeline", "../own.dot"]).expect(4);
    garden
}

/// What the recorded pipeline has run.
fn has_run(garden: &Garden) -> Vec<&'static str> {
    let home = garden.env.root().join("home");
    ["linted", "mended", "polished"].into_iter().filter(|name| home.join(name).exists()).collect()
}

#[test]
fn what_fetched_sessions_would_run_is_asked_about_first() {
    let garden = begun(&["T001", "T002: T001"]);
    let session = garden.env.sessions().remove(0);
    let place = clone(&garden, &[RECORDS]);
    // There, its own agent and settings are approved.
    garden.env.git_in(&place, &["switch", "--quiet", "--create", "other"]);
    gardener(&garden, &place, &[]).expect(0);
    garden.env.git_in(&place, &["switch", "--quiet", "main"]);
    let place = place.to_str().unwrap();
    for command in ["gardener", "garden"] {
        let ran = garden.env.pleach(&["-C", place, command, "--auto-approve"]).expect(4);
        let from = format!("{}/own.dot as session {session} on T001 recorded it)", garden.env.root().display());
        for (place, text) in [
            ("tool_command of `lint`", "touch ~/linted"),
            ("agent of `mend`", "command:sh -c 'touch ~/mended'"),
            ("agent of `polish`", "command:sh -c 'touch ~/polished'"),
        ] {
            assert!(ran.stderr.contains(&format!("  command ({place}, {from}\n    ")), "{ran}");
            assert!(ran.stderr.contains(text), "{ran}");
        }
        ran.fails_with("trust-missing").naming("3 commands");
        assert!(!ran.stderr.contains("resumes"), "{ran}");
        assert_eq!(has_run(&garden), [""; 0], "{ran}");
    }
    garden.env.pleach(&["-y", "-C", place, "garden", "--auto-approve"]).expect(0);
    assert_eq!(has_run(&garden), ["linted", "mended", "polished"]);
    // Nothing of it is left to be resumed, and where it was started it was approved.
    garden.env.pleach(&["-C", place, "gardener"]).expect(0);
    garden.env.pleach(&["gardener", "--auto-approve"]).expect(0);
    garden.env.assert_no_process_left();
}

#[test]
fn approved_commands_are_not_asked_about_on_resume() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let named = OWN.replace("touch ~/linted", "touch ~/linted; echo {{ task_name }} $task_id {{ goal }}");
    garden.env.write("own.dot", named.replace("digraph own {", "digraph own { goal=\"$task_id\""));
    garden.gardener(&["--pipeline", "../own.dot"]).expect(4);
    garden.env.pleach(&["gardener", "--pipeline", "../own.dot", "--auto-approve"]).expect(0);
    assert_eq!(has_run(&garden), ["linted", "mended", "polished"]);
}

#[test]
fn agent_files_of_fetched_work_need_approval() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {steps: {other: {runner: 'command:claude'}}}\n");
    garden.agent(&format!("mkdir -p .claude; echo '{{\"hooks\": 1}}' > .claude/settings.json; {WRITES}"), APPROVES);
    garden.env.write("own.dot", OWN);
    garden.gardener(&["--pipeline", "../own.dot"]).expect(4);
    let place = clone(&garden, &[RECORDS]);
    garden.env.git_in(&place, &["switch", "--quiet", "--create", "other"]);
    gardener(&garden, &place, &[]).expect(0);
    garden.env.git_in(&place, &["switch", "--quiet", "main"]);
    let ran = garden.env.pleach(&["-C", place.to_str().unwrap(), "gardener", "--auto-approve"]).expect(4);
    let asked = "command (`.claude/settings.json` in the repository)\n    {\"hooks\": 1}";
    assert!(ran.stderr.contains(asked), "{ran}");
    ran.fails_with("trust-missing").naming("4 commands");
}

/// A garden whose agents write what one kind of agents obeys, though none of that kind comes to a node.
fn obeying(tree: &Tree) -> Garden {
    let garden = Garden::new(tree);
    garden.configure("tree: {steps: {other: {runner: 'command:claude'}}}\n");
    garden.agent(&format!("mkdir -p .claude; echo '{{\"hooks\": 1}}' > .claude/settings.json; {WRITES}"), APPROVES);
    garden
}

/// A clone that has approved its own settings, on another branch.
fn settled(garden: &Garden, fetched: &[&str]) -> PathBuf {
    let place = clone(garden, fetched);
    garden.agent(WRITES, APPROVES);
    garden.env.git_in(&place, &["switch", "--quiet", "--create", "other"]);
    gardener(garden, &place, &[]).expect(0);
    garden.env.git_in(&place, &["switch", "--quiet", "main"]);
    place
}

/// Runs in a clone without agreeing to anything.
fn unasked(garden: &Garden, place: &Path, command: &[&str]) -> Ran {
    garden.env.pleach(&[&["-C", place.to_str().unwrap()], command].concat())
}

const TOLD: &str = "    {\"hooks\": 1}\n\nerror[trust-missing]: ";

#[test]
fn agent_files_on_a_fetched_branch_need_approval() {
    let garden = obeying(&Tree::of(&["T001", "T002"]));
    garden.env.write("own.dot", OWN);
    garden.gardener(&["--pipeline", "../own.dot"]).expect(4);
    // Without the record, the task continues from its branch.
    let place = settled(&garden, &[BRANCHES]);
    let before = garden.times_asked("T001", "implement");
    let ran = unasked(&garden, &place, &["gardener"]).expect(4);
    let from = format!("command (`.claude/settings.json` in the repository, as `{BRANCH}` has it)\n");
    assert!(ran.stderr.contains(&format!("{from}{TOLD}")), "{ran}");
    // Nobody is asked who does not come there.
    unasked(&garden, &place, &["garden", "--task", "T002"]).expect(0);
    unasked(&garden, &place, &["garden"]).expect(4);
    gardener(&garden, &place, &[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), before, "it went on from there");
}

#[test]
fn agent_files_on_a_fetched_phase_branch_need_approval() {
    let phase = ["--isolation", "phase"];
    let garden = obeying(&Tree::default().phase("phase1", &["T001", "T002"]).leaf("T003", None));
    garden.garden(&phase).expect(0);
    let place = settled(&garden, &[BRANCHES]);
    let ran = unasked(&garden, &place, &["gardener"]).expect(4);
    let from = "command (`.claude/settings.json` in the repository, as `pleach/phase/main/phase1` has it)\n";
    assert!(ran.stderr.contains(&format!("{from}{TOLD}")), "{ran}");
    unasked(&garden, &place, &["garden", "--task", "T003"]).expect(0);
    unasked(&garden, &place, &["garden", "--task", "T002"]).expect(4);
    gardener(&garden, &place, &[]).expect(0);
}

#[test]
fn agent_files_of_an_earlier_budget_need_approval() {
    let garden = obeying(&Tree::of(&["T001", "T002"]).tests("T001", &["unit: false"]));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let place = clone(&garden, &[BRANCHES]);
    // Its test is approved as well, and passes.
    garden.agent(WRITES, APPROVES);
    garden.env.write(place.join("task-tree.json"), Tree::of(&["T001", "T002"]).tests("T001", &["unit: true"]).json());
    garden.env.git_in(&place, &["commit", "--quiet", "-am", "Mend the test"]);
    garden.env.git_in(&place, &["switch", "--quiet", "--create", "other"]);
    gardener(&garden, &place, &["--retry-failed"]).expect(0);
    garden.env.git_in(&place, &["switch", "--quiet", "main"]);
    unasked(&garden, &place, &["garden", "--task", "T002"]).expect(0);
    unasked(&garden, &place, &["gardener"]).expect(1);
    let ran = unasked(&garden, &place, &["gardener", "--retry-failed"]).expect(4);
    let from = format!("command (`.claude/settings.json` in the repository, as `{BRANCH}` has it)\n");
    assert!(ran.stderr.contains(&format!("{from}{TOLD}")), "{ran}");
    let ran = gardener(&garden, &place, &["--retry-failed"]).expect(0);
    ran.warns("code-continued").naming("T001");
}

#[test]
fn agent_files_a_fetched_session_overlays_need_approval() {
    let garden = obeying(&Tree::of(&["T001"]).tests("T001", &["unit: false"]));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let gate = Gate::new(&garden.env, "held");
    garden.agent(&gate.command(), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--retry-failed"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(WRITES, APPROVES);
    let place = clone(&garden, &[RECORDS]);
    garden.env.git_in(&place, &["switch", "--quiet", "--create", "other"]);
    gardener(&garden, &place, &["--max-retries", "1"]).expect(1);
    garden.env.git_in(&place, &["switch", "--quiet", "main"]);
    let ran = unasked(&garden, &place, &["gardener", "--retry-failed"]).expect(4);
    assert!(ran.stderr.contains(&format!("command (`.claude/settings.json` in the repository)\n{TOLD}")), "{ran}");
}

/// Puts a commit on a branch that is not checked out.
#[track_caller]
fn plant_on(garden: &Garden, branch: &str) {
    const SCRIPT: &str = r#"set -e; export GIT_INDEX_FILE=.git/planting; git read-tree $1
        blob=$(echo '{"hooks": 1}' | git hash-object -w --stdin)
        git update-index --add --cacheinfo 100644,$blob,.claude/settings.json
        git update-ref refs/heads/$1 $(git -c user.name=x -c user.email=x commit-tree -p $1 -m Plant $(git write-tree))"#;
    let planted = garden.env.program("sh", &garden.env.repo_path()).args(["-c", SCRIPT, "sh", branch]).status();
    assert!(planted.expect("sh can be started").success());
}

#[test]
fn agent_files_arriving_during_a_run_need_approval() {
    let other = "pleach/tasks/main/T002";
    for on in ["main", other, "nowhere"] {
        let garden = obeying(&Tree::of(&["T002"]));
        garden.agent(WRITES, APPROVES);
        // The task has a step and no session.
        garden.env.write("own.dot", OWN);
        garden.gardener(&["--pipeline", "../own.dot"]).expect(4);
        garden.env.pleach(&["cancel", &garden.env.session()]).expect(0);
        garden.plant(&Tree::of(&["T001", "T002: T001"]));
        if on != other {
            garden.env.git(&["branch", "--quiet", "-D", other]);
        }
        let gate = Gate::new(&garden.env, "held");
        garden.agent(&format!("{}; {WRITES}", gate.command()), APPROVES);
        let mut run = garden.env.spawn(&["gardener"]);
        let held = gate.reached(&mut run);
        garden.agent(WRITES, APPROVES);
        match on {
            "main" => garden.commit(".claude/settings.json", "{\"hooks\": 1}\n"),
            "nowhere" => garden.commit("notes", "Nobody obeys this.\n"),
            branch => plant_on(&garden, branch),
        }
        gate.open(held);
        if on == "nowhere" {
            run.end().expect(0);
            continue;
        }
        let ran = run.end().expect(4);
        assert!(ran.stderr.contains(TOLD), "{on}: {ran}");
        assert_eq!(garden.completed(), ["T001"], "{on}: {ran}");
        assert_eq!(garden.times_asked("T002", "implement"), 1, "{on}: {ran}");
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.completed(), ["T001", "T002"]);
    }
}

#[test]
fn commands_from_a_moved_target_need_approval() {
    let garden = obeying(&Tree::of(&["T001"]).tests("T001", &["unit: test ! -e bad"]));
    garden.agent(WRITES, APPROVES);
    garden.env.git(&["switch", "--quiet", "-c", "other"]);
    garden.gardener(&[]).expect(0);
    garden.env.git(&["switch", "--quiet", "main"]);
    let gate = Gate::new(&garden.env, "held");
    garden.agent(&format!("{}; {WRITES}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["gardener"]);
    let held = gate.reached(&mut run);
    garden.agent(&format!("rm -f bad; {WRITES}"), APPROVES);
    garden.commit("bad", "\n");
    garden.commit(".claude/settings.json", "{\"hooks\": 1}\n");
    gate.open(held);
    let before = garden.times_asked("T001", "implement");
    let ran = run.end().expect(4);
    ran.warns("rebuilt-red");
    assert!(ran.stderr.contains(TOLD), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), before, "no agent has worked with it");
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.resumed().contains(&"T001"), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), before + 1);
    assert_eq!(garden.told("main").last().unwrap(), "T001 complete");
}

#[test]
fn the_runs_own_landings_need_no_approval() {
    let garden = obeying(&Tree::of(&["T001", "T002", "T003"]));
    garden.agent(WRITES, APPROVES);
    garden.env.git(&["switch", "--quiet", "-c", "other"]);
    garden.gardener(&[]).expect(0);
    garden.env.git(&["switch", "--quiet", "main"]);
    let gate = Gate::new(&garden.env, "held");
    let obeyed = "mkdir -p .claude; echo '{\"hooks\": 1}' > .claude/settings.json";
    garden.agent(&format!("case $task in T001) {obeyed} ;; T002) {} ;; esac; {WRITES}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["gardener"]);
    let held = gate.reached(&mut run);
    garden.commit("notes", "Nobody obeys this.\n");
    gate.open(held);
    run.end().expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
}

#[test]
fn sessions_not_resumed_need_no_approval() {
    let garden = begun(&["T001", "T002", "T003: T001"]);
    let place = settled(&garden, &[RECORDS]);
    // Another task is wanted, or comes first.
    let ran = unasked(&garden, &place, &["garden", "--task", "T002"]).expect(0);
    assert!(!ran.stderr.contains("recorded it"), "{ran}");
    unasked(&garden, &place, &["garden", "--task", "T001", "--auto-approve"]).expect(4);
    unasked(&garden, &place, &["gardener", "--auto-approve"]).expect(4);
    // It is complete by now, and the record that was fetched does not know.
    garden.garden(&["--task", "T001", "--auto-approve"]).expect(0);
    garden.env.git_in(&place, &["pull", "--quiet", "--no-rebase", "--no-edit"]);
    let ran = unasked(&garden, &place, &["gardener"]).expect(0);
    assert!(!ran.stderr.contains("recorded it"), "{ran}");
    assert_eq!(garden.env.git_in(&place, &["show", "main:T003.txt"]), "T003 2");
}

#[test]
fn a_session_of_a_later_task_needs_no_approval() {
    let garden = begun(&["T001", "T002"]);
    let place = settled(&garden, &[RECORDS]);
    garden.env.write(place.join("task-tree.json"), Tree::of(&["T001: T002", "T002"]).json());
    garden.env.git_in(&place, &["commit", "--quiet", "-am", "Turn it round"]);
    unasked(&garden, &place, &["garden"]).expect(0);
    unasked(&garden, &place, &["garden", "--auto-approve"]).expect(4);
    assert_eq!(has_run(&garden), [""; 0]);
}

#[test]
fn a_record_replaced_during_the_run_is_not_resumed() {
    let garden = begun(&["T001", "T002"]);
    let place = clone(&garden, &[RECORDS]);
    let session = garden.env.sessions().remove(0);
    // It is approved, and another task comes first.
    let first = Tree::of(&["T002", "T001: T002"]).json();
    garden.env.write(place.join("task-tree.json"), &first);
    garden.env.git_in(&place, &["commit", "--quiet", "-am", "Turn it round"]);
    let gate = Gate::new(&garden.env, "held");
    garden.agent(&format!("{}; {WRITES}", gate.command()), APPROVES);
    let at = place.to_str().unwrap();
    let mut run = garden.env.spawn(&["-y", "-C", at, "gardener", "--auto-approve"]);
    let held = gate.reached(&mut run);
    garden.env.rewrite_record(&place, &session, "s/linted/planted/");
    gate.open(held);
    let ran = run.end().expect(0);
    ran.warns("session-replaced").naming(&session);
    assert!(!garden.env.root().join("home/planted").exists(), "{ran}");
}

#[test]
fn a_record_gives_no_variables_to_commands() {
    let garden = begun(&["T001"]);
    let place = clone(&garden, &[RECORDS]);
    let planted = garden.env.root().join("home/planted");
    garden.env.write_program("evil/touch", &format!("#!/bin/sh\n: > '{}'\n", planted.display()));
    let path = format!("{}:/usr/bin:/bin", garden.env.root().join("evil").display());
    garden.env.rewrite_record(&place, &garden.env.sessions()[0], &format!("s|\"task_id\":|\"PATH\": \"{path}\", &|"));
    let ran = gardener(&garden, &place, &["--auto-approve"]).expect(0);
    assert!(!planted.exists(), "{ran}");
    assert_eq!(has_run(&garden), ["linted", "mended", "polished"], "{ran}");
}

#[test]
fn a_record_has_nothing_pretended() {
    let garden = begun(&["T001"]);
    let place = clone(&garden, &[RECORDS]);
    let session = garden.env.sessions().remove(0);
    garden.env.rewrite_record(&place, &session, "s/command:sh -c 'touch ~.mended'/simulation/");
    let ran = gardener(&garden, &place, &["--auto-approve"]).expect(2);
    ran.fails_with("no-agent").naming("`mend`").naming("`simulation`").naming(format!(" cancel {session}`"));
    assert_eq!(has_run(&garden), [""; 0], "{ran}");
    garden.env.pleach(&["-C", place.to_str().unwrap(), "cancel", &session]).expect(0);
    let ran = gardener(&garden, &place, &[]).expect(0);
    assert_eq!(has_run(&garden), [""; 0], "{ran}");
}
