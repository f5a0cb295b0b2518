//! The door to git, with real repositories: one binary, a module per topic.

#![forbid(unsafe_code)]

mod git;

#[path = "../../../testing/real_git.rs"]
mod real_git;

#[path = "../../../testing/git_sandbox.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod git_sandbox;

#[path = "../../../testing/made_merges.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod made_merges;
