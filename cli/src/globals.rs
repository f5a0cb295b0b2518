//! The global options, and where pleach was started.

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use pleach_core::config::Environment;

use crate::code::Code;
use crate::failure::Failure;
use crate::say::{self, Color};

/// Options every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Run as if pleach was started in this directory.
    #[arg(short = 'C', value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
    /// Print results as JSON: one document, or one event per line during a run.
    #[arg(long, global = true)]
    json: bool,
    /// Answer yes to every question, including trust in the repository's commands.
    #[arg(short, long, global = true)]
    yes: bool,
    /// Print more; twice for everything.
    #[arg(short, long, action = ArgAction::Count, global = true, conflicts_with = "quiet")]
    verbose: u8,
    /// Print only results and errors.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Show tables whole, however wide the terminal is.
    #[arg(long, global = true)]
    wide: bool,
    /// When to use colours: `auto` (at a terminal, unless NO_COLOR is set), `always` or `never`.
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", hide_possible_values = true)]
    color: Color,
    /// Read this file instead of searching for pleach.yaml.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

/// The failure where `path`, which was given in these words, is no directory.
pub fn no_directory(given: &Path, path: &Path) -> Failure {
    let given = given.display();
    let message = if path.exists() {
        format!("`{given}` is not a directory")
    } else {
        format!("there is no directory `{given}`")
    };
    Failure::new(Code::NotADirectory, message)
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
    /// Of the command line as it was given, where pleach was started and in which environment.
    pub fn new(args: GlobalArgs, line: Vec<String>, environment: Environment) -> Result<Self, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::new(Code::DiskFailed, "the current directory cannot be used")
                .because(&error)
                .hint("change to a directory that exists, or give one with -C")
        })?;
        let dir = match args.dir {
            None => here.clone(),
            Some(dir) => here
                .join(&dir)
                .canonicalize()
                .ok()
                .filter(|path| path.is_dir())
                .ok_or_else(|| no_directory(&dir, &here.join(&dir)).hint("-C takes a directory that exists"))?,
        };
        git::crash::install(&environment).map_err(|error| Failure::new(Code::CrashPointInvalid, error.to_string()))?;
        say::set_up(args.quiet, args.color);
        crate::render::set_wide(args.wide);
        let verbosity = if args.quiet { -1 } else { i8::try_from(args.verbose).unwrap_or(i8::MAX) };
        let config = args.config.map(|file| dir.join(file));
        Ok(Self { dir, here, json: args.json, yes: args.yes, verbosity, config, environment, line })
    }

    /// A path the user gave, as seen from the directory pleach works in.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.dir.join(path)
    }
}
