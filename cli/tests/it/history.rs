//! Reading what was recorded: `log`, `search`, and `export` as one file.

mod exporting;
mod logging;
mod page;
mod searching;
