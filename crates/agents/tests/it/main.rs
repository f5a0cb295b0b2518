//! Agents, providers and the gateway, with real processes and servers: one binary, a module per topic.

#![forbid(unsafe_code)]

mod agent;
mod gateway;
mod providers;
mod spawner;

#[path = "../../../testing/server.rs"]
mod server;
