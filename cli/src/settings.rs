//! Finds and reads configuration files. What they mean is decided in the library.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use engine::merging::TierOptions;
use os::plain_file;
use pleach_core::config::{self, ConfigError, Environment, Layer, MergeSettings, Precedence, Resolved, Source};
use pleach_core::redact::Redactor;
use pleach_core::text::counted;
use serde_json::{Value, json};

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;

/// The names of a project's configuration file, the first one that is there.
pub const PROJECT_FILES: [&str; 2] = ["pleach.yaml", "orchestra.yaml"];

/// What a command needs to find its settings.
#[derive(Debug, Clone)]
pub struct Search {
    /// Where the search upward starts: the pipeline's directory, or the one pleach works in.
    pub from: PathBuf,
    /// The directory relative paths in variables and flags start from.
    pub dir: PathBuf,
    /// The file to read instead of searching.
    pub config: Option<PathBuf>,
    /// Settings of the command line: the flag, the dotted key, the value.
    pub flags: Vec<(String, String, String)>,
}

impl Search {
    /// A search from a directory, with the flags of a command.
    pub fn with(globals: &Globals, from: &Path, flags: impl Iterator<Item = (String, String, String)>) -> Self {
        let (dir, config) = (globals.dir.clone(), globals.config.clone());
        Self { from: from.to_owned(), dir, config, flags: flags.collect() }
    }

    /// A search from a directory, without flags.
    pub fn from(dir: &Path, config: Option<&Path>) -> Self {
        Self { from: dir.to_owned(), dir: dir.to_owned(), config: config.map(Path::to_owned), flags: Vec::new() }
    }

    /// The layer of the flags, for resuming.
    pub fn flag_layer(&self) -> Layer {
        Layer::flags(self.flags.clone(), &self.dir)
    }
}

/// The settings of a command that works below `dir`.
pub fn load_for(globals: &Globals, dir: &Path) -> Result<Settings, Failure> {
    load(globals.environment.clone(), &Search::with(globals, dir, std::iter::empty()))
}

/// The settings of a command and where they came from.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The configuration all sources come to.
    pub resolved: Resolved,
    /// The environment with the variables of the `.env` file, for agents and commands.
    pub environment: Environment,
    /// The environment without them, for the programs pleach itself needs: a repository must not steer these, and they
    /// run before it is trusted.
    pub own_environment: Environment,
    /// The state directory of this user.
    pub state_dir: PathBuf,
    /// The files that were read, weakest first.
    pub files: Vec<PathBuf>,
    /// The command works, and does not only show: repositories may fetch the history they lack.
    pub may_deepen: bool,
}

impl Settings {
    /// The same for a command that works, or only shows what it would do.
    #[must_use]
    pub fn deepening(self, may_deepen: bool) -> Self {
        Self { may_deepen, ..self }
    }

    /// Takes the secrets of this environment out of text.
    pub fn redactor(&self) -> Redactor {
        Redactor::new(self.environment.secrets())
    }

    /// What is tried with the conflicts of a merge before anybody is asked.
    pub fn merge_tiers(&self, merge: &MergeSettings) -> TierOptions {
        TierOptions::from_settings(merge, &self.environment, &self.state_dir)
            .expect("settings with bad patterns are refused")
    }
}

/// Reads every source and merges them.
pub fn load(environment: Environment, search: &Search) -> Result<Settings, Failure> {
    let state_dir = state_dir(&environment)?;
    let mut files = Vec::new();
    let mut layers = vec![
        Layer::arborist_environment(&environment, &search.dir),
        Layer::environment(&environment, &search.dir),
        search.flag_layer(),
    ];
    let mut add = |level: Precedence, file: PathBuf, text: String| {
        files.push(file.clone());
        layers.push(Layer::file(level, file, text));
    };
    if let Some(file) = user_config(&environment)
        && let Some(text) = read(&file, plain_file::read)?
    {
        add(Precedence::User, file, text);
    }
    if let Some((file, text)) = find(&search.from, &[".arborist/config.json"])? {
        add(Precedence::Arborist, file, text);
    }
    let project = match &search.config {
        Some(file) => Some((file.clone(), read(file, plain_file::read_given)?.ok_or_else(|| no_such_file(file))?)),
        None => find(&search.from, &PROJECT_FILES)?,
    };
    let mut errors = Vec::new();
    let mut variables = Vec::new();
    if let Some((file, text)) = project {
        let dotenv = file.with_file_name(".env");
        add(Precedence::Project, file, text);
        if let Some(text) = read(&dotenv, plain_file::read)? {
            match config::parse_dotenv(&text, &dotenv) {
                Ok(entries) => variables = entries,
                Err(mut wrong) => errors.append(&mut wrong),
            }
            layers.push(Layer::dotenv(&dotenv, &variables));
            files.push(dotenv);
        }
    }
    let resolved = match config::resolve(layers) {
        Ok(resolved) if errors.is_empty() => resolved,
        Ok(_) => return Err(failure(&errors, &search.dir)),
        Err(more) => {
            errors.extend(more);
            return Err(failure(&errors, &search.dir));
        }
    };
    warn(&resolved, &search.dir);
    // What providers are sent is theirs alone, whatever its variables are called.
    let secrets = resolved.config.providers.secret_variables(&environment);
    let environment = environment.with_secrets(secrets);
    let own_environment = environment.clone();
    let environment = environment.with_dotenv(variables.into_iter().map(|entry| (entry.name, entry.value)));
    Ok(Settings { resolved, environment, own_environment, state_dir, files, may_deepen: false })
}

/// Says what was left out, as it means nothing.
fn warn(resolved: &Resolved, dir: &Path) {
    for warning in &resolved.warnings {
        let place =
            Source { file: warning.place.file.as_deref().map(|file| shortened(file, dir)), ..warning.place.clone() };
        let hint = warning.hint.as_ref().map(|hint| format!(". {hint}")).unwrap_or_default();
        warning!(SettingIgnored, "{place}: {}{hint}", warning.message);
    }
}

/// All errors of a configuration as one failure, files named as seen from `dir`.
pub fn failure(errors: &[ConfigError], dir: &Path) -> Failure {
    let named = errors.iter().cloned().map(|mut error| {
        error.place.file = error.place.file.map(|file| shortened(&file, dir));
        error
    });
    let mut errors: Vec<ConfigError> = named.collect();
    let diagnostics = errors.iter().map(diagnostic).collect();
    // Among several, what fixes one is below its place.
    let own = match errors.as_mut_slice() {
        [only] => only.hint.take(),
        _ => None,
    };
    let mut message = match errors.len() {
        1 => String::new(),
        count => format!("{} in the configuration\n", counted(count, "error")),
    };
    errors.iter().for_each(|error| {
        let _ = writeln!(message, "{error}");
    });
    let hint = own.unwrap_or_else(|| "`pleach help settings` says what every setting takes".to_owned());
    Failure::new(Code::SettingsInvalid, message.trim_end()).hint(hint).diagnosed(diagnostics)
}

/// An error as `--json` gives it.
fn diagnostic(error: &ConfigError) -> Value {
    let place = &error.place;
    json!({
        "severity": "error", "message": error.message, "fix": error.hint, "file": place.file, "name": place.name,
        "line": place.line, "column": error.column,
    })
}

/// A path as seen from a directory, when it is in it.
pub fn shortened(file: &Path, dir: &Path) -> PathBuf {
    file.strip_prefix(dir).map_or_else(|_| file.to_owned(), Path::to_owned)
}

/// The nearest of these files in `dir` or above it, with its text.
fn find(dir: &Path, names: &[&str]) -> Result<Option<(PathBuf, String)>, Failure> {
    for above in dir.ancestors() {
        for name in names {
            let file = above.join(name);
            if let Some(text) = read(&file, plain_file::read)? {
                return Ok(Some((file, text)));
            }
        }
    }
    Ok(None)
}

/// The text of a file, none when there is no such file.
fn read(file: &Path, how: fn(&Path) -> std::io::Result<String>) -> Result<Option<String>, Failure> {
    match how(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(Failure::new(Code::SettingsNotText, format!("{} is not UTF-8 text", file.display()))
                .hint("save the file as UTF-8"))
        }
        Err(error) => Err(Failure::new(Code::SettingsUnreadable, format!("cannot read {}", file.display()))
            .because(&error)
            .hint("make the file readable, or name another one with --config")),
    }
}

fn no_such_file(file: &Path) -> Failure {
    Failure::new(Code::SettingsMissing, format!("there is no configuration file {}", file.display()))
        .hint("--config takes a file that exists; without it pleach.yaml is searched upward")
}

/// `$XDG_STATE_HOME/pleach`, by default below the home directory.
pub fn state_dir(environment: &Environment) -> Result<PathBuf, Failure> {
    xdg(environment, "XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        Failure::new(Code::NoStateDirectory, "there is no directory for pleach's state")
            .hint("set HOME, or XDG_STATE_HOME to an absolute path")
    })
}

fn user_config(environment: &Environment) -> Option<PathBuf> {
    Some(xdg(environment, "XDG_CONFIG_HOME", ".config")?.join("config.yaml"))
}

/// pleach's directory in one of the base directories. As their specification says, relative values do not count.
fn xdg(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: &Path| path.is_absolute();
    let given = environment.get_os(variable).map(PathBuf::from).filter(|path| absolute(path));
    let home = || environment.get_os("HOME").map(PathBuf::from).filter(|path| absolute(path));
    Some(given.or_else(|| Some(home()?.join(below_home)))?.join("pleach"))
}
