//! The pipeline and the state of a session, read from its record.

use std::collections::{BTreeMap, BTreeSet};

use crate::env::Error;
use git::record::History;
use pleach_core::event::{CutPoint, Event, PipelineStarted, Resumed};
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

/// The state of a context, folded from its record.
pub(crate) fn recorded_state(history: &History, pipeline: &Pipeline) -> Result<State, Error> {
    folded(history, &start_node(pipeline)?, usize::MAX)
}

/// The node the run began with, which was one of another pipeline where a replay has its own.
fn first_node(history: &History, start: &NodeId) -> Result<NodeId, Error> {
    match history.events().next().map(|first| &first.event) {
        Some(Event::PipelineStarted(original)) if !history.forks.is_empty() => {
            start_node(&recorded_pipeline(original)?)
        }
        _ => Ok(start.clone()),
    }
}

/// The state of a context after so many of its events. What a return goes back to is remembered on the way.
pub(crate) fn folded(history: &History, start: &NodeId, events: usize) -> Result<State, Error> {
    let mut state = match &history.kept {
        Some(kept) => kept.clone(),
        None => State::new(first_node(history, start)?),
    };
    let back = |event: &Event| match event {
        Event::Resumed(resumed) => resumed.back.as_ref().map(|back| back.to),
        _ => None,
    };
    let wanted: BTreeSet<CutPoint> = history.events().take(events).filter_map(|event| back(&event.event)).collect();
    let (mut then, mut left) = (BTreeMap::new(), events);
    for record in &history.records {
        for (event, counting) in record.events.iter().take(left).zip(1..) {
            match &event.event {
                Event::Resumed(Resumed { back: Some(back), .. }) => {
                    let before = then.get(&back.to).cloned().ok_or(Error::NoSuchPoint { to: back.to.record })?;
                    state.return_to(back, before);
                }
                _ => state.apply(event)?,
            }
            let point = CutPoint { record: record.commit, events: counting };
            if wanted.contains(&point) {
                then.insert(point, state.clone());
            }
        }
        left = left.saturating_sub(record.events.len());
    }
    Ok(state)
}
