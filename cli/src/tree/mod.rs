//! Task trees on disk and on the command line: finding the file, what the settings make of it, and how a run over it
//! is shown.

pub mod find;
pub mod plan;
pub mod show;

pub use plan::{TreeArgs, Worked, work};
