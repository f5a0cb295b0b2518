//! pleach runs AI coding agents on git repositories and weaves their work into one tree.
//!
//! `ARCHITECTURE.md` at the root of the repository shows how the modules hang together.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod budget;
pub mod clock;
pub mod config;
pub mod env;
pub mod event;
pub mod gateway;
pub mod git;
pub mod ids;
pub mod keep;
pub mod landing;
pub mod llm;
pub mod merge;
pub mod merging;
pub mod plain_file;
pub mod plan;
pub mod process;
pub mod progress;
pub mod push;
pub mod queue;
pub mod record;
pub mod redact;
pub mod retention;
pub mod route;
pub mod schedule;
pub mod session;
pub mod state;
pub mod step;
pub mod text;
pub mod trailer;
pub mod tree;
pub mod trust;
pub mod view;
pub mod workspace;

mod confined_fs;
mod deadline;
