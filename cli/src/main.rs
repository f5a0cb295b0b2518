//! The pleach command line: it parses, calls the library and renders. Nothing is decided here.

#![forbid(unsafe_code)]

mod answers;
mod commands;
mod exit;
mod failure;
mod pipeline_file;
mod render;
mod session;
mod sessions;
mod settings;
mod survey;
mod tree;
mod trust;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The supervisor of every spawned program is pleach itself, before anything else of it is set up.
    if args.next().is_some_and(|first| first == "__exec") {
        return pleach::process::exec_main(args);
    }
    commands::main(std::env::args_os().collect())
}
