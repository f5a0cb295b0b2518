//! The branches of the fan-outs that run in a session: which have started, which are being stopped.

use std::collections::BTreeSet;

use super::Session;
use pleach_core::ids::ContextId;
use pleach_core::plan::parallel::DEFAULT_MAX_PARALLEL;
use pleach_core::state::FanOut;

/// What the loop knows of branches beyond their records.
#[derive(Debug, Default)]
pub(super) struct Branches {
    /// Those that work or have worked in this process.
    started: BTreeSet<ContextId>,
    /// Those whose result is not needed any more, until nothing of them runs.
    stopping: BTreeSet<ContextId>,
}

impl Branches {
    /// Those of a session that is run from here on.
    pub(super) fn of(session: &Session) -> Self {
        let started = session.contexts().filter(|context| context.state.is_branch && context.workspace.is_some());
        Self { started: started.map(|context| context.id.clone()).collect(), stopping: BTreeSet::new() }
    }

    /// Takes a branch into the running ones, if there is room beside the others. One that waits for a person takes none.
    pub(super) fn start(&mut self, session: &Session, id: &ContextId, waits: impl Fn(&ContextId) -> bool) -> bool {
        let Some((_, fan_out)) = fan_out_of(session, id) else { return false };
        let rules = session.plan.pipeline.node(&fan_out.node).and_then(|node| node.fan_out);
        let room = rules.map_or(DEFAULT_MAX_PARALLEL, |rules| rules.max_parallel);
        let runs = |id: &ContextId| self.started.contains(id) && !waits(id);
        let running = fan_out.open().filter(|branch| runs(&branch.of.context)).count();
        let may = running < room;
        if may {
            self.started.insert(id.clone());
        }
        may
    }

    /// Whether a branch is being stopped.
    pub(super) fn is_stopping(&self, id: &ContextId) -> bool {
        self.stopping.contains(id)
    }

    /// Stops a branch, with all that forked from it. Returns those that were not being stopped yet.
    pub(super) fn stop(&mut self, session: &Session, id: &ContextId) -> Vec<ContextId> {
        let all = with_descendants(session, id);
        all.into_iter().filter(|id| self.stopping.insert(id.clone())).collect()
    }

    /// Forgets a branch that has ended.
    pub(super) fn forget(&mut self, id: &ContextId) {
        self.started.remove(id);
        self.stopping.remove(id);
    }
}

/// The context a branch forks from, and its fan-out. None while that context is away.
pub(super) fn fan_out_of<'s>(session: &'s Session, id: &ContextId) -> Option<(&'s ContextId, &'s FanOut)> {
    session.contexts().find_map(|context| {
        let fan_out = context.state.fan_out.as_ref().filter(|fan_out| !fan_out.is_over)?;
        fan_out.branch(id).map(|_| (&context.id, fan_out))
    })
}

/// A context and the open ones that forked from it, the innermost last.
pub(super) fn with_descendants(session: &Session, id: &ContextId) -> Vec<ContextId> {
    let (mut all, mut next) = (vec![id.clone()], 0);
    while let Some(id) = all.get(next).cloned() {
        next += 1;
        let context = session.contexts().find(|context| context.id == id);
        let fan_out = context.and_then(|context| context.state.fan_out.as_ref()).filter(|fan_out| !fan_out.is_over);
        all.extend(fan_out.into_iter().flat_map(FanOut::open).map(|branch| branch.of.context.clone()));
    }
    all
}
