//! The pipeline and the state of a session, read from its record.

use crate::env::Error;
use crate::event::PipelineStarted;
use crate::ids::NodeId;
use crate::plan::diagnostic::Severity;
use crate::plan::pipeline::Pipeline;
use crate::plan::{self, Inputs};
use crate::record::History;
use crate::state::State;

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
