//! How an agent comes to its model through the gateway.

use std::collections::BTreeMap;
use std::path::Path;

use crate::agent::cli::Preset;
use crate::gateway::Upstream;
use pleach_core::config::Environment;

/// How an agent comes to its model.
#[derive(Debug, Clone)]
pub(super) struct AcpRoute {
    /// How its program is configured for the gateway.
    pub preset: Preset,
    /// Who answers.
    pub upstream: Upstream,
    /// Where the user's own things are.
    pub environment: Environment,
    /// The models behind short names.
    pub models: BTreeMap<String, String>,
}

impl AcpRoute {
    /// Whether what the agent has kept of its sessions is still there.
    pub fn has_sessions(&self, home: &Path) -> bool {
        let kept = &self.preset.keeps;
        home.exists() && (kept.is_empty() || kept.iter().any(|kept| home.join(kept).exists()))
    }

    /// A model by the name its provider has for it.
    pub fn named(&self, model: &str) -> String {
        self.models.get(model).cloned().unwrap_or_else(|| model.to_owned())
    }

    /// The model in an agent's settings, if that is how it is configured.
    pub fn configured_model(&self, asked: Option<&str>) -> Option<String> {
        self.preset.gateway.model.as_ref().map(|_| self.named(asked.unwrap_or("worker")))
    }
}
