//! The commands: one file each, holding the help as doc comments, the arguments and one `run` function.

mod build;
mod cancel;
mod cleanup;
pub(super) mod compare;
mod complete;
mod completions;
mod config;
mod cost;
mod demo;
mod diff;
mod doctor;
mod export;
mod forecast;
mod garden;
mod gardener;
mod graph;
mod help;
mod help_groups;
mod help_markdown;
mod init;
mod inspect;
mod land;
mod log;
mod logs;
pub(super) mod merge;
mod pause;
mod pr;
mod push;
mod record;
pub(super) mod replay;
mod reports;
mod reset;
mod resume;
mod rm;
mod run;
mod search;
mod show;
mod skip;
mod status;
mod task;
mod trust;
mod turns;
mod undo;
mod validate;
mod why;
mod worktree;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use pleach_core::config::Environment;

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::{GlobalArgs, Globals};
use crate::lib_errors::of_shortage;
use crate::next_commands::located;
use crate::say;

/// Runs AI coding agents on git repositories and weaves what they grow into one tree.
#[derive(Debug, Parser)]
#[command(
    name = "pleach",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(flatten)]
    globals: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Doctor(doctor::DoctorArgs),
    Run(run::RunArgs),
    Build(build::BuildArgs),
    Garden(garden::GardenArgs),
    Gardener(gardener::GardenerArgs),
    Task(task::TaskArgs),
    Resume(resume::ResumeArgs),
    Replay(replay::ReplayArgs),
    Pause(pause::PauseArgs),
    Status(status::StatusArgs),
    Inspect(inspect::InspectArgs),
    Log(log::LogArgs),
    Search(search::SearchArgs),
    Logs(logs::LogsArgs),
    Reports(reports::ReportsArgs),
    Skip(skip::SkipArgs),
    Reset(reset::ResetArgs),
    Turns(turns::TurnsArgs),
    Show(show::ShowArgs),
    Why(why::WhyLineArgs),
    Cost(cost::CostArgs),
    Diff(diff::DiffArgs),
    Compare(compare::CompareArgs),
    Export(export::ExportArgs),
    Cancel(cancel::CancelArgs),
    Rm(rm::RmArgs),
    Cleanup(cleanup::CleanupArgs),
    Worktree(worktree::WorktreeArgs),
    Merge(merge::MergeArgs),
    Forecast(forecast::ForecastArgs),
    Land(land::LandArgs),
    Undo(undo::UndoNewestArgs),
    Push(push::PushArgs),
    Record(record::RecordArgs),
    Pr(pr::PrArgs),
    Graph(graph::GraphArgs),
    Config(config::ConfigArgs),
    Trust(trust::TrustArgs),
    Validate(validate::ValidateArgs),
    Completions(completions::CompletionsArgs),
    Help(help::HelpArgs),
    #[command(name = "__complete", hide = true)]
    Complete(complete::CompleteArgs),
    #[command(name = "__help-markdown", hide = true)]
    HelpMarkdown(help_markdown::HelpMarkdownArgs),
}

fn dispatch(globals: &Globals, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(globals, args),
        Command::Init(args) => init::run(globals, args),
        Command::Doctor(args) => doctor::run(globals, args),
        Command::Run(args) => run::run(globals, args),
        Command::Build(args) => build::run(globals, args),
        Command::Garden(args) => garden::run(globals, args),
        Command::Gardener(args) => gardener::run(globals, args),
        Command::Task(args) => task::run(globals, args),
        Command::Resume(args) => resume::run(globals, args),
        Command::Replay(args) => replay::run(globals, args),
        Command::Pause(args) => pause::run(globals, args),
        Command::Status(args) => status::run(globals, args),
        Command::Inspect(args) => inspect::run(globals, args),
        Command::Log(args) => log::run(globals, args),
        Command::Search(args) => search::run(globals, args),
        Command::Logs(args) => logs::run(globals, args),
        Command::Reports(args) => reports::run(globals, args),
        Command::Skip(args) => skip::run(globals, args),
        Command::Reset(args) => reset::run(globals, args),
        Command::Turns(args) => turns::run(globals, args),
        Command::Show(args) => show::run(globals, args),
        Command::Why(args) => why::run(globals, args),
        Command::Cost(args) => cost::run(globals, args),
        Command::Diff(args) => diff::run(globals, args),
        Command::Compare(args) => compare::run(globals, args),
        Command::Export(args) => export::run(globals, args),
        Command::Cancel(args) => cancel::run(globals, args),
        Command::Rm(args) => rm::run(globals, args),
        Command::Cleanup(args) => cleanup::run(globals, args),
        Command::Worktree(args) => worktree::run(globals, args),
        Command::Merge(args) => merge::run(globals, args),
        Command::Forecast(args) => forecast::run(globals, args),
        Command::Land(args) => land::run(globals, args),
        Command::Undo(args) => undo::run(globals, &args),
        Command::Push(args) => push::run(globals, args),
        Command::Record(args) => record::run(globals, args),
        Command::Pr(args) => pr::run(globals, args),
        Command::Graph(args) => graph::run(globals, args),
        Command::Config(args) => config::run(globals, args),
        Command::Trust(args) => trust::run(globals, args),
        Command::Validate(args) => validate::run(globals, args),
        Command::Completions(args) => completions::run(globals, args, Cli::command()),
        Command::Help(args) => help::run(globals, &args, Cli::command()),
        Command::Complete(args) => complete::run(globals, args, &Cli::command()),
        Command::HelpMarkdown(args) => help_markdown::run(globals, args, Cli::command()),
    }
}

/// Parses the command line, runs the command and reports its exit.
pub fn main(args: Vec<OsString>) -> ExitCode {
    // Known before parsing, because a usage error must be reported as JSON too.
    let json = args.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let line = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let environment = Environment::capture();
    say::set_up_codes(&environment);
    let cli = match help_groups::arranged(Cli::command())
        .try_get_matches_from(args)
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => return usage(&error, json),
    };
    let heeded = os::process::wait_for_children();
    let heeded = heeded.map_err(|error| {
        Failure::new(Code::RuntimeUnavailable, "cannot listen for the end of programs").because(&error)
    });
    let ready = heeded.and_then(|()| {
        os::process::raise_open_files();
        os::process::check_threads().map_err(|error| {
            Failure::new(Code::RuntimeUnavailable, "the system gives pleach no threads").because(&error)
        })
    });
    let globals = ready.and_then(|()| Globals::new(cli.globals, line, environment));
    let ran = globals.and_then(|globals| {
        let ran = dispatch(&globals, cli.command);
        ran.map_err(|failure| failure.reworded(|text| located(&globals, text)))
    });
    match ran {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let failure = of_shortage(failure);
            failure.report(json);
            failure.exit().into()
        }
    }
}

/// clap's own answers: help and version on stdout with exit 0, everything else is the user's error.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done.into();
    }
    let failure = misuse(error);
    // clap says more than we do: which options there are, and how the command is written.
    let text = error.render().ansi().to_string();
    let named = format!("error{}:", say::code(failure.code.as_str()));
    say!("{}", text.trim_end().replacen("error:", &named, 1));
    if json {
        failure.report_json();
    }
    failure.exit().into()
}

/// clap's error for `--json`: one line, and the suggestion.
fn misuse(error: &clap::Error) -> Failure {
    let without_command = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingSubcommand];
    if without_command.contains(&error.kind()) {
        return Failure::new(Code::CommandLine, "no command is given").hint("see `pleach --help`");
    }
    let text = error.to_string();
    let words: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let message = words.join(" ");
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    Failure::new(Code::CommandLine, message).hint(tip.unwrap_or("see `pleach --help`"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        help_groups::arranged(Cli::command()).debug_assert();
    }

    #[test]
    fn paths_are_seen_from_the_chosen_directory() {
        let dir = std::env::temp_dir();
        let args =
            Cli::parse_from(["pleach", "-C", dir.to_str().unwrap(), "--config", "x.yaml", "completions", "bash"]);
        let globals = Globals::new(args.globals, Vec::new(), Environment::capture()).unwrap();
        assert_eq!(globals.path(Path::new("a.dot")), dir.canonicalize().unwrap().join("a.dot"));
        assert_eq!(globals.config, Some(globals.path(Path::new("x.yaml"))));
        assert!(!globals.json && !globals.yes && globals.verbosity == 0);
    }
}
