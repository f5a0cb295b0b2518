//! Calls of git that need another machine. Nothing prompts, and a remote that does not answer is given up.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::url::RemoteUrl;
use crate::git::error::Error;
use crate::git::program::{GitOutput, Program};
use os::process::{Cancel, Exit, StallGuard};

/// How long a remote may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a call may take that brings something here. It is safe to stop it, and no work waits for it.
const RECEIVE: Duration = Duration::from_secs(60 * 60);

/// How long a push may take.
const SEND: Duration = Duration::from_secs(10 * 60);

/// ssh without prompts, which gives up a dead connection by itself.
const QUIET_SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4";

/// Why a remote could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Not the address of a remote.
    #[error("`{text}` cannot be the address of a remote: {why}")]
    Address {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// It did not answer.
    #[error("{remote} {exit}")]
    Silent {
        /// The remote.
        remote: RemoteUrl,
        /// The limit it exceeded.
        exit: Exit,
    },
    /// The call was stopped on request.
    #[error("stopped before {remote} had answered")]
    Stopped {
        /// The remote.
        remote: RemoteUrl,
    },
    /// git could not do it, in its own words.
    #[error("{words}")]
    Failed {
        /// The words.
        words: String,
    },
    /// Something here failed.
    #[error(transparent)]
    Git(#[from] Error),
}

/// Which way most of the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Receive,
    Send,
}

/// Runs git in `dir` for this remote. The outcome of git itself is the caller's to judge.
pub(super) fn call(
    program: &Program,
    dir: &Path,
    args: impl IntoIterator<Item = impl Into<OsString>>,
    remote: &RemoteUrl,
    direction: Direction,
    cancel: &Cancel,
) -> Result<GitOutput, RemoteError> {
    let program = quiet_ssh(program, dir)?;
    let total = if direction == Direction::Send { SEND } else { RECEIVE };
    let silence = program.patience().map_or(SILENCE, |patience| patience.min(SILENCE));
    // Only what the address says is run, whatever a configuration allows. The rest ends a call that outlives pleach.
    let limit = format!("http.lowSpeedTime={}", SILENCE.as_secs());
    let settings = ["-c", "protocol.ext.allow=never", "-c", "http.lowSpeedLimit=1", "-c", &limit].map(OsString::from);
    let args: Vec<OsString> = settings.into_iter().chain(args.into_iter().map(Into::into)).collect();
    let finished = program.run_guarded(dir, args, StallGuard { silence, total, cancel: cancel.clone() })?;
    match finished.exit {
        exit @ Exit::TimedOut(_) => Err(RemoteError::Silent { remote: remote.clone(), exit }),
        Exit::Cancelled => Err(RemoteError::Stopped { remote: remote.clone() }),
        Exit::Code(_) | Exit::Signal(_) => Ok(finished),
    }
}

/// The outcome of a call that must succeed.
pub(super) fn success(finished: GitOutput, remote: &RemoteUrl) -> Result<Vec<u8>, RemoteError> {
    match finished.code {
        Some(0) => Ok(finished.stdout),
        _ => Err(failed(&finished, remote)),
    }
}

/// A call that failed, in git's own words.
pub(super) fn failed(finished: &GitOutput, remote: &RemoteUrl) -> RemoteError {
    let words = words(&finished.stderr);
    let words = if words.is_empty() { format!("git ended with {}", finished.exit) } else { words };
    RemoteError::Failed { words: remote.scrub(&words) }
}

/// ssh would ask at the terminal for passwords and unknown hosts. Where the user has said how ssh is called, that holds.
fn quiet_ssh(program: &Program, dir: &Path) -> Result<Program, Error> {
    let environment = program.environment();
    let is_set = ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| environment.get_os(name).is_some());
    if is_set || program.run(dir, ["config", "--get", "core.sshCommand"])?.code == Some(0) {
        return Ok(program.clone());
    }
    Ok(program.clone().with_variable("GIT_SSH_COMMAND", QUIET_SSH))
}

/// Beginnings of lines that only report progress.
const PROGRESS: [&str; 18] = [
    "Enumerating objects:",
    "Counting objects:",
    "Compressing objects:",
    "Delta compression using",
    "Writing objects:",
    "Receiving objects:",
    "Unpacking objects:",
    "Resolving deltas:",
    "Checking connectivity",
    "Checking objects:",
    "Updating files:",
    "Filtering content:",
    "Total ",
    "Cloning into ",
    "hint:",
    "done.",
    "To ",
    "error: failed to push some refs to",
];

/// What git said apart from its progress and its hints, which are about commands people type.
pub(super) fn words(stderr: &str) -> String {
    let lines = stderr.split(['\r', '\n']).map(str::trim).filter(|line| {
        let said = line.strip_prefix("remote:").unwrap_or(line).trim();
        !said.is_empty() && !PROGRESS.iter().any(|beginning| said.starts_with(beginning))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_git_says_the_words_are_kept() {
        let stderr = "Enumerating objects: 3, done.\rCounting objects:  50% (1/2)\rCounting objects: 100% (2/2), done.\n\
                      remote: Resolving deltas: 100% (1/1), done.        \nremote: no pushes today\nremote: \n\
                      To /srv/x.git\nerror: failed to push some refs to '/srv/x.git'\nhint: Updates were rejected\n";
        assert_eq!(words(stderr), "remote: no pushes today");
        assert_eq!(words("fatal: '/srv/x' does not appear to be a git repository\n\nfatal: Could not read\n"), {
            "fatal: '/srv/x' does not appear to be a git repository\nfatal: Could not read"
        });
    }
}
