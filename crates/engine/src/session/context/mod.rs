//! A context of a session: a chain of records, their folded state, and worktrees. A session has `main` and may have
//! more; each context writes its own chain.

pub(super) mod begin_node;
mod conflicts;
mod context;
pub(super) mod end_node;
pub(super) mod history;
mod memory;
mod pending;
pub(super) mod recording;
pub(super) mod turn;
pub(super) mod worktrees;

pub(super) use begin_node::NodeBegin;
pub(super) use context::{Context, OpenedContext};
pub(super) use end_node::NodeEnd;
pub(super) use pending::{MadeStep, PendingRecord, Writers};
pub(super) use turn::RecordedTurn;
