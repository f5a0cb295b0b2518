//! What a context knows of its own record: the conversations and answers its next nodes are told, read once.

use std::sync::Arc;

use super::Context;
use crate::engine::Error;
use crate::engine::executor::{Heard, Recording, Wanted, interrupted, messages};
use crate::llm::Message;
use crate::record::History;

/// What was read of a record, or written to it, and is needed again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Memory {
    /// What was said.
    pub heard: Arc<Heard>,
    /// The messages of the node that was interrupted.
    pub interrupted: Vec<Message>,
    /// What is on record of a node that starts over.
    pub recorded: Option<Recording>,
}

impl Memory {
    /// What was said, to be added to. Nobody else has it any more once a node has begun to work.
    pub(in crate::engine) fn heard_mut(&mut self) -> &mut Heard {
        Arc::make_mut(&mut self.heard)
    }
}

impl Context {
    /// Reads what the node had said that was interrupted.
    pub(in crate::engine) fn load_interrupted(&mut self) -> Result<(), Error> {
        let ranges = interrupted(&self.state);
        if !ranges.is_empty() {
            let history = History::all_in(&self.repo, &self.plan.id, &self.id)?;
            self.memory.interrupted = messages(&self.repo, &history, &ranges)?;
        }
        Ok(())
    }

    /// Sees that it knows what was said of this, reading the record where it does not.
    pub(in crate::engine) fn hear(&mut self, wanted: &Wanted) -> Result<(), Error> {
        let history = match self.memory.heard.lacks(&self.state, wanted) {
            true => Some(History::all_in(&self.repo, &self.plan.id, &self.id)?),
            false => None,
        };
        self.memory.heard_mut().load(&self.repo, &self.state, wanted, history.as_ref())
    }
}
