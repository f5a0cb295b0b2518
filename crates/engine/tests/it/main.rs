//! The engine as a program that embeds it sees it: one binary, a module per topic.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "what tests print is taken by the one who runs them")]

mod contexts;
mod engine;
mod executor;
mod merging;
mod mirror;
mod steps;
mod stopping;
mod trust;

#[path = "../../../testing/cxdb_server.rs"]
mod cxdb_server;

#[path = "../../../testing/real_git.rs"]
mod real_git;

#[path = "../../../testing/git_sandbox.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod git_sandbox;

#[path = "../../../testing/made_merges.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod made_merges;

#[path = "../../../testing/repository.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod repository;
