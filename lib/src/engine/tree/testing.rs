//! What tests a task, the tasks of a phase together, and a phase without tests of its own where it is merged.

use std::collections::BTreeSet;

use super::begin::load;
use super::run::TreeRun;
use crate::engine::task::TaskJob;
use crate::ids::TaskId;
use crate::plan::OF_TASKS;
use crate::plan::pipeline::HandlerKind;
use crate::plan::tree::{TaskNode, TestCommand, TestKind};
use crate::progress::Status;

impl TreeRun<'_> {
    /// What tests a node: a task, or the tasks below it together.
    pub(super) fn tests(&self, node: &TaskNode) -> Vec<TestCommand> {
        let is_meant = |test: &&TestCommand| node.is_leaf() || test.kind != TestKind::Unit;
        let mut tests: Vec<TestCommand> = node.test_commands.iter().filter(is_meant).cloned().collect();
        let tested = |tests: &[TestCommand]| tests.iter().any(|test| test.kind.is_test());
        if !tested(&tests) {
            match node.is_leaf() {
                true => tests.extend(self.plan.test.clone()),
                false => tests.extend(self.tests_of_parts(&node.id)),
            }
        }
        // Where nothing is tested there is nothing to set up for.
        if !tested(&tests) {
            tests.clear();
        }
        for test in &mut tests {
            test.timeout.get_or_insert(self.plan.test_timeout);
        }
        tests
    }

    /// What tests the tasks of a phase that are done and that no tests of the whole look at, each once.
    fn tests_of_parts(&self, phase: &TaskId) -> Vec<TestCommand> {
        let tree = &self.plan.tree;
        let looked_at: BTreeSet<&TaskId> =
            tree.gates().into_iter().flat_map(|gate| tree.leaves_below(&gate.id)).collect();
        let is_done = |leaf: &&TaskId| {
            let state = self.progress.task(leaf);
            state.status == Status::Complete && !state.skipped
        };
        let parts = tree.leaves_below(phase).into_iter().filter(|leaf| !looked_at.contains(leaf)).filter(is_done);
        let mut tests: Vec<TestCommand> = Vec::new();
        for test in parts.filter_map(|leaf| tree.node(leaf)).flat_map(|leaf| self.tests_of_part(leaf)) {
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
        tests
    }

    /// What tests a task, for a shell that knows of no task. None of it where an agent tests.
    fn tests_of_part(&self, leaf: &TaskNode) -> Vec<TestCommand> {
        let job = self.job(&leaf.id);
        // One that cannot be used works no task.
        let Ok(pipeline) = load(&self.pipeline_of(leaf), &job.inputs(), &leaf.id) else { return Vec::new() };
        let step = pipeline.nodes().iter().find(|node| node.step.as_deref() == Some("test"));
        let mut tests = match step {
            Some(node) if node.handler == HandlerKind::Codergen => Vec::new(),
            Some(node) => job.tests_of(node).unwrap_or_default(),
            None => job.tests.clone(),
        };
        for test in &mut tests {
            test.command = with_variables(&job, &test.command);
        }
        tests
    }
}

/// A command with what it knows of its task, where it asks for that.
fn with_variables(job: &TaskJob, command: &str) -> String {
    if !OF_TASKS.iter().any(|name| command.contains(name)) {
        return command.to_owned();
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let set = job.inputs().into_iter().map(|(name, value)| format!(" {name}={}", quoted(&value)));
    format!("export{}\n{command}", set.collect::<String>())
}
