//! Commands of the configuration that agents use as tools: the built-in agent as tools of its own, programs as commands
//! on their PATH ([`launchers`]) and from a server of the Model Context Protocol ([`server`], which speaks [`mcp`]).

mod launchers;
mod mcp;
mod server;
mod tool_command;

pub(super) use launchers::{Launchers, ToolServer};
pub use server::tools_main;
pub use tool_command::ConfiguredTools;
pub(super) use tool_command::{ToolCommand, describe_output};
