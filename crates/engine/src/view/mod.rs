//! Reads sessions: their status, events and commits. Nothing here writes, and no lock is needed: records are immutable,
//! and new ones are only appended.
//!
//! Sees `merging`, `env` and `push`. Begin with `view`.
//!
//! - `view` is a session as it was recorded: its status, its summary, what is asked of a person; `find` finds it by its name.
//! - `runs` are the runs of a session, its replays among them.
//! - `repo_work` says what came of it in each repository, `landed` where that has landed, `branches` where its branches are.
//! - `turn` is a turn, with what was done in it; `failure` why a node failed; `answer` what a person said at a gate.
//! - `cost` is what it cost; `export` writes it all as plain files.
//! - `recorded` is what runs read as well: the pipeline of a session, and the state its record says.

mod answer;
mod branches;
mod cost;
mod export;
mod failure;
mod find;
mod landed;
mod recorded;
mod repo_work;
mod runs;
mod turn;
mod view;

pub use answer::AnswerView;
pub use cost::{CostsRead, costs};
pub use export::ExportError;
pub use failure::NodeFailure;
pub use find::{NoSession, can_be_of_turn, find_turn, first_run, resolve_run, resolve_session, run_worktrees};
pub use landed::{LandedPart, landed};
pub use recorded::recorded_pipeline;
pub(crate) use recorded::{folded, recorded_state, start_node};
pub use repo_work::RepoWork;
pub use runs::{ForkPoint, RunView, runs};
pub use turn::{Deed, Milestone, Moment, TurnView};
pub use view::{SessionStatus, Sessions, Summary, View, has_landed};
