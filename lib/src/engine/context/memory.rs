//! What a context knows of its own record: the conversations and answers its next nodes are told, read once.

use std::collections::BTreeMap;

use super::Context;
use super::work::Recording;
use crate::engine::Error;
use crate::event::MessageRange;
use crate::ids::NodeId;
use crate::llm::Message;
use crate::record::History;
use crate::state::Position;

/// What was read of a record, or written to it, and is needed again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Memory {
    /// What each node answered or printed in its newest visit, with the number of the message.
    pub answers: BTreeMap<NodeId, (Option<u64>, String)>,
    /// The conversations nodes with full fidelity go on with.
    pub threads: BTreeMap<String, Vec<Message>>,
    /// The messages of the node that was interrupted.
    pub interrupted: Vec<Message>,
    /// What is on record of a node that starts over.
    pub recorded: Option<Recording>,
}

impl Context {
    /// Reads what the node had said that was interrupted.
    pub(in crate::engine) fn load_interrupted(&mut self) -> Result<(), Error> {
        let Position::Running { turns, .. } = &self.state.position else { return Ok(()) };
        let ranges: Vec<MessageRange> = turns.iter().filter_map(|turn| turn.messages).collect();
        if !ranges.is_empty() {
            self.memory.interrupted = self.read_messages(&ranges)?;
        }
        Ok(())
    }

    /// The messages of a conversation, read from the record the first time.
    pub(super) fn thread_messages(&mut self, thread: &str) -> Result<Vec<Message>, Error> {
        if let Some(messages) = self.memory.threads.get(thread) {
            return Ok(messages.clone());
        }
        let ranges = self.state.threads.get(thread).cloned().unwrap_or_default();
        let messages = if ranges.is_empty() { Vec::new() } else { self.read_messages(&ranges)? };
        self.memory.threads.insert(thread.to_owned(), messages.clone());
        Ok(messages)
    }

    /// What some nodes answered or printed in their newest visits, read from the record the first time.
    pub(in crate::engine) fn answers(&mut self, nodes: &[NodeId]) -> Result<Vec<String>, Error> {
        let number = |id: &NodeId| self.state.nodes.get(id).and_then(|node| node.response);
        let is_known = |id: &NodeId| self.memory.answers.get(id).is_some_and(|(known, _)| *known == number(id));
        let missing: Vec<(NodeId, u64)> =
            nodes.iter().filter(|id| !is_known(id)).filter_map(|id| Some((id.clone(), number(id)?))).collect();
        if !missing.is_empty() {
            let history = History::whole_in(&self.repo, &self.plan.id, &self.id)?;
            for (id, number) in missing {
                let message = history.message(&self.repo, number)?;
                let text = serde_json::from_value::<Message>(message).map(|message| message.text());
                self.memory.answers.insert(id, (Some(number), text.unwrap_or_default()));
            }
        }
        let text = |id: &NodeId| self.memory.answers.get(id).map(|(_, text)| text.clone()).unwrap_or_default();
        Ok(nodes.iter().map(text).collect())
    }

    fn read_messages(&self, ranges: &[MessageRange]) -> Result<Vec<Message>, Error> {
        let history = History::whole_in(&self.repo, &self.plan.id, &self.id)?;
        let mut messages = Vec::new();
        for number in ranges.iter().flat_map(|range| range.first..=range.last) {
            let value = history.message(&self.repo, number)?;
            let message = serde_json::from_value(value).map_err(|error| Error::Message { number, source: error })?;
            messages.push(message);
        }
        Ok(messages)
    }
}
