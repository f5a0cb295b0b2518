//! pleach runs AI coding agents on git repositories and weaves their work into one tree.
//!
//! What stands here is for programs that embed it; `examples/embed.rs` is one. Everything else is in the crates behind it,
//! which promise nothing; `ARCHITECTURE.md` at the root of the repository shows how they hang together.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

// What is written down: names, settings, plans, and everything that can happen.
pub use pleach_core::config::{
    AgentChoice, Attribution, Config, ConfigError, Environment, HistoryShape, Isolation, Layer, MirrorAddress,
    Resolved, UntestedFiles, resolve,
};
pub use pleach_core::event::{Event, Notification, Outcome, Recorded, Warning};
pub use pleach_core::ids::{
    BranchName, CommitId, ContextId, EntryId, InvalidId, NodeId, RepoName, RepoPath, SessionId, TaskId, TurnId,
};
pub use pleach_core::plan::diagnostic::{Diagnostic, Severity};
pub use pleach_core::plan::pipeline::{Node, Pipeline};
pub use pleach_core::plan::tree::{TaskTree, TestCommand};
pub use pleach_core::plan::{Inputs, load, validate};
pub use pleach_core::queue::{EntryTest, MergeTests};
pub use pleach_core::redact::Redactor;
pub use pleach_core::schedule::ScheduleOptions;
pub use pleach_core::state::State;
pub use pleach_core::step::TreeName;
pub use pleach_core::{event, ids};

// The doors to the machine and to git.
pub use git::{Repo, discover};
pub use os::process::{Cancel, Canceller, Spawner, exec_main};

// Who does the work.
pub use agents::agent::{Agent, BoxFuture, Roster};
pub use agents::llm::{Provider, Providers, Script};

// Sessions, task trees and the merge queue.
pub use engine::env::{
    AgreesToAll, AutoApprove, Broadcast, Budget, Engine, Error, GateAnswer, GateReply, GivenAnswers, Handler,
    HandlerContext, Interviewer, Nobody, PreparedAnswers, PushSettings, Question, RepoPush, SessionRepos, SpawnedRun,
    Subscription, Supervisor, Truster,
};
pub use engine::landing::{
    MergeQueue, QueueError, QueueOutcome, QueueRun, QueueSettings, ResolverSettings, Submission, enqueue,
};
pub use engine::merging::TierOptions;
pub use engine::session::{
    Pause, Session, SessionEnded, SessionRepo, StartRequest, cancel_session, pause_session, resume_session,
    run_session, spawn_session, start_session,
};
pub use engine::tree::{
    QueueLanding, Stamp, TaskPipeline, TreeEnded, TreeOutcome, TreePlan, TreeRepo, TreeRepos, TreeRun, open, run_tree,
};
pub use engine::trust::{TrustItem, TrustScope};
pub use engine::view::{RepoWork, SessionStatus, Summary, TurnView, View, resolve_session};
