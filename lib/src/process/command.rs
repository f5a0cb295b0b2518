//! A command to run, its limits, and its output.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::exit::Exit;
use super::stdio::Stdin;
use super::{Capture, Sandbox};

/// A command for [`Spawner::run`](super::Spawner::run).
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The directory to run in.
    pub cwd: PathBuf,
    /// Variables to set (`Some`) or to remove (`None`) on top of the spawner's environment.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// What the command reads.
    pub stdin: Stdin,
    /// How long and how much.
    pub limits: CommandLimits,
    /// Locked files that stay locked until everything the command started is gone, even when this process is killed.
    /// Give one back by dropping it: unlocking it by hand would unlock it for the supervisor too.
    pub locks: Vec<Arc<File>>,
    /// What it may touch; everything if not given.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Who knows signs of life of it beside its output.
    pub signs: Option<Signs>,
}

/// Knows signs of life of a command beside its output.
#[derive(Clone)]
pub struct Signs(Arc<dyn Fn(Duration) -> Option<Duration> + Send + Sync>);

impl Signs {
    /// By a function that says how long ago there was a sign, if there was one in the time it is given.
    pub fn new(within: impl Fn(Duration) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(within))
    }

    /// How long ago there was a sign, if there was one in the last `limit`. It may take a while to look.
    pub(super) async fn within(&self, limit: Duration) -> Option<Duration> {
        let look = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || look(limit)).await.ok().flatten()
    }
}

impl fmt::Debug for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signs")
    }
}

impl CommandSpec {
    /// A program with arguments, no input and the default limits.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: Stdin::Null,
            limits: CommandLimits::default(),
            locks: Vec::new(),
            sandbox: None,
            signs: None,
        }
    }

    /// A shell script, for `bash` where there is one, else for `sh`.
    pub fn shell(script: &str, cwd: &Path) -> Self {
        Self::new([shell(), "-c", script], cwd)
    }
}

/// The shell scripts are run with.
fn shell() -> &'static str {
    static SHELL: OnceLock<&str> = OnceLock::new();
    SHELL.get_or_init(|| {
        let places = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];
        places.into_iter().find(|place| Path::new(place).is_file()).unwrap_or("/bin/sh")
    })
}

/// The limits of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLimits {
    /// How long it may run.
    pub wall: Option<Duration>,
    /// How long it may go without output, or another sign of life where somebody knows some.
    pub idle: Option<Duration>,
    /// How long it has between TERM and KILL.
    pub grace: Duration,
    /// How many bytes of each output stream are kept.
    pub output: usize,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self { wall: None, idle: None, grace: Duration::from_secs(2), output: 1 << 20 }
    }
}

/// What became of a command.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to standard output, up to its end or its killing.
    pub stdout: Capture,
    /// What it wrote to standard error.
    pub stderr: Capture,
    /// How long it took, with the ending of what it left behind.
    pub duration: Duration,
}
