//! The merge queue, decided: what is in it, in which order it is merged, what is tested together and what lands. Values
//! come in, the next thing to do goes out; nothing here reads, writes or waits.

mod entry;
mod extent;
mod merge_tests;
mod order;
mod plan;
mod prefix;
mod renaming;
mod request;
mod task_values;

pub use entry::{
    Candidate, EntryLanding, EntryMark, EntryResolution, EntryState, EntryTest, MarkDecision, MergeQuestion,
    QueueEntry, TestVerdict,
};
pub use extent::ConflictExtent;
pub use merge_tests::{MergeTests, starts_from};
pub use order::{QueueItem, ordered};
pub use plan::{EntryWait, QueuePlan, plan, plan_without};
pub use prefix::{BatchRecord, PrefixSearch, PrefixStep};
pub use renaming::Renaming;
pub use request::{RequestSide, ResolutionRequest, SHOWN};
pub use task_values::{with_task_values, without_secret_values};
