//! What reads, on histories that programs have written: one binary, a module per topic.

#![forbid(unsafe_code)]

mod why;

#[path = "../../../testing/authored_history.rs"]
mod authored_history;

#[path = "../../../testing/real_git.rs"]
mod real_git;
