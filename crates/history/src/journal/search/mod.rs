//! What was said: a search through the messages of all runs, without an index.
//!
//! `pattern` is what is looked for, `filter` where, `scan` looks into one record, `hit` is what it finds, `threads` has all cores look at once.

mod filter;
mod hit;
mod pattern;
mod scan;
mod threads;

pub use filter::SearchFilter;
pub use hit::{SearchHit, SearchPart};
pub use pattern::{BadSearch, SearchPattern};
pub use threads::{SearchError, search};
