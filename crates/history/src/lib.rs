//! What was recorded, read. Nothing here runs a session, and all of it may be asked while one runs.
//!
//! - [`compare`]: runs side by side.
//! - [`why`]: the turn behind a line.
//! - [`journal`]: what happened when, and what was said.
//! - [`export`]: a run as one file.
//! - [`notes`]: lines of agents, told to other tools.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

pub mod compare;
pub mod export;
pub mod journal;
pub mod notes;
pub mod why;
