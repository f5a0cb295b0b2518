//! Configuration: text in, typed settings out. Nothing here reads a file.
//!
//! Every source becomes a tree of values that know their place; trees are merged from the weakest layer to the
//! strongest; the result is read into [`Config`]. Each layer is also checked by itself, so that an error is reported
//! even where a stronger layer covers it.

mod agent;
mod agent_lookup;
mod arborist;
mod check;
mod define;
mod derived;
mod dotenv;
mod environment;
mod error;
mod home_path;
mod layer;
mod mirror_address;
mod model;
mod node;
mod provider;
mod read;
mod record;
mod secret_name;
mod supplied;
mod test_command;
#[cfg(test)]
mod tests;

pub use agent::{AgentChoice, AgentRef, InvalidAgent};
pub use derived::{BadPattern, DerivedRules};
pub use dotenv::{DotEnvEntry, parse_dotenv};
pub use environment::Environment;
pub use error::{ConfigError, Precedence, Source};
pub use home_path::HomePath;
pub use home_path::{at_home, moved};
pub use layer::{FileSettings, Layer, Resolved, Users, parse_project, resolve};
pub use mirror_address::{InvalidMirrorAddress, MirrorAddress};
pub use model::EXCLUDED_BY_DEFAULT;
pub use model::{
    AgentSettings, AgentStdin, Attribution, AttributionNotes, BudgetSettings, CommitGranularity, CommitLogs, Config,
    ContextSettings, DEFAULT_BRANCH_PREFIX, DerivedFiles, EnvSettings, HideFrom, HistoryShape, Isolation,
    MergeSettings, Network, OnExceeded, ParserName, PushPolicy, RecordPush, RecordSettings, RepoSettings, RepoTool,
    SandboxMode, SandboxSettings, StepSettings, Structural, ToolSettings, TreeSettings, TurnMode, UntestedFiles,
    WorkspaceSettings, Worktrees, keys,
};
pub use provider::{
    InvalidProviderName, Price, ProviderKind, ProviderName, ProviderSettings, ProvidersSettings, ScriptProvider,
    ServerSettings, Variable,
};
pub use read::SettingKey;
pub use read::normal_path;
pub use record::RecordedConfigError;
pub use supplied::{Supplied, SuppliedKind, supplied, supplied_inputs};
