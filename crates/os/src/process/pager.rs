//! The program that shows long output to the person at the terminal, a page at a time.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Stdio};

use super::error::SpawnError;
use pleach_core::config::Environment;

/// A pager that runs. When it is dropped it gets the end of its input, and the person has the terminal until they leave it.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    /// Present until the end.
    input: Option<ChildStdin>,
}

/// What git lets its pagers do: leave if all fits on a page, show colours, keep what was shown.
const USUAL: [(&str, &str); 2] = [("LESS", "FRX"), ("LV", "-c")];

impl Pager {
    /// Starts a pager by the command line somebody has set. From then on Ctrl-C is the pager's: it would be left behind at
    /// the terminal by this process.
    #[expect(clippy::disallowed_methods, reason = "process is the door to other programs")]
    pub fn start(command: &str, environment: &Environment) -> Result<Self, SpawnError> {
        let program = || command.into();
        let mut prepared = std::process::Command::new("/bin/sh");
        prepared.args(["-c", command]).env_clear().envs(environment.iter()).stdin(Stdio::piped());
        for (name, value) in USUAL.into_iter().filter(|(name, _)| environment.get_os(name).is_none()) {
            prepared.env(name, value);
        }
        leave_interrupts_to_it().map_err(|source| SpawnError::Program { program: program(), source })?;
        let mut child = prepared.spawn().map_err(|source| SpawnError::Program { program: program(), source })?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }
}

/// Once a handler was installed, the signal does not end this process.
fn leave_interrupts_to_it() -> io::Result<()> {
    let install = || tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map(drop);
    if tokio::runtime::Handle::try_current().is_ok() {
        // A runtime must not be dropped within another one.
        return install();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    install()
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input.as_mut().map_or(Err(io::ErrorKind::BrokenPipe.into()), |input| input.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        drop(self.input.take());
        // However it ends, it has shown what it was given.
        let _ = self.child.wait();
    }
}
