//! Programs and the sandbox, with real processes: one binary, a module per topic.

#![forbid(unsafe_code)]

mod process;
mod sandbox;
