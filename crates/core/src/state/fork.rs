//! A context that forks from another: both report it, and what is folded of the one becomes the beginning of the other.

use super::{Position, State, Visit};
use crate::budget::Spent;
use crate::event::{ContextForked, ForkKind};
use crate::ids::{ContextId, NodeId};

impl State {
    /// The first time it is told, by the context that is forked; the second time by the new one, whose chain continues
    /// from there.
    pub(super) fn forked(&mut self, data: &ContextForked) -> Result<(), String> {
        self.must_run()?;
        if data.from != self.id {
            return Err(format!("this is context `{}`", self.id));
        }
        match self.forks.get(&data.context) {
            None => drop(self.forks.insert(data.context.clone(), data.clone())),
            Some(known) if known == data => self.become_fork(data),
            Some(_) => return Err(format!("context `{}` was forked otherwise", data.context)),
        }
        Ok(())
    }

    /// What was said and answered before is known to the new context. What it does and spends is its own.
    fn become_fork(&mut self, data: &ContextForked) {
        let from = self.next_node().or(self.completed.last()).filter(|node| **node != data.node_id).cloned();
        (self.id, self.branches) = (data.context.clone(), data.branches.clone());
        (self.base, self.work, self.checkpointed) = (data.base.clone(), data.base.clone(), data.base.clone());
        self.forks.clear();
        let fan_out = self.fan_out.take().filter(|fan_out| fan_out.branch(&data.context).is_some());
        self.within.extend(fan_out.map(|fan_out| fan_out.node));
        (self.branch_end, self.has_started) = (None, false);
        self.join = data.join.clone();
        self.conflicts.clear();
        self.spent = Spent::default();
        self.exceeded.clear();
        self.price_unknown.clear();
        self.is_branch = data.kind == ForkKind::Parallel;
        if self.is_branch {
            self.turns = 0;
            self.task = None;
            self.edges_taken.clear();
            self.gate_retries.clear();
            for node in self.nodes.values_mut() {
                (node.repeats, node.visits_before) = (0, node.visits);
            }
        }
        let visit = Visit { node: data.node_id.clone(), visit: self.visits(&data.node_id) + 1, attempt: 1, from };
        self.position = Position::Ready { visit, not_before: None };
    }

    /// Whether nothing more is to be done in it.
    pub fn is_over(&self) -> bool {
        self.position == Position::Ended
    }

    /// The name of the next context that is forked from this one at a node, beside others that are about to be.
    pub fn fork_name(&self, node: &NodeId, beside: &[ContextId]) -> ContextId {
        let name = if self.id == ContextId::main() {
            ContextId::of_node(node).to_string()
        } else {
            format!("{}-{node}", self.id)
        };
        let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        let is_free = |name: &ContextId| !self.forks.contains_key(name) && !beside.contains(name);
        let free = names.find_map(|name| ContextId::new(name).ok().filter(is_free));
        free.expect("numbers do not come to an end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_named_after_their_first_node() {
        let mut state = State::new("start".parse().unwrap());
        let name = |state: &State, node: &str| state.fork_name(&node.parse().unwrap(), &[]).to_string();
        let names = ["a", "main", "run", "r2", "r", "_x", "rest"].map(|node| name(&state, node));
        assert_eq!(names, ["a", "n_main", "n_run", "n_r2", "n_r", "n__x", "rest"]);
        let forked = |context: &str| ContextForked {
            from: ContextId::main(),
            context: context.parse().unwrap(),
            kind: ForkKind::Parallel,
            node_id: "a".parse().unwrap(),
            base: Default::default(),
            branches: Default::default(),
            join: None,
            extra: Default::default(),
        };
        state.forks.insert("a".parse().unwrap(), forked("a"));
        assert_eq!(name(&state, "a"), "a-2");
        state.id = "a-2".parse().unwrap();
        state.forks.clear();
        assert_eq!(name(&state, "x"), "a-2-x");
    }
}
