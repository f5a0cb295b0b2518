//! Configuration: text in, typed settings out. Nothing here reads a file.
//!
//! Every source becomes a tree of values that know their place; trees are merged from the weakest layer to the
//! strongest; the result is read into [`Config`]. Each layer is also checked by itself, so that a mistake is reported
//! even where a stronger layer covers it.

mod agent;
mod arborist;
mod check;
mod define;
mod dotenv;
mod environment;
mod error;
mod home_path;
mod layer;
mod model;
mod node;
mod provider;
mod read;
mod record;
mod supplied;
#[cfg(test)]
mod tests;

pub use agent::{AgentChoice, AgentRef, InvalidAgent};
pub use dotenv::{DotEnvEntry, parse_dotenv};
pub use environment::Environment;
pub use error::{ConfigError, Level, Source};
pub use home_path::HomePath;
pub use layer::{Layer, Partial, Resolved, Users, parse_project, resolve};
pub use model::{
    AgentSettings, AgentStdin, Attribution, Budget, Commits, Config, Context, DEFAULT_BRANCH_PREFIX, Env, HideFrom,
    History, Isolation, Merge, Network, OnExceeded, ParserName, Price, ProviderSettings, Push, Record, RecordPush,
    Repo, RepoTool, Sandbox, SandboxMode, ScriptProvider, Step, Structural, Tool, Tree, TurnMode, Workspace, Worktrees,
    keys,
};
pub use provider::{InvalidProviderName, Provider, ProviderKind, ProviderName, Providers, Variable};
pub use read::Key;
pub use record::RecordedConfigError;
pub use supplied::{Supplied, SuppliedKind, supplied, supplied_inputs};
