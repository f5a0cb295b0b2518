//! Reading what was recorded: `log`, `search`, and `export` as one file.

mod exporting;
mod logging;
mod notes;
mod page;
mod searching;
