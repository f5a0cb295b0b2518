//! The only door to git, and what pleach keeps there: records of sessions, and worktrees.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

mod git;
pub mod record;
pub mod workspace;

pub use git::*;
