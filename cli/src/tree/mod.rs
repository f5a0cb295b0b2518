//! Task trees on disk and on the command line: finding the file, what the settings make of it, the run over it,
//! how that is shown and what is said at its end, and what commands see that only look.

mod ad_hoc;
mod commands;
pub mod find;
pub mod outcome;
pub mod overview;
pub mod plan;
pub mod progress;
pub mod repos;
pub mod run;
mod several;
pub mod watch;

pub use ad_hoc::{StartOptions, start_tasks};
pub use plan::{Tasks, TreeArgs};
pub use run::{work, work_trusted};
