//! The merge queue: brings branches into their target, tested. What is decided is in [`pleach_core::queue`]; all state is in refs,
//! so the next process to lock a queue resumes where the last one stopped.
//!
//! Sees the rooms up to [`crate::session`], and nothing of trees. Begin with `process`.
//!
//! | question | where |
//! |---|---|
//! | What is in the queue? | `store` the queue as refs, [`git::record`] those of an entry, `archive` entries closed long ago, `enqueue` adds and finds entries, `decide` what people decide |
//! | What happens to it? | `run` a queue this process works, `process` the loop, `settle` what a killed one has left, `outcome` the result, `settings` |
//! | How is an entry merged? | `sides` from which commits, `candidate` one onto a commit, `batch` several on top of each other, `markers` conflict markers in the result, `derived` files that commands make, `vetting` whether a test would notice a mistake, `edited_tests` whether the entry changed that test |
//! | How do several repositories land at once? | `together`; `joint_entries` landings that wait or were interrupted, `joint_tests` their tests side by side |
//! | How is it tested? | `test_runs` the running tests, `test_slot` their worktrees, `results` known results, `tip` tests of the target itself, `tree_tests` of files nobody merges |
//! | Who is to blame for a red test? | `suspects`, `blame` |
//! | How is a conflict resolved? | `extent` whether to redo the task instead, `conflict` as a commit, `resolver` by an agent, `resolvers` the running agents, `resolver_request` their request, `answer` checks of the answer, `by_hand` by a person; `learned` records it |
//! | How does it land? | `landing` moves the target, `commits` builds commits; `cleanup` removes what is left over |
//! | What was approved? | `trust` |
//! | What will conflict? | `forecast`, before merging |

mod answer;
mod archive;
mod batch;
mod blame;
mod by_hand;
mod candidate;
mod cleanup;
pub mod commits;
mod conflict;
mod decide;
mod derived;
mod edited_tests;
mod enqueue;
mod error;
mod extent;
mod forecast;
mod joint_entries;
mod joint_tests;
mod landing;
mod learned;
mod markers;
mod outcome;
mod process;
mod resolver;
mod resolver_request;
mod resolvers;
mod results;
mod run;
mod settings;
mod settle;
mod sides;
mod store;
mod suspects;
mod test_runs;
mod test_slot;
mod tip;
mod together;
mod tree_tests;
mod trust;
mod vetting;

pub use by_hand::{AbortError, ConflictWorktree, abort_resolution, begin_resolution, finish_resolution};
pub use cleanup::delete_landed_branch;
pub use decide::{
    allow, approve, close_mark, drop_entry, drop_marks, escalate_entry, newest_landing, retry, undo, withdraw_session,
    withdraw_task,
};
pub(crate) use decide::{close_landed, withdraw_for_mark};
pub use edited_tests::edited_tests;
pub(crate) use edited_tests::edited_words;
pub use enqueue::{Submission, enqueue, find_entry, find_task};
pub use error::QueueError;
pub use forecast::{Forecast, ForecastMark, ForecastPair, forecast, quick_forecast};
pub use joint_entries::{
    JointPart, QueuedLanding, entries_of_landing, landing_targets, queued_landings, submit_together,
    unfinished_landings,
};
pub use outcome::QueueOutcome;
pub(crate) use results::note_tested;
pub use run::QueueRun;
pub use settings::{QueueSettings, ResolverSettings};
pub use store::{MergeQueue, queue_targets};
pub use test_slot::TestPlace;
pub use tip::{TipTest, known_tip_test, run_tip_test};
pub use together::{JointLanding, JointOutcome};
pub use tree_tests::{TreeTest, test_trees};
pub use trust::{queue_to_trust, tests_to_trust};
