//! Agents, providers and the gateway, with real processes and servers: one binary, a module per topic.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "what tests print is taken by the one who runs them")]

mod agent;
mod gateway;
mod providers;
mod spawner;

#[path = "../../../testing/server.rs"]
mod server;
