//! What sessions, landings and trees have in common: the environment of runs, and whom they may ask.
//!
//! Sees `trust` and `merging`. Begin with `engine`.
//!
//! | question | where |
//! |---|---|
//! | What do the runs of a process share? | `engine` settings, agents, stores and rates; `supervisor` which runs there are; `broadcast` events to subscribers, never blocking; `spawned` a run in the background; `locks` |
//! | Who answers questions? | `human` gates; `truster` approval of a repository's commands; `handler` kinds of nodes of the embedding program |
//! | What has been spent? | `budget/`: `verdict` the result, `ledger` the spending of sessions, `planning` planners, `uncounted` unreadable records, `unmetered` agents without figures, `unpriced` models without a price |
//! | What may commands touch? | `bounds` sandbox and temporary files of a node; `secret_check` refuses secrets in input that is recorded verbatim |
//! | In which repositories, to which remotes? | `session_repos`, `push_settings` |
//! | What can go wrong? | `error`, for all of a session |

mod bounds;
mod broadcast;
mod budget;
mod engine;
mod error;
mod handler;
mod human;
mod locks;
mod push_settings;
pub(crate) mod secret_check;
mod session_repos;
mod spawned;
mod supervisor;
mod truster;

pub(crate) use bounds::{SandboxBounds, apart, git_variables, repo_contexts};
pub use broadcast::{Broadcast, Subscription};
pub use budget::{Budget, BudgetVerdict, PlannerBudget, RunLedger, Uncounted, UnmeteredAgent, Unpriced};
pub(crate) use budget::{spent_in, unknown_price, unpriced_in};
pub use engine::Engine;
pub use error::Error;
pub use handler::{Handler, HandlerContext};
pub use human::{
    AutoApprove, Choice, GateAnswer, GateReply, GivenAnswers, Interviewer, NoChoice, Nobody, PreparedAnswers, Question,
    ReviewedWork,
};
pub use locks::{Copy, lock_name, wait_for_orphans};
pub(crate) use locks::{Locks, worktree_lock, worktree_lock_name};
pub(crate) use push_settings::RefPolicies;
pub use push_settings::{PushSettings, RepoPush};
pub use session_repos::SessionRepos;
pub use spawned::SpawnedRun;
pub(crate) use supervisor::Registered;
pub use supervisor::Supervisor;
pub use truster::{AgreesToAll, Truster};
