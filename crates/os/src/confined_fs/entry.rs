//! Looking at, opening and making one entry of an open directory, never through a link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, chmodat, openat, statat};
use rustix::io::Errno;

/// How many directories are open at once, one in the other. What lies deeper is moved up before it is removed.
pub(super) const DEEPEST: usize = 48;

/// How often another name is tried when one is taken.
pub(super) const TRIES: u32 = 16;

/// Opens a directory that nobody but pleach can put something else in the place of.
pub(super) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

/// What a thing is, in words.
pub fn describe_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of no known kind",
    }
}

pub(super) fn not_a_file(kind: FileType) -> io::Error {
    io::Error::other(format!("it is {}, not a file", describe_kind(kind)))
}

pub(super) fn kind_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileType>> {
    Ok(stat_at(dir, name)?.map(|(kind, _)| kind))
}

pub(super) fn stat_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<(FileType, u64)>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some((FileType::from_raw_mode(found.st_mode), u64::try_from(found.st_size).unwrap_or(0)))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn open_directory(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// A new file in a directory, under a name of its own.
pub(super) fn create_beside(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<(File, OsString)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut tries = TRIES;
    loop {
        let mut beside = name.to_owned();
        beside.push(format!(".{:08x}", fastrand::u32(..)));
        tries -= 1;
        match openat(dir, &beside, flags, Mode::from_raw_mode(0o666)) {
            Err(Errno::EXIST) if tries > 0 => {}
            file => return Ok((File::from(file?), beside)),
        }
    }
}

pub(super) fn entries(dir: BorrowedFd<'_>) -> io::Result<Vec<(OsString, FileType)>> {
    let mut all = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_at(dir, name)?.unwrap_or(FileType::Unknown),
            kind => kind,
        };
        all.push((name.to_owned(), kind));
    }
    Ok(all)
}

pub(super) fn unlock_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<(Option<FileType>, bool)> {
    let found = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok((None, false)),
        found => found?.st_mode,
    };
    let kind = FileType::from_raw_mode(found);
    let wanted = match kind {
        FileType::Directory => 0o700,
        FileType::RegularFile => 0o600,
        _ => return Ok((Some(kind), false)),
    };
    if found & wanted == wanted {
        return Ok((Some(kind), false));
    }
    // It is known to be no link, and whoever could put one there is gone.
    match chmodat(dir, name, Mode::from_raw_mode(found | wanted), AtFlags::empty()) {
        // It is somebody else's.
        Err(Errno::PERM | Errno::NOENT) => Ok((Some(kind), false)),
        changed => changed.map(|()| (Some(kind), true)).map_err(io::Error::from),
    }
}
