//! The pipelines of tasks.

use std::collections::BTreeMap;

use super::Error;
use super::plan::TaskPipeline;
use super::run::TreeRun;
use pleach_core::ids::TaskId;
use pleach_core::plan::diagnostic::Severity;
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::plan::tree::TaskNode;
use pleach_core::plan::{self, GATE_PIPELINE};

/// The pipeline of a task.
pub(super) fn pipeline_of(run: &TreeRun, task: &TaskNode) -> TaskPipeline {
    match (&task.pipeline, task.is_leaf()) {
        (_, false) => built_in("gate.dot", GATE_PIPELINE),
        (Some(name), true) => run.plan.pipelines.get(name).unwrap_or(&run.plan.pipeline).clone(),
        (None, true) => run.plan.pipeline.clone(),
    }
}

fn built_in(path: &str, dot: &str) -> TaskPipeline {
    TaskPipeline { dot: dot.to_owned(), path: path.to_owned(), files: BTreeMap::new() }
}

pub(super) fn load(used: &TaskPipeline, inputs: &BTreeMap<String, String>, task: &TaskId) -> Result<Pipeline, Error> {
    let (pipeline, found) = plan::load_for_tasks(&used.dot, &used.inputs(inputs.clone()));
    let wrong = found.iter().find(|found| found.severity == Severity::Error).map(|found| found.message.clone());
    let unusable = |why| Error::Pipeline { path: used.path.clone(), task: task.clone(), why };
    match (pipeline, wrong) {
        (Some(pipeline), None) => Ok(pipeline),
        (_, wrong) => Err(unusable(wrong.unwrap_or_else(|| "it holds no graph".into()))),
    }
}
