//! What a context remembers of its own record: the conversations and answers that later nodes are given, read once.

use std::sync::Arc;

use crate::session::executor::Transcripts;
use agents::llm::Message;

/// Parts of a record, read or written, that later nodes need.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Conversations and answers.
    pub heard: Arc<Transcripts>,
    /// The messages of the interrupted node.
    pub interrupted: Vec<Message>,
}

impl Memory {
    /// Conversations and answers, for appending. Nothing else holds them once a node has started to work.
    pub(crate) fn heard_mut(&mut self) -> &mut Transcripts {
        Arc::make_mut(&mut self.heard)
    }
}
