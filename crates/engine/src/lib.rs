//! The engine: trust, the mirror, and nine rooms. Each may use those before it.
//!
//! - [`trust`]: what needs approval before a repository is worked with.
//! - [`mirror`]: copies records to a CXDB server.
//! - [`merging`]: how two sides of a merge become one.
//! - [`env`]: what runs share, and whom they may ask.
//! - [`push`]: pushes sessions to remotes.
//! - [`view`]: reads sessions.
//! - [`keep`]: worktrees that nobody needs any more.
//! - [`session`]: runs a pipeline on a branch.
//! - [`landing`]: the merge queue.
//! - [`tree`]: runs the tasks of a tree.
//! - [`retention`]: what may go, and its removal.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

pub mod env;
pub mod keep;
pub mod landing;
pub mod merging;
pub mod mirror;
pub mod push;
pub mod retention;
pub mod session;
pub mod tree;
pub mod trust;
pub mod view;
