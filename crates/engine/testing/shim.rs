//! The supervisor as a program of its own: what `pleach __exec` is.

use std::process::ExitCode;

fn main() -> ExitCode {
    os::process::exec_main(std::env::args_os().skip(2))
}
