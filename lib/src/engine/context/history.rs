//! Reads what a context needs of its own record.

use crate::engine::context::Context;
use crate::engine::executor::recorded_facts::judged;
use crate::engine::executor::{Wanted, interrupted, messages, newest_answer};
use crate::engine::{Error, ReviewedWork};
use crate::record::History;

/// Reads what the node had said that was interrupted.
pub(in crate::engine) fn load_interrupted(context: &mut Context) -> Result<(), Error> {
    let ranges = interrupted(&context.state);
    if !ranges.is_empty() {
        let history = History::all_in(&context.repo, &context.plan.id, &context.id)?;
        context.memory.interrupted = messages(&context.repo, &history, &ranges)?;
    }
    Ok(())
}

/// Sees that it knows what was said of this, reading the record where it does not.
pub(in crate::engine) fn hear(context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
    let history = match context.memory.heard.lacks(&context.state, wanted) {
        true => Some(History::all_in(&context.repo, &context.plan.id, &context.id)?),
        false => None,
    };
    context.memory.heard_mut().load(&context.repo, &context.state, wanted, history.as_ref())
}

/// What a person judges at the gate it waits at.
pub(in crate::engine) fn judged_in(context: &mut Context) -> Result<ReviewedWork, Error> {
    let wanted = Wanted { answers: newest_answer(&context.state).into_iter().collect(), thread: None };
    hear(context, &wanted)?;
    judged(&context.plan, &context.state, &context.memory.heard)
}
