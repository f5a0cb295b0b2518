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
    /// Its standard input.
    pub stdin: Stdin,
    /// Its limits in time and output.
    pub limits: CommandLimits,
    /// Locked files that stay locked until everything the command started is gone, even if this process is killed.
    /// Release one by dropping it: unlocking it explicitly would unlock it for the supervisor too.
    pub locks: Vec<Arc<File>>,
    /// What it may touch; everything if `None`.
    pub sandbox: Option<Arc<Sandbox>>,
    /// Detects activity of the command other than output.
    pub signs: Option<Signs>,
}

/// Detects activity of a command other than output.
#[derive(Clone)]
pub struct Signs(Arc<dyn Fn(Duration) -> Option<Duration> + Send + Sync>);

impl Signs {
    /// From a function that returns how long ago the last activity was, if it was within the given time.
    pub fn new(within: impl Fn(Duration) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(within))
    }

    /// How long ago the last activity was, if it was within `limit`. Checking may take a while.
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

    /// A shell script, for `bash` if it is installed, otherwise for `sh`.
    pub fn shell(script: &str, cwd: &Path) -> Self {
        Self::new([shell(), "-c", script], cwd)
    }
}

/// The shell that runs scripts.
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
    /// How long it may go without output or other known activity.
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

/// The result of a command.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output until it ended or was killed.
    pub stdout: Capture,
    /// Its standard error.
    pub stderr: Capture,
    /// How long it took, including the time to end its orphans.
    pub duration: Duration,
}
