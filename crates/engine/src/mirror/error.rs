//! Why a mirror does not have what it should, or is not asked.

use std::time::Duration;

use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::CommitId;
use pleach_core::text::{first_line, shorten, visible};

/// Why a mirror does not have what it should, or is not asked.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// There is no server that could be spoken to.
    #[error("cannot reach CXDB at {server}: {why}")]
    Unreachable {
        /// Its address.
        server: String,
        /// What happened.
        why: String,
    },
    /// It has closed the connection, as it does where it cannot answer.
    #[error("CXDB closed the connection")]
    Closed,
    /// It does not answer.
    #[error("CXDB does not answer")]
    Silent,
    /// It takes longer than there is time.
    #[error("{} s were not enough for CXDB", .0.as_secs())]
    Slow(Duration),
    /// It has answered with an error.
    #[error("CXDB refuses: {text} ({code})")]
    Refused {
        /// Its code.
        code: u32,
        /// Its words.
        text: String,
    },
    /// It has answered what nobody asked.
    #[error("CXDB does not speak as expected: {0}")]
    Odd(String),
    /// Somebody else has written to the same context at the same time.
    #[error("somebody else writes to the same context at CXDB")]
    Disturbed,
    /// Its HTTP side has refused.
    #[error("CXDB's HTTP side at {server}: {why}")]
    Http {
        /// Its address.
        server: String,
        /// What happened.
        why: String,
    },
    /// Somebody else copies the same run.
    #[error(transparent)]
    Locked(#[from] git::workspace::LockError),
    /// A record cannot be copied.
    #[error("record {record} cannot be copied: {why}")]
    Record {
        /// The record.
        record: CommitId,
        /// Why.
        why: String,
    },
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] git::record::Error),
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
}

/// What a server says, as it is told to people: in one line, which is no longer than they read.
pub(super) fn told(text: &str) -> String {
    visible(&shorten(first_line(text), 300))
}

impl MirrorError {
    /// Warns of a server that does not take the types of turns, and has all of them.
    pub fn of_types(&self) -> Warning {
        WarningCode::MirrorTypes.with(format!("{self}; turns are copied there, and cannot be shown by their fields"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_one_short_line() {
        assert_eq!(told("no\u{1b}[31m space\nerror: run this"), "no\\u{1b}[31m space");
        assert_eq!(told(&"x".repeat(9000)).chars().count(), 301);
    }
}
