//! A session on a task of a tree: a budget of attempts on the task's own branch.
//!
//! Each attempt is a pass through the task's pipeline. A node with a step ends with a step commit, which is what the
//! branch carries; the state of the task is read from those commits alone.

mod job;
pub(super) mod prompts;
mod report;
mod session;
pub(super) mod step;
mod task_slot;

pub use job::TaskJob;
pub(crate) use job::values_of;
pub use report::{Retest, Retested, StepReport, TaskReport};
pub use session::TaskSession;
pub(crate) use step::{code_of, in_the_record};
pub use task_slot::TaskSlot;
