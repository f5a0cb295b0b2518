//! Replays of a session on a task: they go on as the session of a prompt, with what its agent was told and the tests of
//! the task, and write no steps.

use std::collections::BTreeMap;
use std::time::Duration;

use super::testing;
use crate::env::Error;
use crate::session::{RunPoint, TREE_FILE};
use git::Repo;
use pleach_core::config::Config;
use pleach_core::event::ReplayPipeline;
use pleach_core::plan::tree::{TaskTree, TestCommand, TestKind};
use pleach_core::plan::{PromptTest, TASK_PIPELINE, pipeline_for_prompt};
use pleach_core::step::prompt::{self, FeedbackLimits};
use pleach_core::text::shell_word;

/// A pipeline, and the inputs it is run with.
pub type PipelineAndInputs = (ReplayPipeline, BTreeMap<String, String>);

/// The pipeline in which a session on a task is replayed from a point; `None` if it is on none.
pub fn as_prompt(repo: &Repo, point: &RunPoint) -> Result<Option<PipelineAndInputs>, Error> {
    let Some(of) = &point.started.task else { return Ok(None) };
    let unfit = |why: String| Err(Error::PipelineUnfit { why });
    if point.started.dot != TASK_PIPELINE {
        return unfit(format!("task {} has a pipeline of its own, which runs in its tree alone", of.id));
    }
    let state = point.root()?;
    let next = state.next_node().and_then(|node| point.pipeline.node(node));
    let is_before = |node: &str| matches!(node, "start" | "implement");
    if let Some(node) = next.filter(|node| !is_before(node.id.as_str())) {
        return unfit(format!("task {} goes on at `{}` there, which runs in its tree alone", of.id, node.id));
    }
    let history = git::record::History::newest(repo, &point.run)?;
    let tree = history.opening_file(repo, TREE_FILE)?.and_then(|text| TaskTree::read(&text).ok());
    let Some(task) = tree.as_ref().and_then(|tree| tree.node(&of.id)) else {
        return unfit(format!("the record does not have task {}", of.id));
    };
    let config = match Config::from_recorded(point.started.config.clone()) {
        Ok(config) => config,
        Err(error) => return unfit(error.to_string()),
    };
    let default = config.test_of_work().map(|command| TestCommand {
        kind: TestKind::Unit,
        command: command.to_owned(),
        framework: None,
        timeout: None,
    });
    let tests = testing::tests_of_leaf(task, default, Duration::from_secs(config.tree.test_timeout));
    let feedback = state.task.as_ref().map(|task| &task.feedback[..]).unwrap_or_default();
    let goal = prompt::implement(task, feedback, &[], FeedbackLimits::default());
    let tests = testing::apart(task, &tests);
    let timeout: Duration = tests.iter().filter_map(|test| test.timeout).sum();
    // Each runs in its own shell, as it would in its tree.
    let command = match &tests[..] {
        [test] => test.command.clone(),
        tests => {
            let each = tests.iter().map(|test| format!("\"$0\" -c {}", shell_word(&test.command)));
            each.collect::<Vec<_>>().join(" &&\n")
        }
    };
    let test = (!tests.is_empty()).then_some(PromptTest { command: &command, timeout: timeout.as_secs().max(1) });
    let name = if test.is_some() { "prompt-tested.dot" } else { "prompt.dot" };
    let dot = pipeline_for_prompt(&goal, test);
    let inputs = [("goal", goal), ("base", of.base.to_string())].map(|(key, value)| (key.to_owned(), value));
    Ok(Some((ReplayPipeline { dot, dot_path: name.to_owned(), files: BTreeMap::new() }, inputs.into())))
}
