//! What the steps of a task mean for the nodes that stand for them.

use std::collections::BTreeSet;

use super::pipeline::{Backoff, HandlerKind, Node, Pipeline, WritePolicy};

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
                // Crashes alone: `max_retries` would repeat failures as well.
                node.retry_policy =
                    Backoff::preset("standard").map(|standard| Backoff { attempts: MAX_CRASHES, ..standard });
            }
        }
        self
    }

    /// Whether a node is the first on a way from the start whose agent works on the task, in a pipeline without an agent
    /// at `implement`. Agents without a step count where none has one.
    pub fn is_first_at_work(&self, node: &Node) -> bool {
        let agents = || self.nodes.iter().filter(|node| works(node));
        let implements = agents().any(|node| node.step.as_deref() == Some("implement"));
        let has_step = agents().any(|node| node.step.is_some());
        let begins = |node: &Node| works(node) && node.step.is_some() == has_step;
        if implements || !begins(node) {
            return false;
        }
        let mut ways: Vec<&Node> = self.start().into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(at) = ways.pop() {
            if at.id == node.id {
                return true;
            }
            if seen.insert(&at.id) && !begins(at) {
                ways.extend(self.outgoing(&at.id).filter_map(|edge| self.node(&edge.to)));
            }
        }
        false
    }
}

/// Whether an agent may change the files of the task at a node.
fn works(node: &Node) -> bool {
    let looks = matches!(node.step.as_deref(), Some("test" | "review"));
    node.handler == HandlerKind::Codergen && node.write != WritePolicy::Never && !looks
}

#[cfg(test)]
mod tests {
    use crate::plan::{Inputs, load_for_tasks};

    /// The nodes at which the work starts, in the order of the file.
    fn first(nodes: &str, edges: &str) -> String {
        let dot = format!("digraph a {{ start [shape=Mdiamond]; done [shape=Msquare]; {nodes}; {edges} }}");
        let pipeline = load_for_tasks(&dot, &Inputs::default()).0.expect("a graph");
        let first = pipeline.nodes().iter().filter(|node| pipeline.is_first_at_work(node));
        first.map(|node| node.id.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_agent_with_a_step_starts_the_work() {
        let (code, test) = ("code [step=code, prompt=c]", "test [shape=parallelogram, step=test]");
        assert_eq!(first(&format!("{code}; {test}"), "start -> code -> test -> done"), "code");
        let other = format!("polish [step=polish, prompt=p]; {code}");
        assert_eq!(first(&other, "start -> code -> polish -> done"), "code", "not the first of the file");
        assert_eq!(first(&other, "start -> code -> done; start -> polish -> done"), "polish code", "either way");
        let plan = format!("plan [prompt=p]; {code}");
        assert_eq!(first(&plan, "start -> plan -> code -> done"), "code");
        assert_eq!(
            first("plan [prompt=p]; code [prompt=c]", "start -> plan -> code -> done"),
            "plan",
            "none has a step"
        );
        let reads = format!("plan [step=plan, write=false, prompt=p]; {code}");
        assert_eq!(first(&reads, "start -> plan -> code -> done"), "code", "it may not write");
        let look = format!("look [step=test, prompt=t]; review [step=review, write=may]; {code}");
        assert_eq!(first(&look, "start -> look -> review -> code -> done"), "code");
    }

    #[test]
    fn the_work_starts_at_the_implementing_agent() {
        let steps = "plan [step=plan, prompt=p]; implement [step=implement]";
        assert_eq!(first(steps, "start -> plan -> implement -> done"), "");
        let by_command = "implement [step=implement, shape=parallelogram, tool_command=make]; fix [step=fix, prompt=f]";
        assert_eq!(first(by_command, "start -> implement -> fix -> done"), "fix", "a command is told nothing");
    }
}
