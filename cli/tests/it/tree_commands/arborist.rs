//! Settings made for Arborist, in its file and in its variables.

use super::{AGENT, TREE, world};
use crate::support::{Ran, TestEnv};

/// A repository whose only settings are Arborist's.
fn settled(settings: &str, agent: &str) -> TestEnv {
    let env = world(TREE, agent);
    std::fs::remove_file(env.repo_path().join("pleach.yaml")).unwrap();
    let program = env.root().join("agent.sh");
    env.write("repo/.arborist/config.json", settings.replace("AGENT", &format!("command:{}", program.display())));
    env
}

fn with(env: &TestEnv, variables: &[(&str, &str)], args: &[&str]) -> Ran {
    env.finish(env.command(args).envs(variables.iter().copied()).output().unwrap())
}

const REJECTING: &str = "#!/bin/sh\ncase $(cat) in Review*) echo 'REJECTED: no' ;; *) date +%N >> one.txt ;; esac\n";

#[test]
fn its_file_names_the_runner_and_the_retries() {
    let env = settled(r#"{"defaults": {"runner": "AGENT", "max_retries": 2}}"#, REJECTING);
    env.pleach(&["-y", "gardener"]).expect(1);
    let subjects = env.git(&["log", "--format=%s"]);
    assert!(subjects.contains("review rejected for \"Add one\" (attempt 2/2)"), "{subjects}");
    assert!(subjects.contains("failed \"Add one\" after 2 retries"), "{subjects}");
}

#[test]
fn its_variables_go_above_its_file() {
    let env = settled(r#"{"defaults": {"runner": "AGENT", "max_retries": 4}}"#, REJECTING);
    with(&env, &[("ARBORIST_MAX_RETRIES", "1")], &["-y", "garden"]).expect(1);
    assert!(env.git(&["log", "--format=%s"]).contains("failed \"Add one\" after 1 retries"));
}

#[test]
fn a_step_has_its_own_runner_and_model() {
    let env = settled(
        r#"{"defaults": {"runner": "AGENT"}, "steps": {"review": {"runner": "command:REVIEWER", "model": "careful"}}}"#,
        AGENT,
    );
    let seen = env.root().join("reviewed");
    let reviewer = env.write_program("review.sh", &format!("#!/bin/sh\ncat > {}\necho APPROVED\n", seen.display()));
    env.unbound();
    let settings = env.read("repo/.arborist/config.json").replace("REVIEWER", reviewer.to_str().unwrap());
    env.write("repo/.arborist/config.json", settings);
    env.pleach(&["-y", "garden"]).expect(0);
    assert!(env.read("reviewed").starts_with("Review the changes for task T001"));
}

#[test]
fn an_agent_that_is_named_above_it_works_all_steps() {
    let env = settled(r#"{"steps": {"run": {"runner": "command:/nonexistent/agent"}}}"#, AGENT);
    let agent = format!("command:{}", env.root().join("agent.sh").display());
    env.pleach(&["-y", "garden"]).expect(7);
    env.pleach(&["-y", "garden", "--runner", &agent]).expect(0);
    // So it is with the project's own file, and with the command line above that.
    env.write("repo/pleach.yaml", format!("agent: \"{agent}\"\n"));
    env.pleach(&["-y", "garden", "--fresh"]).expect(0);
    let steps = "tree: {steps: {implement: {runner: 'command:/nonexistent/agent'}, review: {runner: codex}}}";
    env.write("repo/pleach.yaml", steps);
    env.pleach(&["-y", "garden", "--fresh"]).expect(7);
    env.pleach(&["-y", "garden", "--fresh", "--runner", &agent]).expect(0);
}

#[test]
fn the_default_test_and_timeout_apply_to_untested_tasks() {
    let env = settled(
        r#"{"defaults": {"runner": "AGENT", "max_retries": 1}, "test": {"command": "sleep 30", "timeout": 1}}"#,
        AGENT,
    );
    let tree = TREE.replace(r#""test_commands": [{"command": "test -f one.txt"}]"#, r#""source_line": 1"#);
    env.write("repo/task-tree.json", tree);
    let ran = env.pleach(&["-y", "garden"]).expect(1);
    let log = env.git(&["log", "--format=%s%n%b"]);
    assert!(log.contains("tests fail for \"Add one\" (attempt 1/1)"), "{log}\n{ran}");
    let runtime: f64 = log.split("Arborist-Test-Runtime: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(runtime < 20.0, "the timeout ends it: {runtime}");
    with(&env, &[("ARBORIST_TEST_COMMAND", "true")], &["-y", "garden", "--fresh"]).expect(0);
}

#[test]
fn its_test_timeout_holds_for_tests_that_do_not_say() {
    let env = settled(r#"{"defaults": {"runner": "AGENT", "max_retries": 1}}"#, AGENT);
    let one = [("ARBORIST_TEST_TIMEOUT", "1")];
    let tree = |test: &str| env.write("repo/task-tree.json", TREE.replace(r#""command": "test -f one.txt""#, test));
    tree(r#""command": "sleep 30""#);
    let timeout = |ran: Ran| ran.expect(0).json()["test_commands"][0]["timeout"].as_f64();
    assert_eq!(timeout(env.pleach(&["--json", "inspect", "T001"])), Some(300.0));
    assert_eq!(timeout(with(&env, &one, &["--json", "inspect", "T001"])), Some(1.0));
    with(&env, &one, &["-y", "garden"]).expect(1);
    let log = env.git(&["log", "--format=%s%n%b"]);
    let runtime: f64 = log.split("Arborist-Test-Runtime: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(runtime < 20.0, "the timeout ends it: {runtime}");

    // One of its own stays.
    tree(r#""command": "sleep 2", "timeout": 300"#);
    assert_eq!(timeout(with(&env, &one, &["--json", "inspect", "T001"])), Some(300.0));
    with(&env, &one, &["-y", "garden", "--fresh"]).expect(0);

    // Nor is a test of a task's pipeline given more.
    env.write(
        "repo/own.dot",
        r#"digraph g { start [shape=Mdiamond]; exit [shape=Msquare]
        work [step=implement]; test [shape=parallelogram, step=test, tool_command="sleep 30"]
        start -> work -> test -> exit }"#,
    );
    with(&env, &one, &["-y", "garden", "--fresh", "--pipeline", "own.dot"]).expect(1);
}

#[test]
fn a_runner_the_repository_names_is_asked_about() {
    let env = settled(r#"{"defaults": {"runner": "AGENT"}}"#, AGENT);
    let ran = env.pleach(&["garden"]).expect(4);
    assert!(ran.stderr.contains("agent.sh"), "{ran}");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach"]), "");
}

#[test]
fn a_tree_arborist_began_is_continued() {
    let env = world(TREE, AGENT);
    let message = "task(main@T001@complete): complete \"Add one\"\n\nArborist-Step: complete\nArborist-Result: pass\n";
    env.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
    env.pleach(&["-y", "garden"]).expect(0);
    let subjects = env.git(&["log", "--format=%s"]);
    assert!(subjects.starts_with("task(main@T002@complete): complete \"Add two\""), "{subjects}");
    assert!(!subjects.contains("run-start"), "a new run would make all that was done count for nothing: {subjects}");
    env.pleach(&["-y", "garden", "--fresh"]).expect(0);
    assert!(env.git(&["log", "--format=%s"]).starts_with("task(main@T001@complete): complete \"Add one\""));
}

#[test]
fn arborists_reference_commits_are_read() {
    let examples = include_str!("../../../../crates/core/tests/golden/step-commits.txt");
    let named: Vec<&str> = examples.split("%%\n").filter(|text| text.starts_with("task(T001)")).collect();
    let env = world(TREE, AGENT);
    let expected = [
        ("implement-pass", "implementing"),
        ("implement-fail", "implementing"),
        ("test-pass", "testing"),
        ("test-fail", "testing"),
        ("review-approved", "reviewing"),
        ("review-rejected", "reviewing"),
        ("complete", "complete"),
        ("failed", "failed"),
    ];
    assert_eq!(named.len(), expected.len());
    for (message, (step, status)) in named.into_iter().zip(expected) {
        env.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        let seen = env.pleach(&["--json", "inspect", "T001"]).expect(0).json();
        let newest = seen["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
        assert_eq!((&newest["status"], &seen["status"]), (&step.into(), &status.into()), "{message}");
    }
    let seen = env.pleach(&["inspect", "T001"]).expect(0).stdout;
    assert!(seen.contains("T001_test_20250216T143022.log (not in the commit)"), "{seen}");
}

#[test]
fn a_hundred_and_thirty_tasks_are_counted_on_main() {
    let task = |number: usize| format!(r#""T{number:03}": {{"id": "T{number:03}", "name": "Part {number}"}}"#);
    let nodes: Vec<String> = (1..=130).map(task).collect();
    let env = world(&format!(r#"{{"nodes": {{{}}}}}"#, nodes.join(",")), AGENT);
    for number in 1..=129 {
        let message = format!(
            "task(T{number:03}): complete \"Part {number}\"\n\nArborist-Step: complete\nArborist-Result: pass\n"
        );
        env.git(&["commit", "--quiet", "--allow-empty", "-m", &message]);
    }
    let status = env.pleach(&["status"]).expect(0).stdout;
    assert!(status.contains("129 of 130 tasks done"), "{status}");
}
