//! Runs sessions: the only loop, and the only place that changes anything.
//!
//! The loop asks [`crate::route::next`] for the next action, hands a node to a worker, and records the worker's report
//! before anything else happens. Workers scan and write objects; refs, records and folded state belong to the loop
//! alone.
//!
//! | question | where |
//! |---|---|
//! | How does a session start, resume, end? | `start_request` its input, `start` first record, branch, worktree; `resume` load, fold, repair, continue; `run` to its end; `ended`, `pausing` |
//! | What is a session? | `session` its contexts, budget and lock, `session_plan` what all its contexts share, `session_repos` where it works, `recorded` both read from its record |
//! | What happens next, and who decides? | `pump`, the loop of a session: waits for reports, timers, records being written and stop requests |
//! | What is a context? | `context/`: a chain of records with its folded state and its worktrees; `fork` contexts that start from another |
//! | What do parallel branches do? | `fan_out` forks, records and ends them; `branches` knows which run; `worker/join` brings them together by `merging`; `context/conflicts` takes what a node has resolved |
//! | Where does a turn become a commit? | `worker/agent` has [`crate::workspace`] build it, `context/turn` makes its record, `context/recording` writes the record and then moves the branch |
//! | What is recorded of a node? | `context/begin_node` its start, `context/end_node` its end, `context/pending` events folded but not yet written |
//! | Who does the work of a node? | `executor/`: `assignment` ids and limits only, `recorded_facts` what the record says, `work` the work derived from both, `setup` and `place` where; `worker/dispatch` runs it by kind: `agent`, `command`, `run_tests`, `human`, `simulation`; `handler` kinds of the embedding program |
//! | What does an agent's prompt hold? | `preamble` the run so far, by fidelity; `task/prompts` prompt, tests and review of a task's step |
//! | Where does a limit stop a call? | `spending` the check after every recorded turn and before a node; `budget/`: `verdict` the result, `ledger` the spending of sessions, `planning` planners, `uncounted` unreadable records, `unmetered` agents without figures, `unpriced` models without a price |
//! | What may commands touch? | `bounds` sandbox and temporary files of a node; `secret_check` refuses secrets in input that is recorded verbatim |
//! | Who answers questions? | `human` gates; `truster` approval of a repository's commands |
//! | How does a task of a tree run? | `task/`: attempts on the task's branch, `step` the step commit; `tree/` the tree run; `landing` the commits of a landing; `ad_hoc/` tasks without a tree's file |
//! | What do sessions of a process share? | `engine` the environment of runs, `supervisor`; `broadcast` events to subscribers, never blocking; `spawned` a run in the background |
//! | What is pushed, and when? | `push/`, its module page has the map; `push_missing` what has failed before |
//! | How are branches merged? | `queue/` the merge queue, `forecast` what will conflict |
//! | How is a session inspected or removed? | `view/` status, turns, cost; `export` as plain files; `cancel`, `pause_request` of another process; `remove`; `cleanup` what may go by its age, `orphans` of dead sessions; `pool` worktrees of finished ones; `keep/` all worktrees there are, which can go, and what is kept of them; `locks` |

pub mod ad_hoc;
mod bounds;
mod branches;
mod broadcast;
mod budget;
mod cancel;
mod cleanup;
mod context;
mod ended;
mod engine;
mod error;
mod executor;
mod export;
mod fan_out;
mod forecast;
mod fork;
mod handler;
mod human;
mod joint_slot;
mod keep;
pub mod landing;
mod locks;
pub mod merging;
mod orphans;
mod pause_request;
mod pausing;
mod pool;
mod preamble;
mod pump;
mod push;
mod push_missing;
mod push_settings;
pub mod queue;
mod recorded;
mod remove;
mod resume;
mod run;
mod secret_check;
mod session;
mod session_plan;
mod session_repos;
mod spawned;
mod spending;
mod start;
mod start_request;
mod supervisor;
pub mod task;
pub mod tree;
mod truster;
mod view;
mod worker;

pub use broadcast::{Broadcast, Subscription};
pub use budget::{Budget, BudgetVerdict, PlannerBudget, Uncounted, UnmeteredAgent, Unpriced};
pub use cancel::{LOOK, cancel_session};
pub use cleanup::{
    BranchStays, LeftBranch, RemovedBranch, SessionFate, SessionStays, left_branches, remove_branch, session_fates,
};
pub use ended::{Pause, SessionEnded};
pub use engine::Engine;
pub use error::Error;
pub use executor::{
    AgentWork, AssignedWork, Assignment, ConflictWork, Conversation, Executor, JoinWork, NodeStart, Offered, Recording,
    Work, WorkWatch,
};
pub use export::ExportError;
pub use forecast::{Forecast, ForecastMark, ForecastPair, forecast, quick_forecast};
pub use handler::{Handler, HandlerContext};
pub use human::{
    AutoApprove, Choice, GateAnswer, GateReply, GivenAnswers, Interviewer, NoChoice, Nobody, PreparedAnswers, Question,
    ReviewedWork,
};
pub use keep::{
    Obstacle, OwnWorktree, PrunedWork, RemoveError, WorktreeOwner, WorktreePlaces, WorktreeState, WorktreeStays,
    own_worktrees, prune_worktree, to_prune,
};
pub use locks::{Copy, lock_name, wait_for_orphans};
pub use orphans::{Orphan, orphaned_worktrees, orphans};
pub use pause_request::pause_session;
pub use push_missing::spawn_push;
pub use push_settings::{PushSettings, RepoPush};
pub use recorded::recorded_pipeline;
pub(crate) use recorded::recorded_state;
pub use remove::{Removal, RemovalStep, RepoStep, prepare_removal};
pub use resume::resume_session;
pub use run::{run_session, spawn_session};
pub use session::Session;
pub(crate) use session_plan::SessionPlan;
pub use session_repos::SessionRepos;
pub use spawned::SpawnedRun;
pub use spending::overspent;
pub use start::start_session;
pub use start_request::{SessionRepo, StartRequest, TaskStart};
pub use supervisor::Supervisor;
pub use truster::{AgreesToAll, Truster};
pub use view::{
    CostsRead, Deed, Milestone, Moment, NoSession, NodeFailure, RepoWork, SessionStatus, Sessions, Summary, TurnView,
    View, costs, has_landed, resolve_session, session_worktrees,
};
