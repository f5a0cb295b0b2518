//! Runs the work of contexts. An assignment names it by ids and the record it follows from.

mod assignment;
mod executor;
pub(super) mod judge;
pub(super) mod place;
pub(super) mod recorded_facts;
mod relocated;
mod retelling;
mod setup;
pub(super) mod work;

pub use assignment::{AssignedWork, Assignment, ConflictWork, Conversation, NodeStart};
pub(super) use executor::Running;
pub use executor::{Executor, WorkWatch};
pub(super) use place::{moved_aside_warning, own_refs};
pub(super) use recorded_facts::{
    RecordedFacts, Transcripts, Wanted, interrupted, is_told_of_the_run, messages, newest_answer,
};
pub(super) use setup::Setup;
pub use work::{AgentWork, JoinWork, Offered, Work};
