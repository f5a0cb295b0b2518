//! The pleach command line: it parses, calls the library and renders. Nothing is decided here.

#![forbid(unsafe_code)]

mod commands;
mod exit;
#[allow(dead_code, reason = "the commands that work on sessions come next")]
mod failure;
#[allow(dead_code, unused_imports, reason = "the commands that list sessions and turns come next")]
mod render;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main(std::env::args_os().collect())
}
