//! A place of its own for a benchmark: a temporary directory, an environment without the user's settings, and a count
//! of the git programs that pleach starts.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pleach_core::config::Environment;
use tempfile::TempDir;

/// Housekeeping is switched off for git as well: it would run beside whatever is measured.
const GIT_CONFIG: &str = "\
[user]
\tname = Bench
\temail = bench@example.org
[init]
\tdefaultBranch = main
[gc]
\tauto = 0
[maintenance]
\tauto = false
";

/// A temporary directory, removed at the end.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
    path: OsString,
    git: PathBuf,
}

impl World {
    pub fn new() -> Result<Self, Box<dyn Error>> {
        let dir = TempDir::with_prefix("pleach-bench-")?;
        let path = Environment::capture().get_os("PATH").unwrap_or_default().to_owned();
        let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
        let git = git.ok_or("there is no git on PATH")?;
        let world = Self { dir, path, git };
        for name in ["home", "bin", "state"] {
            std::fs::create_dir(world.root().join(name))?;
        }
        std::fs::write(world.root().join("home/.gitconfig"), GIT_CONFIG)?;
        world.write_counter()?;
        Ok(world)
    }

    /// A `git` that writes a line for each call and is the real one from then on.
    fn write_counter(&self) -> Result<(), Box<dyn Error>> {
        let (log, git) = (self.log(), self.git.display());
        let script = format!("#!/bin/sh\necho call >> '{}'\nexec '{git}' \"$@\"\n", log.display());
        let counter = self.root().join("bin/git");
        std::fs::write(&counter, script)?;
        Ok(std::fs::set_permissions(counter, std::fs::Permissions::from_mode(0o755))?)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    fn log(&self) -> PathBuf {
        self.root().join("git-calls")
    }

    /// How many git programs were started so far through [`World::counted`].
    pub fn git_calls(&self) -> usize {
        std::fs::read(self.log()).map_or(0, |log| log.iter().filter(|byte| **byte == b'\n').count())
    }

    fn variables(&self, path: OsString) -> Vec<(OsString, OsString)> {
        let home = self.root().join("home").into_os_string();
        let pairs = [
            ("PATH", path),
            ("HOME", home.clone()),
            ("XDG_CONFIG_HOME", home),
            ("XDG_STATE_HOME", self.root().join("state").into_os_string()),
            ("GIT_CONFIG_GLOBAL", self.root().join("home/.gitconfig").into_os_string()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("LC_ALL", "C".into()),
        ];
        pairs.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    /// An environment in which calls of git are counted.
    pub fn counted(&self) -> Environment {
        let mut path = self.root().join("bin").into_os_string();
        path.push(":");
        path.push(&self.path);
        Environment::from_pairs(self.variables(path))
    }

    /// A program in a directory, with nothing in its environment but what this world gives.
    #[expect(clippy::disallowed_methods, reason = "a benchmark stands outside of pleach and starts what it measures")]
    pub fn program(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).env_clear().envs(self.variables(self.path.clone())).stdin(Stdio::null());
        command
    }

    /// Where the real git is.
    pub fn real_git(&self) -> &Path {
        &self.git
    }

    /// Runs the real git, uncounted, and gives what it printed.
    pub fn git(&self, dir: &Path, args: &[&str]) -> Result<String, Box<dyn Error>> {
        self.git_reading(dir, args, &[])
    }

    /// As [`World::git`], with something to read.
    pub fn git_reading(&self, dir: &Path, args: &[&str], stdin: &[u8]) -> Result<String, Box<dyn Error>> {
        // By its path: looking it up would make starting it slower.
        let mut command = self.program(&self.git, dir);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !stdin.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn()?;
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(stdin)?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }
}
