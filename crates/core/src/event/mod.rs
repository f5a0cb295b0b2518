//! The one vocabulary of the program. Engine, records, renderers and tests all use [`Event`].
//!
//! An event is a fact that happened in a session. Records hold events in order; [`crate::state`] folds them. A few are
//! only broadcast ([`Event::is_recorded`]). The JSON shape of each is fixed (`docs/records.md`): fields are only ever
//! added, and a reader keeps the fields it does not know in `extra`.

mod budget;
mod cleanup;
mod conflict;
mod cut;
mod node;
mod notification;
mod outcome;
mod parallel;
mod pre_encoded;
mod recorded;
mod remote;
mod secrets;
mod session;
pub mod status_file;
mod task;
mod turn;
mod warning;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use budget::{BudgetExceeded, PriceUnknown};
pub use cleanup::{CleanedItem, CleanedKind, CleanupCompleted, KeptItem, StayingItem};
pub use conflict::{ConflictKind, ConflictedPath};
pub use cut::{CutPoint, HistoryCut, ReplayChanges, ReplayPipeline, Replayed, Return, RewindVia};
pub use node::{HumanInteraction, NodeExecution, NodeStarted, RetryAt, Route};
pub use notification::{
    AgentSpoke, AgentWaits, MergeComplete, MergeEscalated, MergeResolution, Notification, PhaseMerged, RunStarted,
    TaskLanded, TaskStarted,
};
pub use outcome::{EmptyStatus, FailureClass, Outcome, Status};
pub use parallel::{
    ContextJoined, ParallelBranch, ParallelBranchCompleted, ParallelBranchStarted, ParallelCompleted, ParallelStarted,
    WorktreeMergeConflict, WorktreeMerged,
};
pub use pre_encoded::PreEncoded;
pub use recorded::{Recorded, to_the_millisecond};
pub use remote::{BranchPushed, FetchedStart, PushFailed, RepoCloned, RepoFetched};
pub use session::{
    Checkpoint, ContextForked, ForkKind, PauseReason, PipelineCancelled, PipelineCompleted, PipelineFailed,
    PipelinePaused, PipelineStarted, Resumed, SessionBranchCreated, SnapshotRecorded, WorktreeCreated,
};
pub use task::{AttemptStarted, Commits, Feedback, FeedbackKind, Landed, Landing, StepFinished, TaskOf};
pub use turn::{AgentTurn, MessageRange, SideCall, ToolCall, ToolExecution, TurnCommitted, Usage};
pub use warning::{Warning, WarningCode};

use crate::ids::{CommitId, RepoName};

/// The version this program writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// Fields of a newer writer, kept so that rewriting a record loses nothing.
pub type Extra = Map<String, Value>;

/// A commit for each repository of the workspace.
pub type Snapshot = BTreeMap<RepoName, CommitId>;

/// Why a recorded event could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Written by a newer pleach.
    #[error(
        "event `{kind}` has version {version}, this pleach reads up to {VERSION}; install a newer pleach to read this session"
    )]
    Newer {
        /// The event's type.
        kind: String,
        /// The version it was written with.
        version: u32,
    },
    /// The JSON does not have the shape of its type.
    #[error("event `{kind}` cannot be read")]
    Malformed {
        /// The event's type.
        kind: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A fact of a session.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $($(#[$doc])* $name($name),)+
            /// A type this pleach does not know; kept as it is, without effect on the state.
            Unknown {
                /// The type as written.
                kind: String,
                /// The data as written.
                data: Value,
            },
        }

        $(impl From<$name> for Event {
            fn from(data: $name) -> Self {
                Self::$name(data)
            }
        })+

        impl Event {
            /// The type as records name it: `dev.orchestra.AgentTurn`.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => concat!("dev.orchestra.", stringify!($name)),)+
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// The event's data as JSON.
            pub fn data(&self) -> Value {
                serde_json::to_value(self).expect("event data are structs with text keys, which always serialise")
            }

            /// Whether it only repeats earlier events: such an event holds nothing new that would have to be kept from
            /// the record, and grows with the run.
            pub fn is_derived(&self) -> bool {
                matches!(self, Self::Checkpoint(_))
            }

            fn from_data<'de, D>(kind: String, data: D) -> Result<Self, EventError>
            where
                D: Deserializer<'de, Error = serde_json::Error>,
            {
                let read = match kind.as_str() {
                    $(concat!("dev.orchestra.", stringify!($name)) => Deserialize::deserialize(data).map(Self::$name),)+
                    _ => Value::deserialize(data).map(|data| Self::Unknown { kind: kind.clone(), data }),
                };
                read.map_err(|source| EventError::Malformed { kind, source })
            }
        }

        /// As its data.
        impl Serialize for Event {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(data) => data.serialize(serializer),)+
                    Self::Unknown { data, .. } => data.serialize(serializer),
                }
            }
        }
    };
}

events! {
    /// The session started: everything needed to run it again.
    PipelineStarted,
    /// A later process took the session up again.
    Resumed,
    /// Another context of the session starts.
    ContextForked,
    /// A fan-out starts its branches.
    ParallelStarted,
    /// A branch begins to work.
    ParallelBranchStarted,
    /// A branch has ended, or was stopped.
    ParallelBranchCompleted,
    /// A fan-out is over.
    ParallelCompleted,
    /// Branches were brought together.
    ContextJoined,
    /// A branch's work was merged.
    WorktreeMerged,
    /// A branch's work conflicts with what was merged before it.
    WorktreeMergeConflict,
    /// A repository was cloned for the session.
    RepoCloned,
    /// A repository was fetched for the session.
    RepoFetched,
    /// The session's branch exists.
    SessionBranchCreated,
    /// The session's worktree exists.
    WorktreeCreated,
    /// A node's handler was started.
    NodeStarted,
    /// An agent finished one model call and the tools it asked for.
    AgentTurn,
    /// A limit of the budget was reached.
    BudgetExceeded,
    /// A model's tokens count, and their price is not known.
    PriceUnknown,
    /// A tool node's command ran.
    ToolExecution,
    /// The session branch carries a turn's commit.
    TurnCommitted,
    /// A person, or an automatic answer, answered a gate.
    HumanInteraction,
    /// A node finished an attempt: its outcome and where the run goes from there.
    NodeExecution,
    /// The next attempt of a node is due at a time.
    RetryAt,
    /// The run is between two nodes.
    Checkpoint,
    /// The commits the workspace was at, at a checkpoint that changed them.
    SnapshotRecorded,
    /// The next pass through a task's pipeline starts.
    AttemptStarted,
    /// A step of a task ended, and this is its commit.
    StepFinished,
    /// The target is about to move over a task's commits.
    Landing,
    /// The target has moved.
    Landed,
    /// The run stopped and can be resumed.
    PipelinePaused,
    /// The run reached its exit.
    PipelineCompleted,
    /// The run ended without reaching its goal.
    PipelineFailed,
    /// The run was cancelled.
    PipelineCancelled,
    /// A run over a tree was opened. Broadcast, not recorded, as are all below.
    RunStarted,
    /// A task, or the tests of a phase, are started or taken up again.
    TaskStarted,
    /// A branch has moved over what came of a task.
    TaskLanded,
    /// A phase was merged into the target.
    PhaseMerged,
    /// The merge queue has landed an entry.
    MergeComplete,
    /// An agent resolves the conflict of an entry of the merge queue, or has come to an end with it.
    MergeResolution,
    /// The merge queue needs a person for an entry.
    MergeEscalated,
    /// A remote has the newest branches and records of a session.
    BranchPushed,
    /// A push failed. The work goes on.
    PushFailed,
    /// A cleanup has removed what is old.
    CleanupCompleted,
    /// Something a person should know.
    Warning,
    /// An agent said something in an unfinished turn.
    AgentSpoke,
    /// An agent waits for something, or no longer does.
    AgentWaits,
}

impl Event {
    /// Whether it is recorded. Other events are only broadcast while they happen.
    pub fn is_recorded(&self) -> bool {
        !matches!(
            self,
            Self::RunStarted(_)
                | Self::TaskStarted(_)
                | Self::TaskLanded(_)
                | Self::PhaseMerged(_)
                | Self::MergeComplete(_)
                | Self::MergeResolution(_)
                | Self::MergeEscalated(_)
                | Self::CleanupCompleted(_)
                | Self::BranchPushed(_)
                | Self::PushFailed(_)
                | Self::Warning(_)
                | Self::AgentSpoke(_)
                | Self::AgentWaits(_)
        )
    }
}
