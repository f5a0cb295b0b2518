//! Everything about the library that needs real files, git or processes: one binary, a module per topic.

mod coverage;
mod engine;
mod examples;
mod git;
mod process;
mod records_page;
mod repository;
mod structure;
