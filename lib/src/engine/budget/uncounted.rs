//! Records nobody can read. An agent can make them so, and what was spent in them must not count as nothing then: where a
//! limit counts it and would stop somebody, nothing is begun until a person has decided.

use crate::ids::SessionId;
use crate::record::{self, PLANNING, SESSIONS};
use crate::text::shell_word;

/// A chain of records nobody can read, though a limit counts what was spent in it.
#[derive(Debug, thiserror::Error)]
#[error("what {} cannot be read, and {limits} count it", self.spender())]
pub struct Uncounted {
    /// The ref of the chain.
    pub(super) chain: String,
    /// The limits.
    pub(super) limits: &'static str,
    /// What is wrong with it.
    pub(super) source: record::Error,
}

impl Uncounted {
    /// The limits of a day.
    pub(super) const DAY: &str = "the limits of a day (`budget.per_day_tokens`, `budget.per_day_usd`)";

    /// The limits over all sessions of a run over a tree.
    pub(in crate::engine) const RUN: &str = "the limits of a run and of a task (`budget.tokens`, `budget.usd`, \
         `budget.per_task_tokens`, `budget.per_task_usd`)";

    /// The session whose record it is; none where it is that of planners.
    fn session(&self) -> Option<SessionId> {
        self.chain.strip_prefix(SESSIONS)?.split('/').next()?.parse().ok()
    }

    pub(super) fn spender(&self) -> String {
        match self.session() {
            Some(session) => format!("session {session} has spent"),
            None if self.chain == PLANNING => "planners have spent".to_owned(),
            None => format!("was spent according to `{}`", self.chain),
        }
    }

    /// What a person can do about it.
    pub fn remedy(&self) -> String {
        let forget = match self.session() {
            Some(session) => {
                format!("`pleach rm --force {session}` removes the session, and what it has spent counts no longer")
            }
            None => format!("`git update-ref -d {}` forgets what was spent there", shell_word(&self.chain)),
        };
        format!("restore what is damaged from another clone; or {forget}")
    }
}
