//! What decides, on values alone: nothing here starts a program, opens a repository or waits.
//!
//! Only the crate `pleach` is an interface: what is public here is so for its siblings.

#![forbid(unsafe_code)]

pub mod budget;
pub mod clock;
pub mod config;
pub mod event;
pub mod ids;
pub mod merge;
pub mod plan;
pub mod progress;
pub mod queue;
pub mod redact;
pub mod route;
pub mod schedule;
pub mod state;
pub mod step;
pub mod text;
pub mod trailer;
