//! To which run of a session a context belongs: `r1` and `r1-…` to the replay `r1`, all others to the run it was started
//! with.

use git::Repo;
use git::record::{ChainTip, contexts};
use pleach_core::ids::{ContextId, SessionId};

/// A run, or all runs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunScope {
    /// The session.
    pub session: SessionId,
    /// The context the run began with; none for all runs.
    pub root: Option<ContextId>,
}

impl RunScope {
    /// One run of a session, by the context it began with; none where there is no such run.
    pub fn of_run(repo: &Repo, session: &SessionId, root: &str) -> Result<Option<Self>, git::Error> {
        let Some(root) = root.parse().ok().filter(is_root) else { return Ok(None) };
        let is_there = contexts(repo, session)?.contains(&root);
        Ok(is_there.then(|| Self { session: session.clone(), root: Some(root) }))
    }

    /// Whether a chain of records belongs to it.
    pub(super) fn has(&self, chain: &ChainTip) -> bool {
        let of_run =
            |root: &ContextId| replay_of(&chain.context).unwrap_or(ContextId::main().as_str()) == root.as_str();
        chain.session == self.session && self.root.as_ref().is_none_or(of_run)
    }
}

/// The replay a context belongs to.
fn replay_of(context: &ContextId) -> Option<&str> {
    let first = context.as_str().split('-').next()?;
    let number = first.strip_prefix('r')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(first)
}

/// Whether a context is the one a run began with.
pub(super) fn is_root(context: &ContextId) -> bool {
    *context == ContextId::main() || replay_of(context) == Some(context.as_str())
}

/// A run as people name it: `SESSION`, or `SESSION/r1`.
pub(crate) fn run_name(session: &SessionId, context: &ContextId) -> String {
    replay_of(context).map_or_else(|| session.to_string(), |replay| format!("{session}/{replay}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_belongs_to_one_run() {
        let session: SessionId = "abcdefgh".parse().unwrap();
        for (context, name, root) in [
            ("main", "abcdefgh", true),
            ("tests", "abcdefgh", false),
            ("r1", "abcdefgh/r1", true),
            ("r12-tests", "abcdefgh/r12", false),
            ("review", "abcdefgh", false),
            ("r-1", "abcdefgh", false),
        ] {
            let context: ContextId = context.parse().unwrap();
            assert_eq!((run_name(&session, &context).as_str(), is_root(&context)), (name, root), "{context}");
        }
    }
}
