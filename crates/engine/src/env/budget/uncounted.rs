//! Unreadable records. An agent can corrupt records, and spending in them must not count as zero: if a limit counts it
//! and would stop a run, nothing starts until a person decides.

use git::record::{self, PLANNING, SESSIONS};
use pleach_core::ids::SessionId;
use pleach_core::text::shell_word;

/// An unreadable chain of records whose spending a limit counts.
#[derive(Debug, thiserror::Error)]
#[error("what {} cannot be read, and {limits} count it", self.spender())]
pub struct Uncounted {
    /// The ref of the chain.
    pub(super) chain: String,
    pub(super) limits: &'static str,
    pub(super) source: record::Error,
}

impl Uncounted {
    pub(super) const DAY: &str = "the limits of a day (`budget.per_day_tokens`, `budget.per_day_usd`)";

    /// The limits over all sessions of a tree run.
    pub(crate) const RUN: &str = "the limits of a run and of a task (`budget.tokens`, `budget.usd`, \
         `budget.per_task_tokens`, `budget.per_task_usd`)";

    /// The session the record belongs to; `None` for planners.
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

    /// What the user can do about it.
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
