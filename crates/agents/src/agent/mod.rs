//! Agents do the work of nodes. All of them take a [`Job`] and report their turns; what they changed is found and
//! recorded elsewhere.

mod acp;
mod bounds;
pub mod builtin;
pub mod cli;
mod command;
mod commit_message;
mod gateway_run;
mod imperative;
mod intent;
mod job;
mod liveness;
mod message_writer;
mod no_agent;
mod profile;
mod reply;
mod repo_context;
mod roster;
mod rpc;
mod simulated;
mod tool_commands;
mod turn;

use std::path::Path;
use std::pin::Pin;

use serde_json::Value;

use crate::llm::{Pricing, Unusable};
use os::process::Cancel;

pub(crate) use acp::AcpAgent;
pub use builtin::Builtin;
pub use cli::{CliAgent, Introduction, Preset, Versions, find_program, hook_main};
pub use command::CommandAgent;
pub use commit_message::commit_message;
pub use commit_message::{command_message, resolution_message};
pub use gateway_run::{GatewayRun, RunOutcome, StateRef, TASK_WAS_INTERRUPTED};
pub use intent::is_in_words;
pub use job::{Job, JobPast, Steering};
pub use message_writer::{MessageInput, MessageWriter, WrittenMessage};
pub use no_agent::NoAgent;
pub use profile::{LayerError, Profile};
pub use reply::{AgentError, AgentReply, End};
pub use repo_context::RepoContext;
pub use repo_context::repos_variable;
pub use roster::Roster;
pub use simulated::Simulated;
pub use tool_commands::{ConfiguredTools, tools_main};
pub use turn::{Turn, TurnVerdict, Turns, WaitListener};

/// A future behind a pointer, so that [`Agent`] can be one.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who does the work of a node.
pub trait Agent: Send + Sync {
    /// The kind of agent, as records have it: `builtin`, `command`, …
    fn kind(&self) -> &'static str;

    /// Whether an interrupted job resumes after its last recorded turn. Others restart.
    fn can_continue(&self) -> bool;

    /// Whether a conversation can be resumed from what one of its turns left as [`Turn::state_ref`], although its
    /// messages are not enough. Without a state the question is whether it ever can.
    fn can_resume(&self, state: Option<&Value>, home: &Path) -> bool {
        let _ = (state, home);
        false
    }

    /// Whether it knows which model it is to ask when a node names this one.
    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        let _ = asked;
        Ok(())
    }

    /// The model it would ask when a node names this one, with how well its price is known; none where that shows only
    /// when it asks, and where nothing is billed.
    fn pricing(&self, asked: Option<&str>) -> Option<(String, Pricing)> {
        let _ = asked;
        None
    }

    /// Whether it reaches its model by itself: then the network is open to it, also where it is closed to others.
    fn needs_network(&self) -> bool {
        false
    }

    /// Whether its turns say what they cost in tokens, as far as that can be known before. A budget holds only what is
    /// told.
    fn tells_spending(&self) -> bool {
        true
    }

    /// Whether a job that starts over is answered from its record again ([`Job::recorded`]) as far as that goes.
    fn repeats_calls(&self) -> bool {
        false
    }

    /// The agent as a program that can be introduced before it works.
    fn as_program(&self) -> Option<&CliAgent> {
        None
    }

    /// How an agent is introduced that need not be asked for its version: by who is billed, where that is known.
    fn introduction(&self) -> Option<Introduction> {
        None
    }

    /// Does the job, reporting each turn as soon as it is over. A stop lets the turn in flight finish; a kill ends it
    /// at once. The turn of an agent that pleach drives itself is then not reported; what a program has left is.
    fn run<'a>(
        &'a self,
        job: Job,
        turns: &'a Turns,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<AgentReply, AgentError>>;
}
