//! Runs task trees: each task in a session on its own branch, landed on the target when it ends. The progress is read
//! from the step commits of the target and of the branches ahead of it; nothing else is stored.
//!
//! Sees all rooms of the engine but [`crate::retention`]. Begin with `pump`.
//!
//! | question | where |
//! |---|---|
//! | What is a run? | `plan` tree and settings, `claim` what it holds, `open` reads what was done, `run` and `run_state` its state, `task_slots` its worktrees, `start` its opening commit, `pump` the loop: start actions, handle results; `ending` and `ended` |
//! | What if tasks are in several repositories? | `repos` which, `several` what the runs in each of them ask and share |
//! | Where does a task start? | `begin` in an unfinished session or a new one, `resume` the session an earlier run left, `base` on which commit, `pipelines` with which pipeline, `unfinished` and `earlier_runs` sessions of earlier runs, `foreign_commits` of others on a task's branch, `keep` commits of a branch that moves, `as_prompt` a replay of it |
//! | Where does a red test become feedback? | In [`crate::session`], `worker/run_tests` runs it, `task/step` puts the result into the step commit; here `attempts` starts the next attempt, `feedback` collects its feedback |
//! | How does work land? | `land` does what [`pleach_core::merge`] asks, `bookkeeping` commits without code, `testing` the tests before it, `refusal` and `refusal_reasons` why work waits and what to do, `queue_plan` and `queue_landing` through the merge queue, `queue_work` what of it goes on behind the tasks, `delete_branches` afterwards |
//! | What about phases? | `phase` branch and merge of a phase, `failed_attempts` attempts on a phase branch no longer used |
//! | What was approved? | `trust` what must be approved before a run, `pending_trust` and `approvals` sessions and branches fetched from elsewhere |
//! | What has been done? | `progress` reads the commits, `step_scan` finds steps, `steps` those between two commits, `step_cache` a cache that may be lost, `logs` logs and reports, `spending` of the run and of tasks |
//! | What do people decide? | `skip_reset`, `queued_marks` while a run works on the tree; `tree_edits` and `stamp` detect changes of the tree's file; `loop_guard` prevents the same work twice |
//! | Who plans a tree? | `planning` calls a planner |
//! | What of tasks without a tree's file? | `ad_hoc/` keeps them in refs and tells where they are |

pub mod ad_hoc;
mod approvals;
mod as_prompt;
mod attempts;
mod base;
mod begin;
mod bookkeeping;
mod claim;
mod delete_branches;
mod earlier_runs;
mod ended;
mod ending;
mod error;
mod failed_attempts;
mod feedback;
mod foreign_commits;
mod keep;
mod land;
mod logs;
mod loop_guard;
mod open;
mod pending_trust;
mod phase;
mod pipelines;
mod plan;
mod planning;
pub mod progress;
mod pump;
mod queue_landing;
mod queue_plan;
mod queue_work;
mod queued_marks;
mod refusal;
mod refusal_reasons;
mod repos;
mod resume;
mod run;
mod run_state;
mod several;
mod skip_reset;
mod spending;
mod stamp;
mod start;
mod step_cache;
mod step_scan;
mod steps;
mod task_slots;
mod testing;
mod tree_edits;
mod trust;
mod unfinished;

pub use approvals::pending_trust;
pub use as_prompt::{PipelineAndInputs, as_prompt};
pub use claim::{TreeClaim, check_target};
pub use ended::{TreeEnded, TreeOutcome};
pub use error::Error;
pub use feedback::feedback;
pub use logs::{TaskLog, logs, report};
pub use open::open;
pub use pending_trust::{PendingTrust, TaskBase};
pub use phase::as_merged_now;
pub use plan::{TaskPipeline, TreePlan};
pub use planning::{PlanError, Planner, planner_node};
pub use pump::{run_tree, spawn};
pub use queue_plan::QueueLanding;
pub use refusal::{First, Refusal, RefusalCode};
pub use repos::{TreeRepo, TreeRepos};
pub use run::TreeRun;
pub use several::place_in_order;
pub use skip_reset::{Mark, Marked, Marking, PreparedMark};
pub use spending::share_spending;
pub use stamp::Stamp;
pub use start::restart_warnings;
pub use tree_edits::changes;
pub use trust::to_trust;
pub use unfinished::{OpenSession, open_sessions};
