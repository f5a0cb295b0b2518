//! What pleach decides: one binary, a module per topic.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "what tests print is taken by the one who runs them")]

mod corpus;
mod deciding;
mod events;
mod examples;
mod trailer;

#[path = "../../../testing/real_git.rs"]
mod real_git;

#[path = "../../../testing/repository.rs"]
#[allow(dead_code, reason = "the tests of each crate need some of it")]
mod repository;
