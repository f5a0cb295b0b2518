//! Runs sessions: a pipeline at work on a branch. The loop asks [`pleach_core::route::next`] for the next action, hands a node to a
//! worker, and records the worker's report before anything else happens. Workers scan and write objects; refs, records and
//! folded state belong to the loop alone.
//!
//! Sees `merging`, `env`, `push`, `view` and `keep`, and knows nothing of landing and trees. Begin with `pump`.
//!
//! | question | where |
//! |---|---|
//! | How does a session start, resume, end? | `start_request` its input, `start` first record, branch, worktree; `resume` load, fold, repair, continue; `run` to its end; `ended`, `pausing`; `cancel`, `pause_request` of another process; `push_missing` what failed to be pushed |
//! | What is a session? | `session` its contexts, budget and lock, `session_plan` what all its contexts share |
//! | What happens next, and who decides? | `pump`, the loop of a session: waits for reports, timers, records being written and stop requests |
//! | What is a context? | `context/`: a chain of records with its folded state and its worktrees; `fork` contexts that start from another; `pool` worktrees of finished ones; `joint_slot` where what belongs to several is tested |
//! | How does a run go back, or is it replayed? | [`git::record`] cuts its chains at the turn (`cut`), `point` has what it was there, `going_back` records the return, `replay` begins a run of its own (`replay_preview` what it would do); its agent goes on by `context/begin_node`, from a tape or by `executor/retelling`, in its own worktree (`executor/relocated`) |
//! | What do parallel branches do? | `fan_out` forks, records and ends them; `branches` knows which run; `worker/join` brings them together by [`crate::merging`]; `context/conflicts` takes what a node has resolved |
//! | Where does a turn become a commit? | `worker/agent` has [`git::workspace`] build it, `context/turn` makes its record, `context/recording` writes the record and then moves the branch |
//! | What is recorded of a node? | `context/begin_node` its start, `context/end_node` its end, `context/pending` events folded but not yet written |
//! | Who does the work of a node? | `executor/`: `assignment` ids and limits only, `recorded_facts` what the record says, `work` the work derived from both, `setup` and `place` where; `worker/dispatch` runs it by kind: `agent`, `command`, `run_tests`, `human`, `simulation` |
//! | What does an agent's prompt hold? | `preamble` the run so far, by fidelity; `task/prompts` prompt, tests and review of a task's step |
//! | When is a limit asked? | `spending`, after every recorded turn and before a node |
//! | How is a task of a tree worked? | `task/`: attempts on the task's branch, `step` the step commit |

mod branches;
pub(crate) mod cancel;
mod context;
mod ended;
mod executor;
mod fan_out;
mod fork;
mod going_back;
mod joint_slot;
mod pause_request;
mod pausing;
mod point;
mod pool;
mod preamble;
mod pump;
mod push_missing;
mod replay;
mod replay_preview;
pub(crate) mod resume;
mod run;
mod session;
mod session_plan;
mod spending;
mod start;
mod start_request;
mod task;
mod worker;

pub use cancel::{LOOK, cancel_session};
pub use ended::{Pause, SessionEnded};
pub use executor::{
    AgentWork, AssignedWork, Assignment, ConflictWork, Conversation, Executor, JoinWork, NodeStart, Offered, Work,
    WorkWatch,
};
pub(crate) use joint_slot::{JointCommand, JointFiles, JointRepo, JointSlot};
pub use pause_request::pause_session;
pub use point::{DoneLater, RunPoint};
pub use preamble::asked_of;
pub use push_missing::spawn_push;
pub use replay::{ReplayOptions, start_replay};
pub use replay_preview::ReplayPreview;
pub use resume::{ResumeAt, resume_session};
pub(crate) use run::run_attempt;
pub(crate) use run::run_whole_session;
pub use run::{run_session, spawn_beside, spawn_session, wait_for_left_pushes};
pub use session::Session;
pub(crate) use session_plan::SessionPlan;
pub use spending::overspent;
pub(crate) use spending::task_is_out_of_budget;
pub use start::start_session;
pub(crate) use start::{make_first_copy, open_session};
pub use start_request::{SessionRepo, StartRequest, TaskStart};
pub(crate) use start_request::{TREE_FILE, refuse_clash};
pub(crate) use task::{
    Retest, Retested, StepReport, TaskJob, TaskReport, TaskSession, TaskSlot, code_of, in_the_record, values_of,
};
