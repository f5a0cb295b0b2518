//! A context that forks from another: both report it, and what is folded of the one becomes the beginning of the other.

use super::{Branch, FanOut, Phase, Position, Rewound, State, Visit};
use crate::budget::Spent;
use crate::event::{ContextForked, ForkKind, Replayed, Return, RewindVia, Snapshot};
use crate::ids::{BranchName, ContextId, NodeId};

impl State {
    /// A parallel branch is told of twice: first by the context that is forked, then by the new one, whose chain continues
    /// from there. Of a replay only its own chain tells.
    pub(super) fn forked(&mut self, data: &ContextForked) -> Result<(), String> {
        if data.from != self.id {
            return Err(format!("this is context `{}`", self.id));
        }
        if data.kind == ForkKind::Replay {
            return self.become_replay(data);
        }
        self.must_run()?;
        match self.forks.get(&data.context) {
            None => {
                self.taken.insert(data.context.clone());
                self.forks.insert(data.context.clone(), data.clone());
            }
            Some(known) if known == data => self.become_fork(data),
            Some(_) => return Err(format!("context `{}` was forked otherwise", data.context)),
        }
        Ok(())
    }

    /// What was said and answered before is known to the new context. What it does and spends is its own.
    fn become_fork(&mut self, data: &ContextForked) {
        let from = self.next_node().or(self.completed.last()).filter(|node| **node != data.node_id).cloned();
        self.begin_anew(data);
        (self.base, self.checkpointed) = (data.base.clone(), data.base.clone());
        let fan_out = self.fan_out.take().filter(|fan_out| fan_out.branch(&data.context).is_some());
        self.within.extend(fan_out.map(|fan_out| fan_out.node));
        (self.branch_end, self.has_started) = (None, false);
        self.join = data.join.clone();
        self.conflicts.clear();
        self.is_branch = true;
        (self.turns, self.turns_before) = (0, 0);
        self.task = None;
        self.edges_taken.clear();
        self.gate_retries.clear();
        for node in self.nodes.values_mut() {
            (node.repeats, node.visits_before) = (0, node.visits);
        }
        let visit = Visit { node: data.node_id.clone(), visit: self.visits(&data.node_id) + 1, attempt: 1, from };
        self.position = Position::Ready { visit, not_before: None };
    }

    /// The same run goes on from here in another context, with branches, worktrees and spending of its own. Its turns and
    /// messages are numbered on.
    fn become_replay(&mut self, data: &ContextForked) -> Result<(), String> {
        self.must_have_begun()?;
        let Some(replayed) = &data.replayed else { return Err("it does not tell where it goes on".into()) };
        let has_ended = !matches!(self.phase, Phase::Running | Phase::Paused { .. });
        let open = self.open_branches(data, replayed);
        self.begin_anew(data);
        for (of, fork) in open {
            if let Some(branch) =
                self.fan_out.iter_mut().flat_map(|fan_out| &mut fan_out.branches).find(|b| b.of.context == of)
            {
                branch.of.context = fork.context.clone();
            }
            self.taken.insert(fork.context.clone());
            self.forks.insert(fork.context.clone(), fork);
        }
        (self.landing, self.landed, self.task) = (Vec::new(), Snapshot::new(), None);
        self.phase = Phase::Running;
        self.rewind(replayed.via);
        (self.prompt_append, self.turns_before) = (replayed.changes.prompt_append.clone(), self.turns);
        for (key, value) in &replayed.changes.inputs {
            self.context.insert(key.clone(), value.clone().into());
            self.initial_context.insert(key.clone(), value.clone().into());
        }
        if let Some(node) = &replayed.begins {
            if !self.can_start_at(node) {
                return Err(format!("the run has not reached `{node}`"));
            }
            self.fan_out = self.fan_out.take().filter(|fan_out| fan_out.is_over);
            self.go_back_to(node);
        }
        if has_ended {
            self.count_anew();
        }
        Ok(())
    }

    /// What every new context begins with.
    fn begin_anew(&mut self, data: &ContextForked) {
        (self.id, self.branches, self.work) = (data.context.clone(), data.branches.clone(), data.base.clone());
        self.forks.clear();
        self.taken.clear();
        self.spent = Spent::default();
        self.exceeded.clear();
        self.price_unknown.clear();
        self.returned = None;
    }

    /// The branches of the running fan-out as a replay has them, each with the context it goes on from.
    fn open_branches(&self, data: &ContextForked, replayed: &Replayed) -> Vec<(ContextId, ContextForked)> {
        let Replayed { cut, via, changes, .. } = replayed;
        let root = data.context.run_root();
        let open = self.fan_out.iter().filter(|fan_out| !fan_out.is_over).flat_map(FanOut::open);
        let fork = |branch: &Branch| {
            let of = &branch.of.context;
            let known = self.forks.get(of)?;
            let context = of.in_run(&root);
            let branches = known.branches.iter().map(|(repo, branch)| (repo.clone(), branch_of(branch, &context)));
            let branches = branches.collect();
            let replayed = cut.get(of).map(|to| {
                let (cut, via, changes) = (cut.clone(), *via, changes.clone());
                Box::new(Replayed { turn: None, to: *to, cut, begins: None, via, changes })
            });
            let (kind, from) = match replayed {
                Some(_) => (ForkKind::Replay, of.clone()),
                // It had no record of its own yet.
                None => (ForkKind::Parallel, data.context.clone()),
            };
            let fork = ContextForked { from, context, kind, branches, replayed, ..known.clone() };
            Some((of.clone(), fork))
        };
        open.filter_map(fork).collect()
    }

    /// The run goes back to a point it was at before, `then`. What only grows goes on growing: what was left has been paid
    /// for, and its names are taken.
    pub fn return_to(&mut self, data: &Return, then: Self) {
        let left = std::mem::replace(self, then);
        (self.turns, self.messages, self.spent) = (left.turns, left.messages, left.spent);
        (self.exceeded, self.price_unknown, self.taken) = (left.exceeded, left.price_unknown, left.taken);
        (self.returns, self.returned) = (data.number, Some(Box::new(data.clone())));
        self.work = data.work.clone();
        self.phase = Phase::Running;
        self.rewind(data.via);
    }

    /// What programs keep of their conversations knows what was said later.
    fn rewind(&mut self, via: Option<RewindVia>) {
        self.rewound = self.has_turns().then_some(Rewound { via });
        self.thread_states.clear();
        if let Position::Running { turns, interrupted, .. } = &mut self.position {
            *interrupted = true;
            turns.iter_mut().for_each(|turn| turn.agent_state = None);
        }
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
        let is_free =
            |name: &ContextId| !self.forks.contains_key(name) && !self.taken.contains(name) && !beside.contains(name);
        let free = names.find_map(|name| ContextId::new(name).ok().filter(is_free));
        free.expect("numbers do not come to an end")
    }
}

/// The branch of another context beside the branch of one: `x/abcdefgh--tests` beside `x/abcdefgh` or `x/abcdefgh--r1`.
pub fn branch_of(beside: &BranchName, context: &ContextId) -> BranchName {
    let (above, own) = beside.as_str().rsplit_once('/').map_or(("", beside.as_str()), |(above, own)| (above, own));
    let session = own.split_once("--").map_or(own, |(session, _)| session);
    let slash = if above.is_empty() { "" } else { "/" };
    BranchName::new(format!("{above}{slash}{session}--{context}"))
        .expect("contexts have no letters a branch cannot have")
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
            replayed: None,
            extra: Default::default(),
        };
        state.forks.insert("a".parse().unwrap(), forked("a"));
        assert_eq!(name(&state, "a"), "a-2");
        state.id = "a-2".parse().unwrap();
        state.forks.clear();
        assert_eq!(name(&state, "x"), "a-2-x");
    }
}
