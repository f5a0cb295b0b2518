//! What the system allows a process at most: open files, and processes with their threads.

use std::io;
use std::process::{Child, Command};
use std::sync::{OnceLock, RwLock};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// With fewer open files than this a run fails sooner or later.
pub const ENOUGH_FILES: u64 = 256;

/// How many threads a run has at least: those of its runtime, and those that wait for a program or the disk.
const THREADS: usize = 8;

/// How many files this process could open before it raised its limit.
static GIVEN: OnceLock<Option<u64>> = OnceLock::new();

/// Lets this process open as many files as it may allow itself. The commands it runs get what it was given: where it is
/// many more than usual, some go through them one by one, and some cannot wait for that many.
pub fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    GIVEN.get_or_init(|| current);
    // Where the system does not allow it, the limit is still the one that was given.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// What commands get; none if this process has not raised its limit.
pub(super) fn given_open_files() -> Option<u64> {
    GIVEN.get().copied().flatten()
}

/// A command of a supervisor, with how many files it may open at once; none leaves that as it is.
pub(super) struct LimitedCommand {
    command: Command,
    open_files: Option<u64>,
}

impl LimitedCommand {
    pub(super) fn new(command: Command, open_files: Option<u64>) -> Self {
        Self { command, open_files }
    }

    /// Starts it. The limit is this process's own from then on, which has opened all it needs.
    pub(super) fn spawn(&mut self) -> io::Result<Child> {
        if self.open_files.is_some() {
            let maximum = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current: self.open_files, maximum })?;
        }
        self.command.spawn()
    }
}

/// How many files this process may have open at once; none if there is no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Whether the system gives this process the threads a run needs: without them it would hang or break off somewhere.
pub fn check_threads() -> io::Result<()> {
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        // All of them are there at once: each waits until this is dropped.
        let _closed = gate.write();
        (0..THREADS).try_for_each(|_| std::thread::Builder::new().spawn_scoped(scope, || drop(gate.read())).map(drop))
    })
}

/// What to do where the system refuses something because a limit is reached, as its words say.
pub fn shortage(words: &str) -> Option<String> {
    let shown = |limit: Option<u64>| limit.map_or_else(|| "any number of".to_owned(), |limit| limit.to_string());
    if words.contains("Too many open files") {
        let limit = shown(open_files());
        return Some(format!(
            "pleach may have {limit} files open at once: raise the hard limit (`ulimit -Hn`) to {ENOUGH_FILES} or more"
        ));
    }
    words.contains("Resource temporarily unavailable").then(|| {
        let limit = shown(getrlimit(Resource::Nproc).current);
        format!("you may have {limit} processes and threads at once: end some, or raise the limit (`ulimit -u`)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reached_limit_is_known_by_the_system_s_words() {
        let words = |errno: rustix::io::Errno| shortage(&io::Error::from(errno).to_string()).unwrap_or_default();
        assert!(words(rustix::io::Errno::MFILE).contains("`ulimit -Hn`"));
        assert!(words(rustix::io::Errno::AGAIN).contains("`ulimit -u`"));
        assert_eq!(words(rustix::io::Errno::NOENT), "");
        check_threads().expect("the tests have threads");
    }
}
