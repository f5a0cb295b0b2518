//! Why a command could not be started or followed to its end.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::limits::shortage;

/// Why a command could not be started or followed to its end. A command that ran and failed is not an error but an
/// [`Exit`](super::Exit).
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The command is empty.
    #[error("no command to run; name a program")]
    Empty,
    /// The directory to run in does not exist.
    #[error("cannot run `{}` in {}: {source}", program.display(), cwd.display())]
    Directory {
        /// The program that should have run.
        program: OsString,
        /// The directory it should have run in.
        cwd: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program does not exist or cannot be executed.
    #[error("cannot start `{}`: {source}; {}", program.display(), advice(source))]
    Program {
        /// The program as given.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The supervisor could not be started or failed.
    #[error("the supervisor `{}` of `{}` failed: {why}", supervisor.display(), program.display())]
    Supervisor {
        /// The supervisor's program.
        supervisor: OsString,
        /// The program it should have run.
        program: OsString,
        /// What went wrong.
        why: String,
    },
    /// A process below the command survived being killed.
    #[error("`{}` was killed, but a process it started does not end; look for one that hangs in the kernel or runs as another user", program.display())]
    Unkillable {
        /// The program that was run.
        program: OsString,
    },
    /// A pipe to or from the command failed.
    #[error("lost the {what} of `{}`: {source}", program.display())]
    Pipe {
        /// Which pipe.
        what: &'static str,
        /// The program that was run.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
}

/// A remedy for a program that does not start.
fn advice(error: &io::Error) -> Cow<'static, str> {
    match error.kind() {
        io::ErrorKind::NotFound => "install it, put it on PATH, or correct the command".into(),
        io::ErrorKind::PermissionDenied => "make it executable, or run it through its interpreter".into(),
        io::ErrorKind::ArgumentListTooLong => "pass the long text on stdin or in a file".into(),
        _ => shortage(&error.to_string()).map_or("check the program and the command".into(), Cow::from),
    }
}

impl SpawnError {
    /// Whether the machine is at its limits, or pleach's own supervisor does not work: that says nothing about the command.
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::Supervisor { .. } => true,
            Self::Program { source, .. } | Self::Pipe { source, .. } => shortage(&source.to_string()).is_some(),
            Self::Empty | Self::Directory { .. } | Self::Unkillable { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_at_its_limits_says_nothing_of_the_command() {
        let refused = |errno: rustix::io::Errno| SpawnError::Program { program: "git".into(), source: errno.into() };
        for (errno, is_of_machine, advice) in [
            (rustix::io::Errno::AGAIN, true, "`ulimit -u`"),
            (rustix::io::Errno::MFILE, true, "`ulimit -Hn`"),
            (rustix::io::Errno::NOENT, false, "install it"),
            (rustix::io::Errno::NOEXEC, false, "check the program"),
        ] {
            let error = refused(errno);
            assert_eq!(error.is_of_machine(), is_of_machine, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
