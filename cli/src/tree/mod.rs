//! Task trees on disk and on the command line: finding the file, what the settings make of it, the run over it,
//! how that is shown and what is said at its end, and what commands see that only look.

pub mod ended;
pub mod find;
pub mod look;
pub mod plan;
pub mod run;
pub mod show;
pub mod watch;

pub use plan::{Tasks, TreeArgs};
pub use run::{work, work_trusted};
