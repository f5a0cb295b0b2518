//! The git program, for what the library does not do. Every call gets the same settings: no hooks, no background
//! maintenance, no prompts, English messages, no variable that points at another repository, no replaced objects.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::{Error, OLDEST_GIT};
use super::progress::is_progress;
use os::process::{Blocking, Exit, SpawnError, StallGuard, Stdin, run_blocking};
use pleach_core::config::Environment;

/// Settings given to every call, so that neither the user's hooks nor git's housekeeping run in bookkeeping.
const SETTINGS: [&str; 4] = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=0"];

/// What they make of the place of hooks.
pub(super) const NO_HOOKS: &str = "/dev/null";

/// What git says of a worktree that is being made right now, how often it is asked again, and how long after.
const HALF_MADE: &str = "failed to read worktrees/";

const TRIES: u32 = 10;

const PAUSE: Duration = Duration::from_millis(20);

/// The variable that shortens what is waited, in milliseconds.
const PATIENCE: &str = "PLEACH_PATIENCE_MS";

/// How to call git: the environment it gets.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Where it is, so that not every call looks through `PATH`; its name alone if it was not found.
    place: OsString,
    environment: Environment,
    variables: Vec<(OsString, Option<OsString>)>,
    /// How long a call may take.
    limit: Option<Duration>,
    /// The directories of a repository git works in, whoever owns them: it has looked at that already.
    trusted: Vec<PathBuf>,
}

/// The outcome of a call.
pub(super) struct GitOutput {
    /// The exit code, none if a signal ended it.
    pub code: Option<i32>,
    /// How it ended.
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: String,
    command: String,
}

impl GitOutput {
    /// The output of a call that must succeed.
    pub fn success(self) -> Result<Vec<u8>, Error> {
        match self.code {
            Some(0) => Ok(self.stdout),
            _ => Err(self.failure()),
        }
    }

    /// The lock file that was there already when git wanted to make it.
    pub fn held_lock(&self) -> Option<PathBuf> {
        let (lock, why) = self.stderr.split_once("Unable to create '")?.1.split_once(".lock': ")?;
        why.starts_with("File exists").then(|| format!("{lock}.lock").into())
    }

    /// The call as an error, in git's own words.
    pub fn failure(self) -> Error {
        if let Some(lock) = self.held_lock() {
            return Error::Locked { lock };
        }
        let exit = self.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
        Error::Program { command: self.command, exit, stderr: self.stderr }
    }
}

impl Program {
    /// Calls that get this environment and nothing else of what pleach was started with; what points at another
    /// repository is dropped from it by the process door.
    pub fn new(environment: &Environment) -> Self {
        const FIXED: [(&str, &str); 3] =
            [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_REPLACE_OBJECTS", "1")];
        let fixed = FIXED.iter().map(|(name, value)| (OsString::from(name), Some(OsString::from(value))));
        let (variables, limit, trusted) = (fixed.collect(), None, Vec::new());
        Self { place: place(environment), environment: environment.clone(), variables, limit, trusted }
    }

    /// The same for a repository git is willing to work in, by way of one of these directories: git would ask again
    /// for each whether the user trusts its owner.
    pub fn trusting(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.trusted.extend(directories);
        self
    }

    /// The same for calls that only read, and that agents could make last for ever: they are killed after this time.
    pub fn at_most(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same with one more variable.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), Some(value.into())));
        self
    }

    /// The environment it gets.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// At most so long is waited for others, for tests. A repository has no say in it.
    pub fn patience(&self) -> Option<Duration> {
        self.environment.get(PATIENCE).and_then(|text| text.parse().ok()).map(Duration::from_millis)
    }

    /// Runs git in `dir` for something that needs another machine, until it ends or its guard gives it up.
    pub fn run_guarded<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        guard: StallGuard,
    ) -> Result<GitOutput, Error> {
        self.call(dir, args, Blocking { guard: Some(guard), ..Blocking::default() })
    }

    /// Runs git in `dir` and waits for it. It is never killed, unless it was said how long it may take: a call that is cut
    /// short could leave half a checkout.
    pub fn run<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> Result<GitOutput, Error> {
        self.run_with_stdin(dir, args, &[])
    }

    /// As [`Program::run`], with something to read.
    pub fn run_with_stdin<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        stdin: &[u8],
    ) -> Result<GitOutput, Error> {
        let stdin = if stdin.is_empty() { Stdin::Null } else { Stdin::Bytes(stdin.to_vec()) };
        self.call(dir, args, Blocking { stdin, ..Blocking::default() })
    }

    /// As [`Program::run`], holding a lock to its end, also where this process ends before.
    pub fn run_holding<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        lock: Arc<File>,
    ) -> Result<GitOutput, Error> {
        self.call(dir, args, Blocking { keeps: Some(lock), ..Blocking::default() })
    }

    /// As [`Program::run`], holding a lock to its end and telling into `stderr` how far it has come.
    pub fn run_long<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        lock: Arc<File>,
        stderr: Arc<File>,
    ) -> Result<GitOutput, Error> {
        let program = self.clone().with_variable("GIT_PROGRESS_DELAY", "0");
        let finished =
            program.call(dir, args, Blocking { keeps: Some(lock), stderr: Some(stderr), ..Blocking::default() })?;
        let said = finished.stderr.split(['\r', '\n']).filter(|line| !is_progress(line));
        Ok(GitOutput { stderr: said.collect::<Vec<_>>().join("\n").trim_end().to_owned(), ..finished })
    }

    fn call<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        blocking: Blocking,
    ) -> Result<GitOutput, Error> {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let shown: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        let command = format!("git {}", shown.join(" "));
        let trusted = self.trusted.iter().map(|dir| {
            let mut setting = OsString::from("safe.directory=");
            setting.push(dir);
            setting
        });
        let settings = SETTINGS.iter().map(OsString::from).chain(trusted);
        let argv = settings.flat_map(|setting| ["-c".into(), setting]).chain(args).collect();
        let blocking = Blocking {
            program: self.place.clone(),
            args: argv,
            cwd: dir.to_owned(),
            environment: Some(self.environment.clone()),
            env: self.variables.clone(),
            limit: self.limit,
            ..blocking
        };
        let mut tries = 1;
        loop {
            let ended = run_blocking(&blocking).map_err(|error| match &error {
                SpawnError::Program { source, .. } if !error.is_of_machine() => {
                    Error::GitMissing { detail: source.to_string() }
                }
                _ => Error::Program { command: command.clone(), exit: "not run".into(), stderr: error.to_string() },
            })?;
            let stderr = String::from_utf8_lossy(&ended.stderr).trim_end().to_owned();
            // It looked at the worktrees while another git was making one, and has done nothing yet.
            if ended.code() == Some(128) && stderr.contains(HALF_MADE) && tries < TRIES {
                tries += 1;
                std::thread::sleep(PAUSE);
                continue;
            }
            return Ok(GitOutput { code: ended.code(), exit: ended.exit, stdout: ended.stdout, stderr, command });
        }
    }

    /// What `git --version` prints, once it is known to be new enough.
    pub fn version(&self, dir: &Path) -> Result<String, Error> {
        let stdout = self.run(dir, ["--version"])?.success()?;
        let found = String::from_utf8_lossy(&stdout).trim().to_owned();
        match parse_version(&found) {
            Some(version) if version >= OLDEST_GIT => Ok(found),
            _ => Err(Error::GitTooOld { found }),
        }
    }
}

/// The first git on the `PATH` it gets.
fn place(environment: &Environment) -> OsString {
    let is_program = |path: &PathBuf| {
        path.is_absolute() && path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    let path = environment.get_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(path).map(|dir| dir.join("git")).find(is_program);
    found.map_or_else(|| "git".into(), PathBuf::into_os_string)
}

/// What the git program says it is, once it is known to be new enough.
pub fn version(environment: &Environment) -> Result<String, Error> {
    Program::new(environment).version(Path::new("/"))
}

/// The command that shows long output at a terminal, as git decides it: `GIT_PAGER`, the user's `core.pager`, `PAGER`, and
/// without any of them the one git was built with. What a repository sets does not count, for agents may write there.
pub fn pager(environment: &Environment) -> Result<String, Error> {
    let said = Program::new(environment).run(Path::new("/"), ["var", "GIT_PAGER"])?.success()?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Major and minor number out of `git version 2.47.3` and its vendor spellings.
pub(super) fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("git version ")?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_vendors_are_read() {
        assert_eq!(parse_version("git version 2.47.3"), Some((2, 47)));
        assert_eq!(parse_version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(parse_version("git version 2.45.1.windows.1"), Some((2, 45)));
        assert_eq!(parse_version("git version 3.0-rc1"), Some((3, 0)));
        assert_eq!(parse_version("gitti"), None);
    }

    #[test]
    fn an_existing_lock_differs_from_one_that_cannot_be_created() {
        let lock = |stderr: &str| {
            let (stderr, command) = (stderr.to_owned(), "git merge".to_owned());
            GitOutput { code: Some(128), exit: Exit::Code(128), stdout: Vec::new(), stderr, command }.held_lock()
        };
        let words = "fatal: Unable to create '/it's/.git/index.lock': File exists.\n\nAnother git process seems to run";
        assert_eq!(lock(words), Some("/it's/.git/index.lock".into()));
        let words = "fatal: cannot lock ref 'HEAD': Unable to create '/r/.git/refs/heads/a.lock': File exists.";
        assert_eq!(lock(words), Some("/r/.git/refs/heads/a.lock".into()));
        assert_eq!(lock("fatal: Unable to create '/r/.git/index.lock': Permission denied"), None);
        assert_eq!(lock("fatal: cannot lock ref 'HEAD': is at 1 but expected 2"), None);
    }

    #[test]
    fn git_gets_the_environment_it_is_given_and_no_other() {
        // The test itself runs in an environment of its own, with a CARGO_MANIFEST_DIR in it.
        let environment = Environment::from_pairs([("GIT_DIR", "/x"), ("GIT_ASKPASS", "ask"), ("LC_ALL", "de_DE")]);
        let program = Program::new(&environment).with_variable("MORE", "1");
        let shown = program.run(Path::new("/"), ["-c", "alias.env=!env", "env"]).unwrap().success().unwrap();
        let shown = String::from_utf8(shown).unwrap();
        let has = |line: &str| shown.lines().any(|shown| shown == line);
        for line in ["GIT_ASKPASS=ask", "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "MORE=1"] {
            assert!(has(line), "{line}: {shown}");
        }
        assert!(!has("GIT_DIR=/x") && !shown.contains("CARGO_MANIFEST_DIR="), "{shown}");
    }
}
