//! The parallel branches of a session, as their records have them.

use std::collections::BTreeSet;

use super::recorded::recorded_state;
use crate::env::Error;
use git::Repo;
use git::record::{self, History};
use pleach_core::ids::{ContextId, SessionId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::state::State;

/// A branch of a session.
pub(super) struct RecordedBranch {
    pub state: State,
    /// It has not ended, and neither has its fan-out.
    pub is_open: bool,
}

/// All branches that forked from a context, and those that forked from them.
pub(super) fn read(
    repo: &Repo,
    id: &SessionId,
    pipeline: &Pipeline,
    root: &State,
) -> Result<Vec<RecordedBranch>, Error> {
    let forks = |state: &State, is_open: bool| -> Vec<_> {
        let open = state.fan_out.as_ref().filter(|fan_out| is_open && !fan_out.is_over);
        let is_open = |context| open.and_then(|open| open.branch(context)).is_some_and(|branch| branch.ended.is_none());
        let all: BTreeSet<&ContextId> = state.forks.keys().chain(&state.taken).collect();
        all.into_iter().map(|context| (context.clone(), is_open(context))).collect()
    };
    let (mut next, mut found) = (forks(root, true), Vec::new());
    while let Some((context, is_open)) = next.pop() {
        let history = match History::newest_in(repo, id, &context) {
            Ok(history) => history,
            // It was forked and never started.
            Err(record::Error::Missing { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let state = recorded_state(&history, pipeline)?;
        next.extend(forks(&state, is_open));
        found.push(RecordedBranch { state, is_open });
    }
    found.sort_by(|a, b| a.state.id.cmp(&b.state.id));
    Ok(found)
}
