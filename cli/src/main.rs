//! The pleach command line: it parses, calls the library and renders. Nothing is decided here.

#![forbid(unsafe_code)]

#[macro_use]
mod say;

mod answers;
mod arrival;
mod attribution_notes;
mod code;
mod commands;
mod exit;
mod failure;
mod forecast_marks;
mod forge;
mod globals;
mod guides;
mod joint_landing;
mod lib_errors;
mod mirror;
mod next_commands;
mod pipeline_file;
mod place;
mod preflight;
mod prompt;
mod queue_settings;
mod recorded_run;
mod remotes;
mod render;
mod runtime;
mod session;
mod sessions;
mod settings;
mod several_runs;
mod stdin_lines;
mod survey;
mod task_submission;
mod tree;
mod trust;
mod workspace_repos;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The supervisor of every spawned program is pleach itself, before anything else of it is set up.
    match args.next() {
        Some(first) if first == "__exec" => return os::process::exec_main(args),
        // So is the hook of an agent, which asks the pleach that runs it.
        Some(first) if first == "__hook" => return agents::agent::hook_main(args),
        // And the server of an agent's tools, which runs them below such a supervisor.
        Some(first) if first == "__tools" => {
            return match session::shim_program() {
                Ok(shim) => agents::agent::tools_main(args, shim),
                Err(_) => ExitCode::FAILURE,
            };
        }
        _ => {}
    }
    commands::main(std::env::args_os().collect())
}
