//! `garden` and `gardener`: which tree, which task, who else is at it, and what they say.

use serde_json::Value;

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

#[test]
fn garden_works_one_task_and_ends() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    let ran = garden.garden(&[]).expect(0);
    assert!(ran.target() == "main" && ran.tasks_done() == (0, 3), "{ran}");
    assert_eq!(ran.stdout, "done: T001\n");
    assert_eq!(garden.completed(), ["T001"]);
    garden.garden(&["--task", "T003"]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T003"]);
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (2, 3), "{ran}");
    assert_eq!(garden.completed(), ["T001", "T003", "T002"]);
    assert_eq!(ran.stdout, "done: every task of `task-tree.json` is complete\n");
}

#[test]
fn a_tree_that_is_done_stays_as_it_is() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    let tip = garden.env.git(&["rev-parse", "main"]);
    garden.gardener(&[]).expect(0);
    garden.garden(&[]).expect(0);
    garden.garden(&["--task", "T001"]).expect(0);
    assert_eq!(garden.env.git(&["rev-parse", "main"]), tip);
}

#[test]
fn a_completed_task_is_reported_as_done_alone() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.garden(&[]).expect(0);
    let ran = garden.garden(&["--task", "T001"]).expect(0);
    assert_eq!(ran.stdout, "done: T001\n");
    let ran = garden.garden(&["--task", "T001", "--json"]).expect(0);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last, serde_json::json!({"ended": "done", "task": "T001"}));
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_requested_task_is_worked_after_waiting_landings() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.garden(&[]).expect(5);
    std::fs::remove_file(garden.env.root().join("repo/T001.txt")).unwrap();
    let ran = garden.garden(&["--task", "T003"]).expect(0);
    assert_eq!(ran.stdout, "done: T003\n");
    assert_eq!(garden.completed(), ["T001", "T003"]);
}

#[test]
fn a_blocked_task_names_its_blockers() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    let ran = garden.garden(&["--task", "T002"]).expect(1);
    let first = "first:   pleach -y gardener\n";
    assert_eq!(ran.stdout, format!("stalled: T002 cannot start\n  T002 waits for T001 (not done)\n{first}"));
    let ran = garden.garden(&["--test-command", "make test", "--task", "T002", "--max-retries", "2"]).expect(1);
    let first = "first:   pleach -y gardener --test-command 'make test' --max-retries 2\n";
    assert!(ran.stdout.ends_with(first), "{ran}");
    let ran = garden.garden(&["--task", "T002", "--dry-run"]).expect(0);
    assert_eq!((ran.next(), ran.waits("T002")), (("blocked", "T002"), ("T001", "not_done")), "{ran}");
    assert_eq!(garden.times_asked("T002", "implement"), 0);
    let ran = garden.garden(&["--task", "T009"]).expect(2);
    ran.fails_with("no-such-task").naming("`T009`").naming("`pleach status -v`");
}

#[test]
fn a_phase_is_refused_as_task_and_lists_its_tasks() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    let ran = garden.garden(&["--task", "phase1"]).expect(2);
    ran.fails_with("task-is-group").naming("`phase1`").naming("T001").naming("T002");
}

#[test]
fn a_stall_names_what_blocks_what() {
    let tree = Tree::of(&["T001", "T002: T001", "T003: T002"]).tests("T001", &["unit: false"]);
    let garden = Garden::new(&tree);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(ran.ended().0, "stalled", "{ran}");
    assert_eq!(ran.waits("T002"), ("T001", "failed"), "{ran}");
    assert_eq!(ran.waits("T003"), ("T002", "not_done"), "{ran}");
    let ran = garden.gardener(&["--json"]).expect(1);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["ended"], "stalled");
}

#[test]
fn a_second_gardener_is_told_who_holds_the_branch() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("{WRITES}; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    let second = garden.env.pleach(&["-y", "gardener"]).expect(6);
    assert!(second.stderr.contains(&run.id().to_string()), "names the process: {second}");
    second.fails_with("tree-locked").naming("`main`");
    garden.env.git(&["switch", "--quiet", "-c", "beside"]);
    let ran = garden.env.pleach(&["-y", "gardener", "--dry-run"]).expect(0);
    assert_eq!(ran.target(), "beside", "{ran}");
    gate.open(held);
    run.end().expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn two_branches_of_one_repository_run_in_parallel() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("{WRITES}; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.agent(WRITES, APPROVES);
    garden.env.git(&["switch", "--quiet", "-c", "beside"]);
    garden.env.pleach(&["-y", "gardener"]).expect(0);
    gate.open(held);
    run.end().expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.told("beside").last().unwrap(), "T001 complete");
    assert!(garden.newest("beside", "T001 complete").subject.starts_with("task(beside@T001@complete): "));
}

#[test]
fn no_task_at_once_is_refused() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    for command in ["gardener", "garden"] {
        let ran = garden.env.pleach(&["-y", command, "--jobs", "0"]).expect(2);
        ran.fails_with("settings-invalid").naming("--jobs: at least one task is worked at once");
    }
    garden.configure("tree: {jobs: 0}\n");
    garden.gardener(&[]).expect(2);
    assert_eq!(garden.steps("main").len(), 0);
}

#[test]
fn without_an_agent_nothing_is_pretended() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    for config in ["", "agent: simulation\n"] {
        garden.env.configure(config);
        let ran = garden.gardener(&[]).expect(2);
        ran.fails_with("no-agent").naming("no agent is configured").naming("--runner");
    }
    assert_eq!(garden.env.git(&["log", "--format=%s", "--grep=run-start"]), "");
    let runner = format!("command:{}", garden.env.root().join("agent.sh").display());
    garden.gardener(&["--runner", &runner]).expect(0);
}

#[test]
fn task_trees_never_use_the_simulation() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let pretending = r#"digraph g { start [shape=Mdiamond] done [shape=Msquare]
        implement [step=implement, agent=" simulation"] start -> implement -> done }"#;
    garden.commit("pretends.dot", pretending);
    garden.commit("named.dot", &pretending.replace(" simulation", "nobody"));
    for (config, more, node, place) in [
        ("tree: {steps: {implement: {runner: simulation}}}\n", &[][..], "implement", "tree.steps.implement.runner"),
        ("tree: {steps: {review: {runner: simulation}}}\n", &[], "review", "tree.steps.review.runner"),
        ("", &["--pipeline", "pretends.dot"], "implement", "`agent` of the node `implement`"),
        ("agents: {nobody: {runner: simulation}}\n", &["--pipeline", "named.dot"], "implement", "`agent` of the node"),
    ] {
        garden.configure(config);
        let ran = garden.gardener(more).expect(2);
        ran.fails_with("no-agent").naming(format!("`{node}`")).naming("task trees cannot use the simulation agent");
        assert!(ran.stderr.contains(place), "{ran}");
    }
    // An entry of that name can be anybody.
    garden
        .configure(&format!("agents: {{nobody: {{command: ['{}']}}}}\n", garden.env.root().join("agent.sh").display()));
    assert_eq!(garden.env.git(&["log", "--format=%s", "--grep=run-start"]), "");
    garden.gardener(&["--pipeline", "named.dot"]).expect(0);
}

#[test]
fn commands_of_the_repository_are_asked_for_first() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo from-the-repository"]));
    let ran = garden.env.pleach(&["gardener"]).expect(4);
    assert!(ran.stderr.contains("echo from-the-repository"), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 0);
}

#[test]
fn a_detached_head_is_refused_with_a_way_out() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["switch", "--quiet", "--detach"]);
    let ran = garden.gardener(&[]).expect(2);
    ran.fails_with("detached-head");
}

#[test]
fn a_tree_is_found_where_trees_lie() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.git(&["mv", "task-tree.json", "elsewhere.json"]);
    garden.env.git(&["commit", "--quiet", "-m", "Move it"]);
    let ran = garden.gardener(&["--dry-run"]).expect(2);
    ran.fails_with("no-tree").naming("task-tree.json");
    assert!(ran.stderr.contains("--tree"), "{ran}");
    // It is found there.
    ran.fails_with("no-tree").naming("`pleach build --spec-dir DIR -o task-tree.json`");
    garden.env.write("repo/plans/task-tree.json", Tree::of(&["T001"]).json());
    let ran = garden.gardener(&["--dry-run"]).expect(2);
    ran.fails_with("no-tree").naming("plans/task-tree.json`").naming("--tree");
    // Where `pleach build` puts it.
    garden.commit("specs/all.md", "# All\n\n- [ ] T001 Begin\n");
    garden.env.pleach(&["build", "--spec-dir", "specs", "--no-ai"]).expect(0);
    let ran = garden.gardener(&["--dry-run"]).expect(0);
    assert!(ran.stdout.contains("`specs/task-tree.json`"), "{ran}");
    std::fs::remove_file(garden.env.repo_path().join("specs/task-tree.json")).unwrap();
    garden.commit("openspec/changes/one/task-tree.json", &Tree::of(&["A1"]).json());
    let ran = garden.gardener(&["--dry-run"]).expect(0);
    assert!(ran.stdout.contains("`openspec/changes/one/task-tree.json`"), "{ran}");
    garden.commit("specs/two/task-tree.json", &Tree::of(&["B1"]).json());
    let ran = garden.gardener(&["--dry-run"]).expect(2);
    ran.fails_with("tree-ambiguous").naming("openspec/changes/one/task-tree.json").naming("specs/two/task-tree.json");
    let ran = garden.gardener(&["--dry-run", "--tree", "specs/two/task-tree.json"]).expect(0);
    assert!(ran.stdout.contains("B1"), "{ran}");
}

#[test]
fn a_dry_run_says_what_comes_and_does_nothing() {
    let garden = Garden::new(&Tree::of(&["T002: T001", "T001"]));
    let before = garden.env.git(&["for-each-ref"]);
    let ran = garden.gardener(&["--dry-run"]).expect(0);
    assert_eq!(
        ran.stdout,
        "would work `task-tree.json` on branch `main`\nnext: work T001, attempt 1 of 5\n  T001 Grow T001\n  T002 Grow T002\n"
    );
    assert_eq!(garden.env.git(&["for-each-ref"]), before);
    let json = garden.gardener(&["--dry-run", "--json"]).expect(0).json();
    assert_eq!(json["left"], serde_json::json!(["T001", "T002"]));
}

#[test]
fn a_dry_run_lists_the_tasks_that_get_another_budget() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent("exit 1", APPROVES);
    for task in ["T001", "T002"] {
        garden.garden(&["--task", task, "--max-retries", "1"]).expect(1);
    }
    let left = |command: &[&str]| {
        let ran = garden.env.pleach(&[&["-y"], command, &["--dry-run"]].concat()).expect(0);
        let listed: Vec<String> =
            ran.stdout.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
        let json = garden.env.pleach(&[&["-y", "--json"], command, &["--dry-run"]].concat()).expect(0).json();
        let named = listed.iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>();
        assert_eq!(json["left"], serde_json::json!(named), "{ran}");
        named.join(" ")
    };
    assert_eq!(left(&["gardener"]), "");
    assert_eq!(left(&["gardener", "--retry-failed"]), "T001 T002");
    assert_eq!(left(&["garden", "--task", "T002", "--retry-failed"]), "T002");
}

#[test]
fn a_broken_tree_is_refused_with_every_error() {
    let garden = Garden::new(&Tree::of(&["T001: T002", "T002: T001", "T003: nobody"]));
    let ran = garden.gardener(&[]).expect(2);
    ran.fails_with("tree-invalid").naming("nobody").naming("T001");
    assert_eq!(garden.refs("refs/heads/"), ["refs/heads/main"]);
}

#[test]
fn json_reports_every_step_and_the_end() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let ran = garden.gardener(&["--json"]).expect(0);
    let lines = ran.json_lines();
    let steps: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "dev.orchestra.StepFinished")
        .filter_map(|line| line["data"]["status"].as_str())
        .collect();
    assert_eq!(steps, ["implement-pass", "review-approved", "complete"]);
    assert_eq!(lines.last().unwrap()["ended"], "done");
    let landed = lines.iter().find(|line| line["type"] == "dev.orchestra.Landed").expect("a landing");
    assert_eq!(landed["data"]["commit"], garden.env.git(&["rev-parse", "main"]).as_str());
}

#[test]
fn a_steps_code_is_its_tree_without_logs() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.agent(
        "case $n in 1) echo 1 > one;; *) rm one;; esac",
        "test $n = 1 && echo 'REJECTED: not this' || echo APPROVED",
    );
    let mut base = garden.env.git(&["rev-parse", "main^{tree}"]);
    let ran = garden.gardener(&["--json"]).expect(0);
    let lines = ran.json_lines();
    for task in ["T001", "T002"] {
        let is_step = |line: &&Value| line["type"] == "dev.orchestra.StepFinished" && line["data"]["task"] == task;
        let steps: Vec<&Value> = lines.iter().filter(is_step).map(|line| &line["data"]).collect();
        let codes: Vec<&str> = steps.iter().filter_map(|step| step["code"].as_str()).collect();
        assert_eq!(codes.len(), 5, "{ran}");
        assert!(codes[0] == codes[1] && codes[0] != base, "{task}: {codes:?}");
        assert_eq!(codes[2..], [&*base; 3], "{task}: nothing but logs and the report");
        assert!(steps.iter().all(|step| step["tree"] != base.as_str()), "{ran}");
        base = steps[4]["tree"].as_str().unwrap().to_owned();
    }
}

#[test]
fn a_stopped_run_resumes_when_run_again() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("{WRITES}; test $task = T001 || {{ {}; }}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    let ran = run.end().expect(3);
    assert_eq!(ran.stdout, "paused: nothing recorded is lost\nresume:  pleach -y gardener\n");
    assert_eq!(garden.completed(), ["T001"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

#[test]
fn settings_of_the_original_are_honoured() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.configure("");
    let runner = format!("command:{}", garden.env.root().join("agent.sh").display());
    let config = serde_json::json!({"defaults": {"runner": runner, "max_retries": 2}});
    garden.commit(".arborist/config.json", &config.to_string());
    garden.agent("echo $n > try$n", "echo 'REJECTED: no'");
    garden.gardener(&[]).expect(1);
    assert!(garden.newest("main", "T001 failed").subject.ends_with("after 2 retries"));
}

#[test]
fn steps_can_have_agents_of_their_own() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let other =
        garden.env.write_program("other.sh", "#!/bin/sh\ncat > /dev/null\necho 'From the other.'\necho APPROVED\n");
    garden.configure(&format!("tree: {{steps: {{review: {{runner: \"command:{}\"}}}}}}\n", other.display()));
    garden.agent(WRITES, "echo 'REJECTED: never asked'");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.newest("main", "T001 review-approved").body, "Review:\nFrom the other.\nAPPROVED");
}

#[test]
fn a_fresh_run_counts_nothing_as_done() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    let ran = garden.gardener(&["--dry-run"]).expect(0);
    assert_eq!(ran.next(), ("nothing", ""), "{ran}");
    let ran = garden.gardener(&["--dry-run", "--fresh"]).expect(0);
    assert_eq!(ran.next(), ("work", "T001"), "{ran}");
    let ran = garden.gardener(&["--fresh"]).expect(0);
    assert!(ran.target() == "main" && ran.tasks_done() == (0, 1), "{ran}");
    assert_eq!(garden.completed(), ["T001", "T001"]);
}

#[test]
fn a_name_of_several_lines_is_shown_on_one() {
    let tree = Tree::of(&["T001"]).with("T001", "name", "Grow\na\ttree\u{1b}[1m".into());
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&["--dry-run"]).expect(0);
    assert!(ran.stdout.contains("\n  T001 Grow a tree [1m\n"), "{ran}");
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.stderr.contains("▸ T001 Grow a tree [1m begins"), "{ran}");
    let sid = garden.env.sessions().remove(0);
    for args in [&["status", "-v"][..], &["status", &sid], &["inspect", "T001"]] {
        let ran = garden.env.pleach(args).expect(0);
        assert!(ran.stdout.contains("T001 Grow a tree [1m"), "{args:?}: {ran}");
    }
}

#[test]
fn ctrl_c_during_worktree_setup_pauses_the_task() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let env = &garden.env;
    let gate = Gate::new(env, "setup");
    garden.configure(&format!("worktrees: {{setup: {}}}\n", Value::from(gate.command())));
    let mut run = env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    let ran = run.end().expect(3);
    drop(held);
    assert!(ran.stdout.contains("resume:  pleach -y gardener\n"), "{ran}");
    env.assert_no_process_left();
    let status = env.pleach(&["--json", "status"]).expect(0).json();
    assert_eq!(status["sessions"][0]["standing"]["is"], "paused", "{status}");
    gate.stay_open();
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

/// The session of a task that is not landed.
fn open_session(garden: &Garden, task: &str) -> String {
    let status = garden.env.pleach(&["--json", "status"]).expect(0).json();
    let sessions = status["sessions"].as_array().unwrap();
    let found = sessions.iter().find(|session| session["task"]["id"] == task).unwrap_or_else(|| panic!("{status}"));
    found["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_cancelled_task_is_retried_by_the_same_command() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&gate.command(), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.env.pleach(&["cancel", &open_session(&garden, "T001"), "--grace", "0"]).expect(0);
    let ran = run.end().expect(1);
    drop(held);
    assert!(ran.ended() == ("cancelled", "T001") && ran.stdout.contains("retry:   pleach -y gardener\n"), "{ran}");
    assert!(!ran.stdout.contains("--retry-failed"), "{ran}");
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn cancelled_phase_tests_let_nothing_through() {
    for isolation in ["none", "phase"] {
        let tree = Tree::default().phase("phase1", &["T001"]);
        let garden = Garden::new(&tree);
        let gate = Gate::new(&garden.env, "tests");
        garden.plant(
            &Tree::default()
                .phase("phase1", &["T001"])
                .tests("phase1", &[&format!("integration: {}; false", gate.command())]),
        );
        let mut run = garden.env.spawn(&["-y", "gardener", "--isolation", isolation]);
        let held = gate.reached(&mut run);
        garden.env.pleach(&["cancel", &open_session(&garden, "phase1"), "--grace", "0"]).expect(0);
        let ran = run.end().expect(1);
        drop(held);
        gate.stay_open();
        assert_eq!(ran.ended(), ("cancelled", "phase1"), "{ran}");
        assert_eq!(garden.files("main").contains(&"T001.txt".to_owned()), isolation == "none");
        let ran = garden.gardener(&["--isolation", isolation]).expect(1);
        assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    }
}

#[test]
fn a_step_names_the_current_number_of_attempts() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("{}; exit 3", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert!(ran.stderr.contains("attempt 1 of 1"), "{ran}");
    assert!(garden.newest("main", "T001 implement-fail").subject.ends_with("(failed, attempt 1/1)"), "{ran}");
}

#[test]
fn a_missing_base_branch_is_refused_at_once() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.switch_to_new("feature");
    let tip = garden.env.git(&["rev-parse", "feature"]);
    for more in [&["--base-branch", "nope"][..], &["--base-branch", "nope", "--fresh", "--dry-run"]] {
        let ran = garden.gardener(more).expect(2);
        ran.fails_with("no-such-branch").naming("`nope`").naming("`--base-branch`");
    }
    garden.configure("tree: {base_branch: nope}\n");
    garden.gardener(&[]).expect(2);
    assert_eq!(garden.times_asked("T001", "implement"), 0);
    assert_eq!(garden.env.git(&["rev-parse", "feature"]), tip);
    // Where only the remote has it, that is the one.
    garden.env.git(&["update-ref", "refs/remotes/origin/develop", "main"]);
    garden.gardener(&["--base-branch", "develop"]).expect(0);
    garden.gardener(&["--base-branch", "main"]).expect(0);
}

/// Commits the end of a task as the first versions of Arborist did, which named no branch.
fn done_in_the_older_form(garden: &Garden, task: &str) {
    let message = format!("task({task}): complete \"Grow {task}\"\n\nArborist-Step: complete\nArborist-Result: pass\n");
    garden.env.git(&["commit", "--quiet", "--allow-empty", "-m", &message]);
}

#[test]
fn older_steps_count_since_the_base_branch() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003", "T004"]));
    done_in_the_older_form(&garden, "T001");
    garden.switch_to_new("develop");
    done_in_the_older_form(&garden, "T002");
    garden.switch_to_new("feature");
    done_in_the_older_form(&garden, "T003");
    let left = |more: &[&str]| {
        let ran = garden.gardener(&[&["--dry-run", "--json"], more].concat()).expect(0);
        ran.json()["left"].as_array().expect("a list").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    for (base, expected) in [("main", "T001 T004"), ("develop", "T001 T002 T004"), ("feature", "T004")] {
        garden.configure("");
        assert_eq!(left(&["--base-branch", base]), expected, "--base-branch {base}");
        garden.configure(&format!("tree: {{base_branch: {base}}}\n"));
        assert_eq!(left(&[]), expected, "tree.base_branch: {base}");
        let status = garden.env.pleach(&["status", "--json"]).expect(0).json();
        let done = 4 - expected.split(' ').count();
        assert_eq!(status["trees"][0]["counts"]["complete"], done, "status, {base}");
    }
    // What is given goes above what is set, and the run itself does what it was said to do.
    garden.configure("tree: {base_branch: main}\n");
    garden.gardener(&["--base-branch", "develop"]).expect(0);
    let asked = ["T001", "T002", "T003", "T004"].map(|task| garden.times_asked(task, "implement"));
    assert_eq!(asked, [1, 1, 0, 1]);
}

#[test]
fn gardener_json_reports_tasks_between_session_events() {
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("phase1", &["integration: true"]);
    let garden = Garden::new(&tree);
    let ran = garden.env.pleach(&["-y", "--json", "gardener", "--isolation", "phase"]).expect(0);
    let mut lines = ran.json_lines();
    assert_eq!(lines.pop().expect("how it ended")["ended"], "done");
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>(), "every line has the next number");
    let kind = |line: &Value| line["type"].as_str().expect("a type").trim_start_matches("dev.orchestra.").to_owned();
    let (of_sessions, of_tree): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line["session"].is_string());
    assert!(of_sessions.iter().all(|line| line["context"] == "main"), "{ran}");
    assert!(of_tree.iter().all(|line| line["context"].is_null()), "{ran}");
    let told: Vec<(String, &str)> =
        of_tree.iter().map(|line| (kind(line), line["data"]["task"].as_str().unwrap_or_default())).collect();
    let told: Vec<(&str, &str)> = told.iter().map(|(kind, task)| (kind.as_str(), *task)).collect();
    assert_eq!(
        told,
        [
            ("RunStarted", ""),
            ("TaskStarted", "T001"),
            ("TaskLanded", "T001"),
            ("TaskStarted", "T002"),
            ("TaskLanded", "T002"),
            ("TaskStarted", "phase1"),
            ("TaskLanded", "phase1"),
            ("PhaseMerged", "phase1"),
        ]
    );
    let begun = lines.iter().position(|line| kind(line) == "TaskStarted").expect("a task is begun");
    assert_eq!(lines[begun + 1]["session"], lines[begun]["data"]["session"], "its session follows");
    assert_eq!(kind(&lines[begun + 1]), "PipelineStarted");
    let landed = of_tree.iter().find(|line| kind(line) == "PhaseMerged").expect("a merge");
    assert_eq!(landed["data"]["commit"], garden.env.git(&["rev-parse", "main"]));
    assert_eq!(landed["data"]["done"], 2);
}
