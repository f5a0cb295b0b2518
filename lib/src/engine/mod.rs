//! Runs sessions: the only loop, and the only place that changes anything.
//!
//! [`Session::run`] asks [`crate::route::next`] what to do, hands nodes to a worker, and records what the worker
//! reports before anything else happens. Workers scan and write objects; refs, records and the folded state belong
//! to the loop alone.

mod bounds;
mod broadcast;
mod budget;
mod cancel;
mod context;
mod ended;
mod engine;
mod error;
mod executor;
mod export;
mod fork;
mod handler;
mod human;
pub mod landing;
mod locks;
mod orphans;
mod pause;
mod pausing;
mod pool;
mod preamble;
mod pump;
mod recorded;
mod remove;
mod resume;
mod run;
mod secret_check;
mod session;
mod session_plan;
mod spawned;
mod start;
mod start_request;
pub mod status_file;
mod supervisor;
pub mod task;
pub mod tree;
mod truster;
mod view;
mod worker;

pub use broadcast::{Broadcast, Subscription};
pub use budget::spending::overspent;
pub use budget::{Budget, BudgetVerdict, PlannerBudget, Uncounted, UnmeteredAgent, Unpriced};
pub use cancel::{LOOK, abandon_session, cancel_session};
pub use ended::{Ended, Pause};
pub use engine::Engine;
pub use error::Error;
pub use executor::{AgentWork, Assignment, Conversation, Executor, Job, Offered, Recording, Start, Watch, Work};
pub use export::ExportError;
pub use fork::fork_context;
pub use handler::{Handler, HandlerContext};
pub use human::{Answer, AutoApprove, Choice, Given, Interviewer, Judged, NoChoice, Nobody, Prepared, Question, Reply};
pub use locks::{Copy, lock_name, wait_for_orphans};
pub use orphans::{Orphan, OrphanPlaces, orphans};
pub use pause::pause_session;
pub use recorded::{recorded_pipeline, recorded_state};
pub use remove::{Obstacle, Removal, RemovalStep, RemoveError, prepare_removal};
pub use resume::resume_session;
pub use run::{run_session, spawn_session};
pub use session::Session;
pub use session_plan::SessionPlan;
pub use spawned::SpawnedRun;
pub use start::{OnOpen, start_session};
pub use start_request::{StartRequest, TaskStart};
pub use supervisor::Supervisor;
pub use truster::{AgreesToAll, Truster};
pub use view::{
    CostsRead, Deed, Milestone, Moment, NoSession, NodeFailure, Sessions, Standing, Summary, Turn, View, costs,
    resolve_session, session_worktrees,
};
