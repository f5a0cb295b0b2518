//! Runs task trees.

pub mod progress;
mod step_cache;
mod step_scan;
