//! The commands: one file each, holding the help as doc comments, the arguments and one `run` function.

mod build;
mod cancel;
mod completions;
mod config;
mod cost;
mod demo;
mod diff;
mod doctor;
mod export;
mod garden;
mod gardener;
mod graph;
mod help_markdown;
mod init;
mod inspect;
mod logs;
mod reports;
mod reset;
mod resume;
mod rm;
pub mod run;
mod show;
mod skip;
mod status;
mod trust;
mod turns;
mod validate;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use pleach::config::Environment;

use crate::exit::{Exit, Failure};

/// Runs AI coding agents on git repositories and weaves what they grow into one tree.
#[derive(Debug, Parser)]
#[command(name = "pleach", version, arg_required_else_help = true, max_term_width = 100, after_help = Exit::help_table())]
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
    Resume(resume::ResumeArgs),
    Status(status::StatusArgs),
    Inspect(inspect::InspectArgs),
    Logs(logs::LogsArgs),
    Reports(reports::ReportsArgs),
    Skip(skip::SkipArgs),
    Reset(reset::ResetArgs),
    Turns(turns::TurnsArgs),
    Show(show::ShowArgs),
    Cost(cost::CostArgs),
    Diff(diff::DiffArgs),
    Export(export::ExportArgs),
    Cancel(cancel::CancelArgs),
    Rm(rm::RmArgs),
    Graph(graph::GraphArgs),
    Config(config::ConfigArgs),
    Trust(trust::TrustArgs),
    Validate(validate::ValidateArgs),
    Completions(completions::CompletionsArgs),
    #[command(name = "__help-markdown", hide = true)]
    HelpMarkdown(help_markdown::HelpMarkdownArgs),
}

/// Options every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Work as if pleach had been started in this directory.
    #[arg(short = 'C', value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
    /// Print results as JSON: one document, or one event per line while a run goes on.
    #[arg(long, global = true)]
    json: bool,
    /// Agree to everything that would be asked, trust in the repository's commands included.
    #[arg(short, long, global = true)]
    yes: bool,
    /// Say more; twice for everything.
    #[arg(short, long, action = ArgAction::Count, global = true, conflicts_with = "quiet")]
    verbose: u8,
    /// Say nothing but results and errors.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Read this file instead of searching for pleach.yaml.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

/// The global options, checked.
#[derive(Debug, Clone)]
pub struct Globals {
    /// The directory to work in, absolute: `-C`, or where pleach was started.
    pub dir: PathBuf,
    /// The directory pleach was started in: where the commands it prints are typed.
    pub here: PathBuf,
    /// Results as JSON.
    pub json: bool,
    /// Every question is answered with yes.
    pub yes: bool,
    /// `-1` for `-q`, 0, then one more for every `-v`.
    pub verbosity: i8,
    /// The config file to read instead of the one that would be found.
    pub config: Option<PathBuf>,
    /// The environment, read once.
    pub environment: Environment,
    /// The command line as it was given, without the program.
    pub line: Vec<String>,
}

impl Globals {
    fn new(args: GlobalArgs, line: Vec<String>) -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::new(Exit::Environment, "the current directory cannot be used")
                .because(&error)
                .hint("change to a directory that exists, or give one with -C")
        })?;
        let dir = match args.dir {
            None => here.clone(),
            Some(dir) => here.join(&dir).canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
                Failure::new(Exit::Usage, format!("`{}` is not a directory", dir.display()))
                    .hint("-C takes a directory that exists")
            })?,
        };
        let environment = Environment::capture();
        pleach::git::crash::install(&environment).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        let verbosity = if args.quiet { -1 } else { i8::try_from(args.verbose).unwrap_or(i8::MAX) };
        let config = args.config.map(|file| dir.join(file));
        Ok(Self { dir, here, json: args.json, yes: args.yes, verbosity, config, environment, line })
    }

    /// A path the user gave, as seen from the directory pleach works in.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.dir.join(path)
    }
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
        Command::Resume(args) => resume::run(globals, args),
        Command::Status(args) => status::run(globals, args),
        Command::Inspect(args) => inspect::run(globals, args),
        Command::Logs(args) => logs::run(globals, args),
        Command::Reports(args) => reports::run(globals, args),
        Command::Skip(args) => skip::run(globals, args),
        Command::Reset(args) => reset::run(globals, args),
        Command::Turns(args) => turns::run(globals, args),
        Command::Show(args) => show::run(globals, args),
        Command::Cost(args) => cost::run(globals, args),
        Command::Diff(args) => diff::run(globals, args),
        Command::Export(args) => export::run(globals, args),
        Command::Cancel(args) => cancel::run(globals, args),
        Command::Rm(args) => rm::run(globals, args),
        Command::Graph(args) => graph::run(globals, args),
        Command::Config(args) => config::run(globals, args),
        Command::Trust(args) => trust::run(globals, args),
        Command::Validate(args) => validate::run(globals, args),
        Command::Completions(args) => completions::run(globals, args),
        Command::HelpMarkdown(args) => help_markdown::run(globals, args),
    }
}

/// Parses the command line, runs the command and tells how it ended.
pub fn main(args: Vec<OsString>) -> ExitCode {
    // Known before parsing, because a usage error must be reported as JSON too.
    let json = args.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let line = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let cli = match Cli::command().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, json),
    };
    match Globals::new(cli.globals, line).and_then(|globals| dispatch(&globals, cli.command)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report(json);
            failure.exit.into()
        }
    }
}

/// clap's own answers: help and version on stdout with exit 0, everything else is the user's mistake.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done.into();
    }
    if json {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        Failure::new(Exit::Usage, message).hint("see `pleach --help`").report_json();
    }
    Exit::Usage.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn paths_are_seen_from_the_chosen_directory() {
        let dir = std::env::temp_dir();
        let args =
            Cli::parse_from(["pleach", "-C", dir.to_str().unwrap(), "--config", "x.yaml", "completions", "bash"]);
        let globals = Globals::new(args.globals, Vec::new()).unwrap();
        assert_eq!(globals.path(Path::new("a.dot")), dir.canonicalize().unwrap().join("a.dot"));
        assert_eq!(globals.config, Some(globals.path(Path::new("x.yaml"))));
        assert!(!globals.json && !globals.yes && globals.verbosity == 0);
    }
}
