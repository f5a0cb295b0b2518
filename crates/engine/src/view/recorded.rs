//! The pipeline and the state of a session, read from its record.

use crate::env::Error;
use git::record::History;
use pleach_core::event::PipelineStarted;
use pleach_core::ids::NodeId;
use pleach_core::plan::diagnostic::Severity;
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::plan::{self, Inputs};
use pleach_core::state::State;

/// The pipeline of a session, parsed again from its record.
pub fn recorded_pipeline(started: &PipelineStarted) -> Result<Pipeline, Error> {
    let inputs = Inputs { files: started.files.clone(), values: started.inputs.clone() };
    let (pipeline, diagnostics) = match started.task {
        Some(_) => plan::load_for_tasks(&started.dot, &inputs),
        None => plan::load(&started.dot, &inputs, &[]),
    };
    match pipeline {
        Some(pipeline) if diagnostics.iter().all(|found| found.severity != Severity::Error) => Ok(pipeline),
        _ => Err(Error::Invalid { diagnostics }),
    }
}

/// The node a run starts at.
pub(crate) fn start_node(pipeline: &Pipeline) -> Result<NodeId, Error> {
    match (pipeline.start(), pipeline.exit()) {
        (Some(start), Some(_)) => Ok(start.id.clone()),
        _ => Err(Error::Invalid { diagnostics: Vec::new() }),
    }
}

/// The state of a session, folded from its record.
pub(crate) fn recorded_state(history: &History, pipeline: &Pipeline) -> Result<State, Error> {
    let mut state = match &history.kept {
        Some(kept) => kept.clone(),
        None => State::new(start_node(pipeline)?),
    };
    for event in history.events() {
        state.apply(event)?;
    }
    Ok(state)
}
