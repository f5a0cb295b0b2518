//! What was said: a search through the messages of all runs, without an index.
//!
//! `pattern` is what is looked for, `scan` looks into one record, `hit` is what it finds, `threads` has all cores look at once.

mod hit;
mod pattern;
mod scan;
mod threads;

pub use hit::{SearchHit, SearchPart};
pub use pattern::{BadPattern, SearchPattern};
pub use threads::{SearchError, SearchFilter, search};
