//! Enforces a sandbox with the program bubblewrap, which gives a command its own view of the file system.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use super::bounds::{Connect, Sandbox};
use super::{hide, privileges};
use crate::process::{Blocking, run_blocking};

/// Where the program may be. `PATH` is not searched, because a repository can influence it.
const PLACES: [&str; 5] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/wrappers/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

pub(super) fn find() -> Option<PathBuf> {
    PLACES.into_iter().map(PathBuf::from).find(|place| place.is_file())
}

/// Tries the program: not every system lets every user create namespaces.
pub fn works(program: &Path) -> Result<(), String> {
    let words = argv(program, &Sandbox::default(), &[], privileges::kept().as_deref(), None, &["true".into()]);
    let (program, args) = words.split_first().expect("the program itself comes first");
    let command =
        Blocking { program: program.clone(), args: args.to_vec(), cwd: PathBuf::from("/"), ..Blocking::default() };
    let output = run_blocking(&command).map_err(|error| error.to_string())?;
    if output.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// A mount over a hidden path. The path contains no links.
#[derive(Debug)]
pub(super) enum Mask {
    /// An empty directory.
    Directory(PathBuf),
    /// An empty file.
    File(PathBuf),
}

impl Mask {
    fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::File(path) => path,
        }
    }
}

/// The mounts that hide these paths. A path that does not exist cannot be mounted over.
pub(super) fn masks(hide: &[PathBuf]) -> Vec<Mask> {
    let there = hide::real(hide).into_iter().filter_map(|path| {
        if path.symlink_metadata().ok()?.is_dir() { Some(Mask::Directory(path)) } else { Some(Mask::File(path)) }
    });
    there.collect()
}

/// The command line that runs `argv` in the sandbox. Later mounts cover earlier ones. bubblewrap cannot allow adding
/// files without allowing their removal, so nothing is added to a repository. `masks` cover the hidden paths. `kept`
/// are the remaining capabilities, if there are any to drop; `filter` is the filter for the command's system calls.
pub(super) fn argv(
    program: &Path,
    sandbox: &Sandbox,
    masks: &[Mask],
    kept: Option<&[&str]>,
    filter: Option<&File>,
    argv: &[OsString],
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.into()];
    if let Some(kept) = kept {
        words.extend(["--cap-drop", "ALL"].map(OsString::from));
        words.extend(kept.iter().flat_map(|name| ["--cap-add", name]).map(OsString::from));
    }
    // It sees only its own processes, so it cannot signal others.
    words.extend(["--die-with-parent", "--unshare-pid"].map(OsString::from));
    if matches!(&sandbox.connect, Connect::Ports(ports) if ports.is_empty()) {
        words.push("--unshare-net".into());
    }
    if let Some(filter) = filter {
        words.extend(["--seccomp".into(), filter.as_raw_fd().to_string().into()]);
    }
    let mut bind = |how: &str, path: &Path| words.extend([how.into(), path.into(), path.into()]);
    match &sandbox.read {
        None => bind("--ro-bind", Path::new("/")),
        Some(read) => read.iter().chain(&sandbox.show).chain(&sandbox.add).for_each(|path| bind("--ro-bind-try", path)),
    }
    words.extend(["--dev", "/dev", "--proc", "/proc"].map(OsString::from));
    let mut bind = |how: &str, path: &Path| words.extend([how.into(), path.into(), path.into()]);
    sandbox.write.iter().for_each(|path| bind("--bind-try", path));
    for mask in masks {
        match mask {
            Mask::Directory(path) => words.extend(["--tmpfs".into(), path.into()]),
            Mask::File(path) => words.extend(["--ro-bind".into(), "/dev/null".into(), path.into()]),
        }
    }
    // Paths inside hidden ones, and its own.
    let is_masked = |path: &&PathBuf| {
        let real = hide::real(std::slice::from_ref(*path));
        masks.iter().any(|mask| real.iter().any(|path| path.starts_with(mask.path())))
    };
    let mut bind = |how: &str, path: &Path| words.extend([how.into(), path.into(), path.into()]);
    sandbox.show.iter().chain(&sandbox.add).filter(is_masked).for_each(|path| bind("--ro-bind-try", path));
    sandbox.write.iter().filter(is_masked).for_each(|path| bind("--bind-try", path));
    // A key must not seem to have been written.
    for mask in masks {
        if let Mask::Directory(path) = mask {
            words.extend(["--remount-ro".into(), path.into()]);
        }
    }
    words.push("--".into());
    words.extend_from_slice(argv);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_paths_are_mounted_over_hidden_ones() {
        let sandbox = Sandbox {
            write: vec!["/s/pleach/w".into(), "/t".into()],
            show: vec!["/s/pleach/run".into(), "/r".into()],
            ..Sandbox::default()
        };
        let masks = [Mask::Directory("/s/pleach".into()), Mask::File("/h/.netrc".into())];
        let words = argv(Path::new("bwrap"), &sandbox, &masks, None, None, &["ls".into()]);
        let line = words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ");
        assert_eq!(
            line,
            "bwrap --die-with-parent --unshare-pid --ro-bind / / --dev /dev --proc /proc \
             --bind-try /s/pleach/w /s/pleach/w --bind-try /t /t --tmpfs /s/pleach --ro-bind /dev/null /h/.netrc \
             --ro-bind-try /s/pleach/run /s/pleach/run --bind-try /s/pleach/w /s/pleach/w --remount-ro /s/pleach -- ls"
        );
    }

    #[test]
    fn writable_paths_are_mounted_over_readable_ones() {
        let line = |sandbox: &Sandbox, kept: Option<&[&str]>| {
            let words =
                argv(Path::new("/usr/bin/bwrap"), sandbox, &[], kept, None, &["sh".into(), "-c".into(), "ls".into()]);
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let open = Sandbox { write: vec!["/w".into(), "/t".into()], add: vec!["/g".into()], ..Sandbox::default() };
        assert_eq!(
            line(&open, None),
            "/usr/bin/bwrap --die-with-parent --unshare-pid --ro-bind / / --dev /dev --proc /proc \
             --bind-try /w /w --bind-try /t /t -- sh -c ls"
        );
        let closed = Sandbox { read: Some(vec!["/usr".into()]), connect: Connect::Ports(Vec::new()), ..open };
        assert_eq!(
            line(&closed, None),
            "/usr/bin/bwrap --die-with-parent --unshare-pid --unshare-net --ro-bind-try /usr /usr \
             --ro-bind-try /g /g --dev /dev --proc /proc --bind-try /w /w --bind-try /t /t -- sh -c ls"
        );
        let root = line(&Sandbox::default(), Some(&["CAP_CHOWN", "CAP_KILL"]));
        assert!(
            root.starts_with("/usr/bin/bwrap --cap-drop ALL --cap-add CAP_CHOWN --cap-add CAP_KILL --die-with-parent"),
            "{root}"
        );
    }
}
