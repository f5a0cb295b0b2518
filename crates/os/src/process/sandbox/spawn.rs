//! Starts a command in its sandbox.

use std::ffi::OsString;
use std::io;
use std::process::Child;

use super::bounds::{Availability, DEVICES, NotStarted, Sandbox, Wall};
use super::{bubblewrap, filter, landlock, privileges, trusted_paths};
use crate::process::limits::LimitedCommand;

/// The features of this machine.
pub fn available() -> Availability {
    Availability { landlock_abi: landlock::abi(), bubblewrap: bubblewrap::find(), filters: filter::available() }
}

/// Starts a command in a sandbox. `prepare` builds the process from a program and its arguments.
pub(in crate::process) fn spawn(
    sandbox: &Sandbox,
    argv: &[OsString],
    prepare: impl FnOnce(&[OsString]) -> io::Result<LimitedCommand> + Send,
) -> Result<Child, NotStarted> {
    match sandbox.by.wall(&sandbox.connect) {
        Some(Wall::Landlock(abi)) => landlock::spawn(&trusted_paths::only(sandbox, &DEVICES), abi, || prepare(argv)),
        Some(Wall::Bubblewrap(program)) => {
            // bubblewrap creates its own devices.
            let sandbox = &trusted_paths::only(sandbox, &[]);
            // It applies the filter itself, because it must create namespaces before.
            let filter = sandbox.by.filters.then(|| filter::file(sandbox.limits_connections())).transpose();
            let filter = filter.map_err(NotStarted::Unbound)?;
            let masks = bubblewrap::masks(&sandbox.hide);
            let kept = privileges::kept();
            let argv = bubblewrap::argv(program, sandbox, &masks, kept.as_deref(), filter.as_ref(), argv);
            let child = prepare(&argv).and_then(|mut command| command.spawn());
            child.map_err(NotStarted::Unbound)
        }
        None => {
            let why = "the system has neither Landlock nor bubblewrap";
            Err(NotStarted::Unbound(io::Error::new(io::ErrorKind::Unsupported, why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_be_bound_is_not_started() {
        let started = spawn(&Sandbox::default(), &["true".into()], |_| panic!("nothing is started"));
        assert!(matches!(started, Err(NotStarted::Unbound(_))), "{started:?}");
    }
}
