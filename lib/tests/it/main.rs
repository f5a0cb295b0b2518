//! The library as a user of it sees it, and the shape of this repository: one binary, a module per topic.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "what tests print is taken by the one who runs them")]

mod agent;
mod circles;
mod contexts;
mod corpus;
mod coverage;
mod deciding;
mod engine;
mod events;
mod examples;
mod executor;
mod gateway;
mod git;
mod process;
mod providers;
mod real_git;
mod records_page;
mod repository;
mod sandbox;
mod steps;
mod stopping;
mod structure;
mod trailer;
mod trust;

#[path = "../../testing/server.rs"]
mod server;
