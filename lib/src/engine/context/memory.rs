//! What a context knows of its own record: the conversations and answers its next nodes are told, read once.

use std::sync::Arc;

use crate::engine::executor::{Recording, Transcripts};
use crate::llm::Message;

/// What was read of a record, or written to it, and is needed again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Memory {
    /// What was said.
    pub heard: Arc<Transcripts>,
    /// The messages of the node that was interrupted.
    pub interrupted: Vec<Message>,
    /// What is on record of a node that starts over.
    pub recorded: Option<Recording>,
}

impl Memory {
    /// What was said, to be added to. Nobody else has it any more once a node has begun to work.
    pub(in crate::engine) fn heard_mut(&mut self) -> &mut Transcripts {
        Arc::make_mut(&mut self.heard)
    }
}
