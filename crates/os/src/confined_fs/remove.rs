//! Removing by open directories, never by a path: what lies deeper than any path is long goes as well, and no link leads
//! out of it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, fchmod, fstat, renameat, unlinkat};
use rustix::io::Errno;

use super::entry::{DEEPEST, TRIES, entries, kind_at, open_directory, open_root};

/// Removes a file, a link or a directory with all in it, also where directories were made read-only and where it is
/// deeper than any path is long. What is not there is no error.
pub fn remove_all(place: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match open_root(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        above => remove_at(above?.as_fd(), name),
    }
}

pub(super) fn remove_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let removed = match kind_at(dir, name)? {
        None => return Ok(()),
        Some(FileType::Directory) => {
            empty(dir, name)?;
            return unlink(dir, name, AtFlags::REMOVEDIR);
        }
        Some(_) => unlinkat(dir, name, AtFlags::empty()),
    };
    match removed {
        Err(Errno::ACCESS | Errno::PERM) => {
            make_writable(dir);
            unlink(dir, name, AtFlags::empty())
        }
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn unlink(dir: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> io::Result<()> {
    match unlinkat(dir, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Best effort: what stays unwritable shows when something in it is removed.
fn make_writable(dir: BorrowedFd<'_>) {
    if let Ok(found) = fstat(dir)
        && found.st_mode & 0o700 != 0o700
    {
        let _ = fchmod(dir, Mode::from_raw_mode(found.st_mode | 0o700));
    }
}

/// Opens a directory whose content is to go.
fn open_to_empty(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let opened = match open_directory(dir, name) {
        Err(Errno::ACCESS) => {
            // It is known to be a directory, and whoever could put a link there is gone.
            rustix::fs::chmodat(dir, name, Mode::from_raw_mode(0o700), AtFlags::empty())?;
            open_directory(dir, name)?
        }
        opened => opened?,
    };
    make_writable(opened.as_fd());
    Ok(opened)
}

/// Removes all that is in a directory. What lies very deep is moved to its top, and goes in another round.
fn empty(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let top = open_to_empty(dir, name)?;
    while !entries(top.as_fd())?.is_empty() {
        empty_below(top.as_fd(), top.as_fd(), 0)?;
    }
    Ok(())
}

fn empty_below(dir: BorrowedFd<'_>, top: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
    for (name, kind) in entries(dir)? {
        if kind != FileType::Directory {
            unlink(dir, &name, AtFlags::empty())?;
            continue;
        }
        let below = open_to_empty(dir, &name)?;
        if depth == DEEPEST {
            lift(dir, &name, top)?;
            continue;
        }
        empty_below(below.as_fd(), top, depth + 1)?;
        unlink(dir, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Moves a directory to the top of the tree that goes.
fn lift(dir: BorrowedFd<'_>, name: &OsStr, top: BorrowedFd<'_>) -> io::Result<()> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match renameat(dir, name, top, format!("{:016x}", fastrand::u64(..))) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) if tries > 0 => {}
            moved => return Ok(moved?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::mkdirat;

    use super::*;
    use crate::confined_fs::entry::create_beside;

    #[test]
    fn a_deep_read_only_tree_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = open_root(dir.path()).unwrap();
        let mut at = root.try_clone().unwrap();
        let name = OsStr::new("dddddddddddddddddddd");
        for depth in 0..400 {
            mkdirat(&at, name, Mode::from_raw_mode(0o700)).unwrap();
            let below = open_directory(at.as_fd(), name).unwrap();
            drop(create_beside(below.as_fd(), name).unwrap());
            if depth % 7 == 3 {
                fchmod(&at, Mode::from_raw_mode(0o500)).unwrap();
            }
            at = below;
        }
        fs::create_dir(dir.path().join("shut")).unwrap();
        fs::set_permissions(dir.path().join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_all(&dir.path().join(name)).unwrap();
        remove_all(&dir.path().join("shut")).unwrap();
        remove_all(&dir.path().join("none/none")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
