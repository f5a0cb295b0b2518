//! Reads what a context needs from its own record.

use super::Context;
use crate::env::{Error, ReviewedWork};
use crate::session::executor::recorded_facts::judged;
use crate::session::executor::{Wanted, interrupted, messages, newest_answer};
use git::record::History;

/// Reads the messages of the interrupted node.
pub(crate) fn load_interrupted(context: &mut Context) -> Result<(), Error> {
    let ranges = interrupted(&context.state);
    if let Some(oldest) = ranges.iter().map(|range| range.first).min() {
        let history = History::newest_with(&context.repo, &context.plan.run.session, &context.id, oldest)?;
        context.memory.interrupted = messages(&context.repo, &history, &ranges)?;
    }
    Ok(())
}

/// Loads the wanted messages, reading the record only if they are not in memory.
pub(crate) fn hear(context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
    let oldest = context.memory.heard.oldest_missing(&context.state, wanted);
    let read = |oldest| History::newest_with(&context.repo, &context.plan.run.session, &context.id, oldest);
    let history = oldest.map(read).transpose()?;
    context.memory.heard_mut().load(&context.repo, &context.state, wanted, history.as_ref())
}

/// The work to review at the gate the context waits at.
pub(crate) fn judged_in(context: &mut Context) -> Result<ReviewedWork, Error> {
    let wanted = Wanted { answers: newest_answer(&context.state).into_iter().collect(), thread: None };
    hear(context, &wanted)?;
    let root = context.plan.root(&context.engine, &context.id);
    judged(&context.plan, &context.state, &context.memory.heard, &root)
}
