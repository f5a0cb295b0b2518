//! What happened when, over all runs, and what was said in them. Both are read from the records, newest first and only as far
//! as somebody asks; there is no index that could be out of date.
//!
//! - [`Log`] merges the chains of records, the steps of the checked-out branch and the merge queue by time (`log`). `sources`
//!   is where they come from, `told` and `steps` what they tell, `entry` a line of it, `filter` which lines are wanted.
//! - [`search()`] looks into the messages: `search`.
//! - `runs` tells to which run of a session a context belongs.

mod entry;
mod error;
mod filter;
mod log;
pub(crate) mod runs;
mod search;
mod sources;
mod steps;
pub(crate) mod told;

pub use entry::{LogEntry, LogKind};
pub use error::LogError;
pub use filter::LogFilter;
pub use log::Log;
pub use runs::RunScope;
pub use search::{BadSearch, SearchError, SearchFilter, SearchHit, SearchPart, SearchPattern, search};
