//! Runs task trees: one task after another, each in a session on a branch of its own, landed on the target when it
//! ends. What is done is read from the step commits of the target and of the branches ahead of it.

mod approvals;
mod attempts;
mod base;
mod begin;
mod bookkeeping;
mod changed;
mod delete_branches;
mod earlier_runs;
mod edited;
mod ended;
mod error;
mod failed_attempts;
mod feedback;
mod kept;
mod land;
mod logs;
mod loop_guard;
mod mark;
mod open;
mod pending_trust;
mod phase;
mod pipelines;
mod plan;
mod planning;
pub mod progress;
mod pump;
mod refusal;
mod refuse;
mod resume;
mod run;
mod run_state;
mod spending;
mod stamp;
mod start;
mod step_cache;
mod step_scan;
mod steps;
mod testing;
mod trust;
mod unfinished;

pub use approvals::pending_trust;
pub use edited::changes;
pub use ended::TreeEnded;
pub use error::Error;
pub use feedback::feedback;
pub use logs::{Log, logs, report};
pub use mark::{Mark, Marked, Marking, Prepared};
pub use open::{check_target, open, target_lock};
pub use pending_trust::{PendingTrust, Start};
pub use phase::as_merged_now;
pub use plan::{TaskPipeline, TreePlan};
pub use planning::{PlanError, Planner, planner_node};
pub use pump::{run_tree, spawn};
pub use refusal::{First, Refusal, RefusalCode};
pub use run::TreeRun;
pub use stamp::Stamp;
pub use start::restart_warnings;
pub use trust::to_trust;
pub use unfinished::{OpenSession, has_landed, open_sessions};

/// The built-in pipeline of a task.
pub const TASK_PIPELINE: &str = include_str!("../../../pipelines/task.dot");

/// The built-in pipeline of a phase's tests.
pub const GATE_PIPELINE: &str = include_str!("../../../pipelines/gate.dot");

/// The attributes settings put into the pipelines of tasks: who works a step, with which model, and for how long.
pub const STEP_ATTRIBUTES: [&str; 3] = ["agent", "llm_model", "timeout"];
