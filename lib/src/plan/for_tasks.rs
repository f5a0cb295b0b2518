//! What the steps of a task mean for the nodes that stand for them.

use super::pipeline::{Pipeline, WritePolicy};

impl Pipeline {
    /// The same pipeline as it works on tasks: tests and reviews look and do not touch, unless their nodes say otherwise.
    pub fn for_tasks(mut self) -> Self {
        for node in &mut self.nodes {
            if matches!(node.step.as_deref(), Some("test" | "review")) && !node.attrs.contains_key("write") {
                node.write = WritePolicy::Never;
            }
        }
        self
    }
}
