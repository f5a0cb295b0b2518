//! The tests of a task, of the tasks of a phase together, and of the merge of a phase without its own tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::run::TreeRun;
use super::{Error, pipelines};
use crate::session::{TaskJob, values_of};
use git::TreeId;
use pleach_core::event::PipelineStarted;
use pleach_core::ids::{BranchName, TaskId};
use pleach_core::plan::OF_TASKS;
use pleach_core::plan::pipeline::{HandlerKind, Pipeline};
use pleach_core::plan::tree::{TaskNode, TestCommand, TestKind};
use pleach_core::progress::{StepPlace, TaskStatus};
use pleach_core::queue::with_task_values;
use pleach_core::text::shell_word;

/// The tests of a node: a task, or the tasks below it together.
pub(super) fn tests(run: &TreeRun, node: &TaskNode) -> Vec<TestCommand> {
    let (test, timeout) = (run.plan.test.clone(), run.plan.test_timeout);
    if node.is_leaf() {
        return tests_of_leaf(node, test, timeout);
    }
    let is_meant = |test: &&TestCommand| test.kind != TestKind::Unit;
    let own = node.test_commands.iter().filter(is_meant).cloned();
    only_where_tested(own.chain(tests_of_parts(run, &node.id)).collect(), timeout)
}

/// The tests of a task: its own, or else the default one.
pub(super) fn tests_of_leaf(leaf: &TaskNode, test: Option<TestCommand>, timeout: Duration) -> Vec<TestCommand> {
    let mut tests = leaf.test_commands.clone();
    if !tests.iter().any(|test| test.kind.is_test()) {
        tests.extend(test);
    }
    only_where_tested(tests, timeout)
}

/// Without tests there is nothing to set up for.
fn only_where_tested(mut tests: Vec<TestCommand>, timeout: Duration) -> Vec<TestCommand> {
    if !tests.iter().any(|test| test.kind.is_test()) {
        tests.clear();
    }
    for test in &mut tests {
        test.timeout.get_or_insert(timeout);
    }
    tests
}

/// The tests of a phase's done tasks that no gate covers. Identical tests of several tasks run once, unless they name
/// the task.
fn tests_of_parts(run: &TreeRun, phase: &TaskId) -> Vec<TestCommand> {
    let (mut seen, mut all) = (Vec::new(), Vec::new());
    for leaf in parts(run, phase) {
        let job = job(run, &leaf.id);
        let tests = tests_of_part(run, leaf, &job).unwrap_or_default();
        if !seen.contains(&tests) || tests.iter().any(is_of_task) {
            all.extend(apart(leaf, &tests));
            seen.push(tests);
        }
    }
    all
}

/// Why a phase cannot be tested together with the code its tasks were not tested with: one of them has passed tests
/// that no gate replaces, and that cannot run on the merge.
pub(super) fn untestable(run: &TreeRun, phase: &TaskId, branch: &BranchName) -> Option<String> {
    let is_tested = |leaf: &&TaskNode| !run.progress.task(&leaf.id).untested;
    parts(run, phase).filter(is_tested).find_map(|leaf| match tests_of_part(run, leaf, &job(run, &leaf.id)) {
        Some(tests) if tests.is_empty() => Some(without_tests(&leaf.id)),
        Some(_) => None,
        None => Some(format!(
            "{task} was tested by an agent, on other files than the merge has, and no agent tests a merge; give \
             {phase} tests of its own (`integration`) and run again, or merge it by hand (`git merge {branch}`)",
            task = leaf.id,
            branch = shell_word(branch),
        )),
    })
}

/// The done tasks that are merged with a phase and that no gate covers.
fn parts<'r>(run: &'r TreeRun, phase: &TaskId) -> impl Iterator<Item = &'r TaskNode> {
    let tree = &run.plan.tree;
    let of_phase = |gate: &&TaskNode| tree.phase_of(&gate.id) == tree.phase_of(phase);
    let gates = tree.gates().into_iter().filter(of_phase);
    let looked_at: BTreeSet<&TaskId> = gates.flat_map(|gate| tree.leaves_below(&gate.id)).collect();
    // A task moved to another phase is merged with the phase it was done in.
    let place = StepPlace::Phase(phase.clone());
    let moved = run.progress.finished_on(&place).filter(|task| tree.phase_of(task) != phase);
    let all: Vec<&TaskId> = tree.leaves_below(phase).into_iter().chain(moved).collect();
    let is_done = |leaf: &&TaskId| {
        let state = run.progress.task(leaf);
        state.status == TaskStatus::Complete && !state.skipped
    };
    let parts = all.into_iter().filter(move |leaf| !looked_at.contains(leaf)).filter(is_done);
    parts.filter_map(|leaf| tree.node(leaf))
}

/// The tests a task must pass where it lands, each apart from those of others; `None` if only an agent can test it.
pub(super) fn landing_tests(run: &TreeRun, job: &TaskJob) -> Option<Vec<TestCommand>> {
    tests_of_part(run, &job.task, job).map(|tests| apart(&job.task, &tests))
}

/// The tests of all tasks of the tree where they land: those of the pipeline, or else their own. A pipeline that
/// several tasks name is read once: its commands are the same for all of them.
pub(super) fn all_landing_tests(run: &TreeRun) -> impl Iterator<Item = TestCommand> {
    let mut read: BTreeMap<Option<&str>, Option<Pipeline>> = BTreeMap::new();
    run.plan.tree.nodes().filter(|node| node.is_leaf()).flat_map(move |leaf| {
        let job = job(run, &leaf.id);
        let pipeline = read.entry(leaf.pipeline.as_deref()).or_insert_with(|| pipeline_of(run, leaf, &job));
        let tests = tests_in(pipeline.as_ref(), &job).unwrap_or_else(|| job.tests.clone());
        apart(&job.task, &tests)
    })
}

/// The tests of a task; `None` if only an agent can test it.
fn tests_of_part(run: &TreeRun, leaf: &TaskNode, job: &TaskJob) -> Option<Vec<TestCommand>> {
    tests_in(pipeline_of(run, leaf, job).as_ref(), job)
}

fn pipeline_of(run: &TreeRun, leaf: &TaskNode, job: &TaskJob) -> Option<Pipeline> {
    pipelines::load(&pipelines::pipeline_of(run, leaf), &job.inputs(), &leaf.id).ok()
}

/// The tests of a task with this pipeline. One that cannot be read has none.
fn tests_in(pipeline: Option<&Pipeline>, job: &TaskJob) -> Option<Vec<TestCommand>> {
    let Some(pipeline) = pipeline else { return Some(Vec::new()) };
    let step = pipeline.nodes().iter().find(|node| node.step.as_deref() == Some("test"));
    match step {
        Some(node) if node.handler == HandlerKind::Codergen => None,
        Some(node) => Some(job.tests_of(node).unwrap_or_default()),
        None => Some(job.tests.clone()),
    }
}

/// The remedy for a task whose earlier tests are unknown to this run, but have to pass again.
pub(super) fn without_tests(task: &TaskId) -> String {
    format!(
        "the tests of {task} passed on other files and have to run again, but it has none now; give those it passed \
         (`--test-command`, `--pipeline`) and run again, or `pleach reset {task}` to have it done again"
    )
}

/// Whether a command refers to its task, so that it differs for each task.
fn is_of_task(test: &TestCommand) -> bool {
    OF_TASKS.iter().any(|name| test.command.contains(name))
}

/// The tests of a task among those of others: each gets its own task's variables, and its setup is torn down after it.
pub(super) fn apart(task: &TaskNode, tests: &[TestCommand]) -> Vec<TestCommand> {
    let known = |command: &str| with_task_values(&task.id, &values_of(task), command);
    if tests.iter().all(|test| test.kind.is_test()) {
        return tests.iter().map(|test| TestCommand { command: known(&test.command), ..test.clone() }).collect();
    }
    let each = |is_meant: fn(TestKind) -> bool, joint: &str| {
        let meant = tests.iter().filter(|test| is_meant(test.kind));
        // Each runs in its own shell: inside a condition, `set -e` has no effect.
        let meant = meant.map(|test| format!("\"$0\" -c {}", shell_word(&test.command)));
        meant.collect::<Vec<_>>().join(joint)
    };
    let set_up = each(|kind| kind == TestKind::Setup, " &&\n");
    let test = each(TestKind::is_test, " || failed=$?\n");
    let take_down = each(|kind| kind == TestKind::Teardown, "\n");
    let set_up = if set_up.is_empty() { ":" } else { &set_up };
    let command =
        format!("failed=0\nif {set_up}\nthen\n{test} || failed=$?\nelse failed=$?\nfi\n{take_down}\nexit \"$failed\"");
    let timeout = tests.iter().filter_map(|test| test.timeout).sum();
    let first = tests.iter().find(|test| test.kind.is_test());
    first
        .map(|test| TestCommand { command: known(&command), timeout: Some(timeout), ..test.clone() })
        .into_iter()
        .collect()
}

/// The job of a task, or of the tests of a phase.
pub(super) fn job(run: &TreeRun, task: &TaskId) -> Arc<TaskJob> {
    let task = run.plan.tree.node(task).expect("what is next is a node of the tree");
    Arc::new(TaskJob {
        task: task.clone(),
        tests: tests(run, task),
        test_timeout: run.plan.test_timeout,
        logs: run.plan.logs.clone(),
        reports: run.plan.reports.clone(),
        commit_logs: run.plan.commit_logs,
        commit_reports: run.plan.commit_reports,
        attempts: run.plan.limits.max_retries,
        not_before: run.progress.not_before(),
        begun: run.progress.task(&task.id).begun_there(),
        beside: run.plan.repos.as_ref().map(|repos| repos.beside(&run.plan.repo_name, &task.id)).unwrap_or_default(),
    })
}

/// The files a session started on.
pub(super) fn begun_on(run: &TreeRun, started: &PipelineStarted) -> Result<Option<TreeId>, Error> {
    Ok(started.built_on().map(|base| run.repo.tree_of(base)).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::process::{Blocking, run_blocking};

    fn task() -> TaskNode {
        let tree = r#"{"nodes": {"T1": {"id": "T1", "name": "It's one"}}}"#;
        pleach_core::plan::tree::TaskTree::read(tree).expect("a tree").nodes().next().expect("a task").clone()
    }

    fn run(tests: &[(TestKind, &str)]) -> Vec<(i32, String)> {
        let test = |(kind, command): &(TestKind, &str)| TestCommand {
            kind: *kind,
            command: (*command).to_owned(),
            framework: None,
            timeout: Some(Duration::from_secs(2)),
        };
        let tests: Vec<TestCommand> = tests.iter().map(test).collect();
        let shell = |test: TestCommand| {
            let args = vec!["-c".into(), test.command.into()];
            let ran = run_blocking(&Blocking { program: "sh".into(), args, cwd: "/".into(), ..Blocking::default() });
            let ran = ran.expect("a shell");
            (ran.code().expect("it ends"), String::from_utf8(ran.stdout).expect("text"))
        };
        apart(&task(), &tests).into_iter().map(shell).collect()
    }

    #[test]
    fn tests_of_a_part_know_their_task() {
        let tests = [(TestKind::Unit, "echo \"$task_id: $task_name\""), (TestKind::E2e, "exit 3")];
        assert_eq!(run(&tests), [(0, "T1: It's one\n".to_owned()), (3, String::new())]);
    }

    #[test]
    fn setup_of_a_parts_tests_is_torn_down() {
        use TestKind::{Setup, Teardown, Unit};
        let said = |tests: &[(TestKind, &str)]| {
            let [(code, said)] = &run(tests)[..] else { panic!("one command") };
            (*code, said.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let down = (Teardown, "echo down");
        assert_eq!(said(&[(Setup, "echo up"), (Unit, "echo one"), down]), (0, "up one down".to_owned()));
        let all = [(Setup, "echo up"), (Unit, "echo one; exit 4 # not well"), (Unit, "echo two"), down];
        assert_eq!(said(&all), (4, "up one two down".to_owned()));
        assert_eq!(said(&[(Setup, "exit 5"), (Setup, "echo up"), (Unit, "echo one"), down]), (5, "down".to_owned()));
        assert_eq!(said(&[(Unit, "echo one"), down]), (0, "one down".to_owned()));
        let strict = "set -e; test -e 'no such file'; echo \"$task_id\"";
        assert_eq!(said(&[(Unit, strict), down]), (1, "down".to_owned()));
        assert_eq!(said(&[(Setup, strict), (Unit, "echo one"), down]), (1, "down".to_owned()));
    }
}
