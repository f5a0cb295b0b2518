//! What a run could use on this machine and in this repository. Nothing secret is read: of keys and logins only whether
//! they are there.

pub mod health;
pub mod known_agents;
pub mod orphans;
pub mod project;
pub mod tools;

use agents::llm::key_variables;
use pleach_core::config::{Environment, ProviderName};

/// The keys that are there: whose, and the variable each is in.
pub fn keys(environment: &Environment) -> Vec<(ProviderName, &'static str)> {
    let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.trim().is_empty());
    let found = |provider: ProviderName| {
        let variable = *key_variables(&provider).iter().find(|name| is_set(name))?;
        Some((provider, variable))
    };
    ProviderName::REMOTE.into_iter().filter_map(found).collect()
}
