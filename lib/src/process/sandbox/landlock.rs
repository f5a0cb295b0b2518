//! Bounds by the kernel, for a thread and all it starts.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::process::{Child, Command};

use super::{NotStarted, Sandbox};

/// The version of the kernel's Landlock, if it is there and switched on.
#[cfg(target_os = "linux")]
pub(super) fn abi() -> Option<u32> {
    use landlock::{ABI, RestrictSelf};
    // Nothing is asked for, so nothing is restricted.
    let status = RestrictSelf::default().no_new_privs(false).apply().ok()?;
    let abi = ABI::from(status.landlock);
    (abi != ABI::Unsupported).then_some(abi as u32)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn abi() -> Option<u32> {
    None
}

/// Starts a command in a thread that is bound, and ends with it; this one stays free.
pub(super) fn spawn(
    sandbox: &Sandbox,
    abi: u32,
    prepare: impl FnOnce() -> io::Result<Command> + Send,
) -> Result<Child, NotStarted> {
    let bound = || {
        let mut command = prepare().map_err(NotStarted::Program)?;
        restrict(sandbox, abi).map_err(NotStarted::Unbound)?;
        #[cfg(target_os = "linux")]
        super::privileges::give_up().map_err(NotStarted::Unbound)?;
        if sandbox.by.filters {
            super::filter::apply(sandbox.limits_connections()).map_err(NotStarted::Unbound)?;
        }
        command.spawn().map_err(NotStarted::Program)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("bound".into()).spawn_scoped(scope, bound);
        let thread = thread.map_err(NotStarted::Unbound)?;
        thread.join().unwrap_or_else(|_| Err(NotStarted::Unbound(io::Error::other("the thread broke"))))
    })
}

/// Binds this thread.
#[cfg(target_os = "linux")]
fn restrict(sandbox: &Sandbox, abi: u32) -> io::Result<()> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
    };

    use super::{Connect, DEVICES, SIGNALS};

    let failed = |error: landlock::RulesetError| io::Error::other(format!("Landlock refuses: {error}"));
    let version = i32::try_from(abi).map_or(ABI::Unsupported, ABI::from);
    // Later versions know rights to talk to sockets.
    let writing = AccessFs::from_write(version.min(ABI::V5));
    let reading = if sandbox.read.is_some() { AccessFs::from_read(version) } else { Default::default() };
    // Who could make devices could write to the disk below the files.
    let write = reading | (writing & !make_bitflags!(AccessFs::{MakeBlock | MakeChar}));
    let add = reading | make_bitflags!(AccessFs::{WriteFile | MakeReg});

    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(writing | reading)
        .map_err(failed)?;
    let ports = match &sandbox.connect {
        Connect::Ports(ports) if sandbox.limits_connections() => {
            ruleset = ruleset.handle_access(AccessNet::ConnectTcp).map_err(failed)?;
            ports.as_slice()
        }
        _ => &[],
    };
    if abi >= SIGNALS {
        ruleset = ruleset.scope(Scope::from_all(version)).map_err(failed)?;
    }
    let mut ruleset = ruleset
        .create()
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(DEVICES, write)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(&sandbox.write, write)))
        .map_err(failed)?;
    for objects in &sandbox.add {
        for fan in fans(objects)? {
            ruleset = ruleset.add_rule(PathBeneath::new(fan, add)).map_err(failed)?;
        }
    }
    if let Some(read) = &sandbox.read {
        let read = read.iter().chain(&sandbox.add);
        ruleset = ruleset.add_rules(path_beneath_rules(read, reading)).map_err(failed)?;
    }
    for port in ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(failed)?;
    }
    match ruleset.restrict_self().map_err(failed)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(io::Error::other(format!("Landlock is not in force: {other:?}"))),
    }
}

/// The directories single objects lie in, by the first byte of their ids, made where they are missing. Beside them lies
/// what git believes of all objects: packs, their indices, and where else there are objects.
#[cfg(target_os = "linux")]
fn fans(objects: &Path) -> io::Result<Vec<OwnedFd>> {
    use rustix::fs::{AtFlags, Mode, OFlags, chmodat, fstat, mkdirat, open, openat};
    use rustix::io::Errno;

    const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    // How often git may remove one, as it does with those that are empty, before it can be opened.
    const TRIES: usize = 100;
    let objects = open(objects, FLAGS, Mode::empty())?;
    // Those who share the repository share these as well.
    let mode = Mode::from_raw_mode(fstat(&objects)?.st_mode);
    let fan = |first: u8| {
        let name = format!("{first:02x}");
        for _ in 0..TRIES {
            match openat(&objects, &name, FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) => {}
                found => return found,
            }
            match mkdirat(&objects, &name, Mode::RWXU).and_then(|()| chmodat(&objects, &name, mode, AtFlags::empty())) {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::NOENT)
    };
    Ok((0..=u8::MAX).map(fan).collect::<Result<_, _>>()?)
}

#[cfg(not(target_os = "linux"))]
fn restrict(_sandbox: &Sandbox, _abi: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
