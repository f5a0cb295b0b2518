//! The git program, for what the library does not do. Every call gets the same settings: no hooks, no background
//! maintenance, no prompts, plain English, no variable that points at another repository.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use super::error::{Error, OLDEST_GIT};
use crate::config::Environment;

/// Settings given to every call, so that neither the user's hooks nor git's housekeeping run in bookkeeping.
const SETTINGS: [&str; 4] = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=0"];

/// Variables that make git work on another repository than the one it is told to.
const LOCATORS: [&str; 17] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// How to call git: the environment it gets.
#[derive(Debug, Clone)]
pub(super) struct Program {
    environment: Vec<(OsString, OsString)>,
}

/// A call that ended, however it ended.
pub(super) struct Finished {
    /// The exit code, none if a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    command: String,
}

impl Finished {
    /// The output of a call that must succeed.
    pub fn success(self) -> Result<Vec<u8>, Error> {
        match self.code {
            Some(0) => Ok(self.stdout),
            _ => Err(self.failure()),
        }
    }

    /// The call as an error, in git's own words.
    pub fn failure(self) -> Error {
        let exit = self.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
        Error::Program { command: self.command, exit, stderr: self.stderr }
    }
}

impl Program {
    pub fn new(environment: &Environment) -> Self {
        let mut variables: Vec<(OsString, OsString)> = environment
            .iter()
            .filter(|(name, _)| !LOCATORS.iter().any(|locator| *name == OsStr::new(locator)))
            .filter(|(name, _)| *name != "LC_ALL" && *name != "GIT_OPTIONAL_LOCKS" && *name != "GIT_TERMINAL_PROMPT")
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        for (name, value) in [("LC_ALL", "C"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0")] {
            variables.push((name.into(), value.into()));
        }
        Self { environment: variables }
    }

    /// Runs git in `dir` and waits for it. It is never killed: a call that is cut short could leave half a checkout.
    pub fn run<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> Result<Finished, Error> {
        self.run_with_stdin(dir, args, &[])
    }

    /// As [`Program::run`], with something to read.
    pub fn run_with_stdin<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        stdin: &[u8],
    ) -> Result<Finished, Error> {
        let mut argv: Vec<OsString> = vec!["git".into()];
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let shown: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        let command = format!("git {}", shown.join(" "));
        argv.extend(SETTINGS.iter().flat_map(|setting| ["-c".into(), OsString::from(setting)]));
        argv.extend(args);
        let (code, stdout, stderr) = spawn(&argv, dir, &self.environment, stdin)?;
        let stderr = String::from_utf8_lossy(&stderr).trim_end().to_owned();
        Ok(Finished { code, stdout, stderr, command })
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

/// Major and minor number out of `git version 2.47.3` and its vendor spellings.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("git version ")?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

type Ended = (Option<i32>, Vec<u8>, Vec<u8>);

/// Stands in for `process::run_blocking` until that module is there. To be replaced.
#[expect(clippy::disallowed_methods, reason = "until the process module is there")]
fn spawn(argv: &[OsString], dir: &Path, environment: &[(OsString, OsString)], stdin: &[u8]) -> Result<Ended, Error> {
    use std::io::Write as _;
    let mut child = std::process::Command::new(&argv[0])
        .args(&argv[1..])
        .current_dir(dir)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| Error::GitMissing { detail: error.to_string() })?;
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(stdin);
    }
    let output = child.wait_with_output().map_err(|error| Error::GitMissing { detail: error.to_string() })?;
    Ok((output.status.code(), output.stdout, output.stderr))
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
    fn variables_that_point_elsewhere_are_dropped() {
        let environment = Environment::from_pairs([("GIT_DIR", "/x"), ("GIT_ASKPASS", "ask"), ("LC_ALL", "de_DE")]);
        let program = Program::new(&environment);
        let names: Vec<_> = program.environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names, ["GIT_ASKPASS", "LC_ALL", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT"]);
        assert_eq!(program.environment[1].1, "C");
    }
}
