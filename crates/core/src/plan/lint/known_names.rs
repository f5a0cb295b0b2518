//! The names the program that embeds the linter knows.

use std::collections::BTreeSet;

/// What the embedding program has to offer. `None` means it does not know, and nothing is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownNames {
    /// Agents that are configured or built in, by name.
    pub agents: Option<BTreeSet<String>>,
    /// Models that are configured, by name or role.
    pub models: Option<BTreeSet<String>>,
    /// Providers of models, by name.
    pub providers: Option<BTreeSet<String>>,
    /// Handlers registered for `type` attributes of one's own.
    pub handlers: BTreeSet<String>,
}
