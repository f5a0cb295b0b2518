//! Enforces a sandbox with Landlock, for a thread and its children.

#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::ffi::{OsStr, OsString};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::process::Child;

use super::bounds::{NotStarted, Sandbox};
use crate::process::limits::LimitedCommand;

/// The version of the kernel's Landlock, if it is present and enabled.
#[cfg(target_os = "linux")]
pub(super) fn abi() -> Option<u32> {
    use landlock::{ABI, RestrictSelf};
    // Nothing is requested, so nothing is restricted.
    let status = RestrictSelf::default().no_new_privs(false).apply().ok()?;
    let abi = ABI::from(status.landlock);
    (abi != ABI::Unsupported).then_some(abi as u32)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn abi() -> Option<u32> {
    None
}

/// Starts a command in a restricted thread that then ends; the current thread stays unrestricted.
pub(super) fn spawn(
    sandbox: &Sandbox,
    abi: u32,
    prepare: impl FnOnce() -> io::Result<LimitedCommand> + Send,
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

/// Restricts this thread.
#[cfg(target_os = "linux")]
fn restrict(sandbox: &Sandbox, abi: u32) -> io::Result<()> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset,
        RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
    };

    use super::bounds::{Connect, DEVICES, SIGNALS};
    use super::hide::{self, HiddenRelation};

    let failed = |error: landlock::RulesetError| io::Error::other(format!("Landlock refuses: {error}"));
    let version = i32::try_from(abi).map_or(ABI::Unsupported, ABI::from);
    // Later versions have rights for sockets.
    let writing = AccessFs::from_write(version.min(ABI::V5));
    let hidden = hide::real(&sandbox.hide);
    // With hidden paths but otherwise unrestricted reading, directories stay listable: there is no right to list a
    // directory but not its subdirectories, and programs list every directory above their own.
    let reading = match &sandbox.read {
        Some(_) => AccessFs::from_read(version),
        None if hidden.is_empty() => Default::default(),
        None => make_bitflags!(AccessFs::{ReadFile}),
    };
    let content = reading & make_bitflags!(AccessFs::{ReadFile});
    // Creating devices would allow writing to the disk below the files.
    let write = reading | (writing & !make_bitflags!(AccessFs::{MakeBlock | MakeChar}));
    let adding = reading | make_bitflags!(AccessFs::{WriteFile | MakeReg});
    let add = |ruleset: &mut RulesetCreated, file: OwnedFd, rights: BitFlags<AccessFs>| {
        ruleset.add_rule(PathBeneath::new(file, rights)).map(drop).map_err(failed)
    };

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
    let mut ruleset =
        ruleset.create().and_then(|ruleset| ruleset.add_rules(path_beneath_rules(DEVICES, write))).map_err(failed)?;
    for path in &sandbox.write {
        let around = !hidden.is_empty()
            && path.canonicalize().is_ok_and(|path| HiddenRelation::of(&path, &hidden) == HiddenRelation::Around);
        let rights = if around { write & !content } else { write };
        ruleset = ruleset.add_rules(path_beneath_rules([path], rights)).map_err(failed)?;
        if around {
            beside(path, &hidden, &mut |file| add(&mut ruleset, file, content))?;
        }
    }
    for objects in &sandbox.add {
        for fan in fans(objects)? {
            add(&mut ruleset, fan?, adding)?;
        }
    }
    if !reading.is_empty() {
        let everything = [PathBuf::from("/")];
        for path in sandbox.read.as_deref().unwrap_or(&everything) {
            let rest = reading & !content;
            if !rest.is_empty() {
                ruleset = ruleset.add_rules(path_beneath_rules([path], rest)).map_err(failed)?;
            }
            beside(path, &hidden, &mut |file| add(&mut ruleset, file, content))?;
        }
        let own = sandbox.show.iter().chain(&sandbox.add);
        ruleset = ruleset.add_rules(path_beneath_rules(own, reading)).map_err(failed)?;
    }
    for port in ports {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(failed)?;
    }
    match ruleset.restrict_self().map_err(failed)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(io::Error::other(format!("Landlock is not in force: {other:?}"))),
    }
}

/// Grants everything in a directory except the hidden paths, without following links, whose targets have their own
/// location. Directories that cannot be listed are not granted, and so not readable.
#[cfg(target_os = "linux")]
fn beside(root: &Path, hidden: &[PathBuf], give: &mut dyn FnMut(OwnedFd) -> io::Result<()>) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, open};

    let Ok(root) = root.canonicalize() else { return Ok(()) };
    if hidden.iter().any(|hidden| root.starts_with(hidden)) {
        return Ok(());
    }
    let below: Vec<&Path> = hidden.iter().filter_map(|hidden| hidden.strip_prefix(&root).ok()).collect();
    match open(&root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => walk(file, &below, give),
        Err(_) => Ok(()),
    }
}

/// Like [`beside`], for a file or a directory that contains these hidden paths.
#[cfg(target_os = "linux")]
fn walk(file: OwnedFd, hidden: &[&Path], give: &mut dyn FnMut(OwnedFd) -> io::Result<()>) -> io::Result<()> {
    use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
    use rustix::io::Errno;

    // A disk that has gone away does not matter.
    let Ok(stat) = fstat(&file) else { return Ok(()) };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => return Ok(()),
        FileType::Directory if !hidden.is_empty() => {}
        _ => return give(file),
    }
    let mut leading: BTreeMap<&OsStr, Vec<&Path>> = BTreeMap::new();
    for path in hidden {
        let mut parts = path.components();
        let Some(first) = parts.next() else { continue };
        leading.entry(first.as_os_str()).or_default().push(parts.as_path());
    }
    // In a directory that may be entered but not listed, at least the needed names are known.
    let names = names_in(&file).unwrap_or_else(|_| leading.keys().map(|name| (*name).to_owned()).collect());
    for name in names {
        let below = leading.get(name.as_os_str()).map(Vec::as_slice).unwrap_or_default();
        if below.iter().any(|path| path.as_os_str().is_empty()) {
            continue;
        }
        match openat(&file, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(entry) => walk(entry, below, give)?,
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(error.into()),
            // It is gone by now, or not accessible to this user.
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn names_in(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::fs::{Dir, Mode, OFlags, openat};

    let listed = openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let entries = Dir::new(listed)?.collect::<Result<Vec<_>, _>>()?;
    let names = entries.iter().map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()));
    Ok(names.filter(|name| *name != "." && *name != "..").map(OsStr::to_owned).collect())
}

/// The directories of loose objects, by the first byte of their ids, created if missing. Their siblings are what git
/// trusts about all objects: packs, their indexes, and alternates.
#[cfg(target_os = "linux")]
fn fans(objects: &Path) -> io::Result<impl Iterator<Item = io::Result<OwnedFd>>> {
    use rustix::fs::{AtFlags, Mode, OFlags, chmodat, fstat, mkdirat, open, openat};
    use rustix::io::Errno;

    const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    // How often git may remove an empty one before it can be opened.
    const TRIES: usize = 100;
    let objects = open(objects, FLAGS, Mode::empty())?;
    // Users who share the repository share these as well.
    let mode = Mode::from_raw_mode(fstat(&objects)?.st_mode);
    let fan = move |first: u8| {
        let name = format!("{first:02x}");
        for _ in 0..TRIES {
            match openat(&objects, &name, FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) => {}
                found => return Ok(found?),
            }
            match mkdirat(&objects, &name, Mode::RWXU).and_then(|()| chmodat(&objects, &name, mode, AtFlags::empty())) {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::NOENT.into())
    };
    Ok((0..=u8::MAX).map(fan))
}

#[cfg(not(target_os = "linux"))]
fn restrict(_sandbox: &Sandbox, _abi: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
