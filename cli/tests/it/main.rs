//! Everything the program shows to the outside, tried on the built binary.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "what tests print is taken by the one who runs them")]

mod acp;
mod budgets;
mod checked_out;
mod checkout;
mod cleanup;
mod cli_agents;
mod compare;
mod config;
mod crash;
mod damaged;
mod escape;
mod excluded_files;
mod fake_agent;
mod first_use;
mod forged;
mod forged_checkouts;
mod gateway;
mod going_wrong;
mod graph;
mod history;
mod human;
mod inspect;
mod layout;
mod manual;
mod matrix;
mod merge_queue;
mod mirror;
mod named_agents;
mod orchestra;
mod parallel;
mod planted_files;
mod programs;
mod providers;
mod pull_requests;
mod real_agents;
mod remotes;
mod repaired_worktrees;
mod repositories;
mod rm;
mod run_output;
mod sessions;
mod setup;
mod shell;
#[allow(dead_code, reason = "a toolbox: not every tool is in use at every commit")]
mod support;
mod survey;
mod system_limits;
mod tasks;
mod terminal;
mod time_travel;
mod tools;
mod tree_commands;
mod tree_crash;
mod trees;
mod trust;
mod validate;
mod why;
mod workspace;
mod workspaces;
mod worktree_commands;

#[path = "../../../crates/testing/cxdb_server.rs"]
mod cxdb_server;

#[allow(dead_code, reason = "the library's tests play more parts with it")]
#[path = "../../../crates/testing/server.rs"]
mod server;
