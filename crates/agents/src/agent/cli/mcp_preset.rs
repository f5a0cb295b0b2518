//! How a program is given the server of its tools, without a change to its user's settings.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Deserialize;

use super::template::Values;
use crate::agent::tool_commands::ToolServer;
use pleach_core::config::Environment;

/// How a program is given a server of the Model Context Protocol.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpPreset {
    /// The server in its settings: JSON, with `{mcp_command}`, `{mcp_args}` and `{mcp_argv}`. What stands for
    /// `{mcp_servers}` is an object with that, or an empty one.
    pub server: String,
    /// Arguments, where there is a server.
    pub args: Vec<String>,
    /// Variables outside the gateway, where there is a server and the user has not set them.
    pub env: BTreeMap<String, String>,
}

impl McpPreset {
    /// Sets what the placeholders of a server stand for.
    pub(super) fn set_values(&self, values: &mut Values, server: Option<&ToolServer>) {
        values.set("mcp_command", server.map(ToolServer::command));
        values.set("mcp_args", server.map(ToolServer::args));
        values.set("mcp_argv", server.map(ToolServer::argv));
        let entry = server.and_then(|server| Some(format!("{{\"{}\":{}}}", server.name, values.fill(&self.server)?)));
        values.set("mcp_servers", Some(entry.unwrap_or_else(|| "{}".to_owned())));
    }

    /// The variables by which it finds the server outside the gateway.
    pub(super) fn variables(
        &self,
        server: Option<&ToolServer>,
        environment: &Environment,
    ) -> Vec<(OsString, Option<OsString>)> {
        let mut values = Values::default();
        self.set_values(&mut values, server);
        let unset = self.env.iter().filter(|(name, _)| server.is_some() && environment.get_os(name).is_none());
        unset.filter_map(|(name, value)| Some((name.into(), Some(values.fill(value)?.into())))).collect()
    }
}
