//! What the steps of a task mean for the nodes that stand for them.

use super::pipeline::{Backoff, HandlerKind, Pipeline, WritePolicy};

/// So many crashes of an agent or a reviewer in a row end the attempt as failed, where the pipeline does not say.
const MAX_CRASHES: u32 = 3;

impl Pipeline {
    /// The same pipeline as it works on tasks: tests and reviews look and do not touch, and an agent or a reviewer that
    /// crashes is asked again, unless their nodes say otherwise.
    pub fn for_tasks(mut self) -> Self {
        let says_how_often = self.default_max_retries > 0 || self.retry_policy.is_some();
        for node in &mut self.nodes {
            let step = node.step.as_deref();
            if matches!(step, Some("test" | "review")) && !node.attrs.contains_key("write") {
                node.write = WritePolicy::Never;
            }
            let own = says_how_often || node.max_retries.is_some() || node.retry_policy.is_some();
            let can_crash = node.handler == HandlerKind::Codergen && matches!(step, Some("implement" | "review"));
            if can_crash && !own {
                (node.max_retries, node.retry_policy) = (Some(MAX_CRASHES - 1), Backoff::preset("standard"));
            }
        }
        self
    }
}
