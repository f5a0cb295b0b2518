//! A directory below which nothing is reached by a link.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::entry::{
    DEEPEST, create_beside, describe_kind, entries, kind_at, not_a_file, open_directory, open_root, stat_at, unlock_at,
};
use super::remove::{remove_at, unlink};

/// What is left free where a file is read at once: with less, the end of it is looked for a few bytes at a time.
const READ_PROBE: usize = 64;

/// What a file of one line, or a few, has at most.
pub const FEW_LINES: u64 = 64 * 1024;

/// A directory below which nothing is reached by a link.
#[derive(Debug)]
pub struct ConfinedDir {
    root: OwnedFd,
}

impl ConfinedDir {
    /// Opens a directory that nobody but pleach can put something else in the place of.
    pub fn at(root: &Path) -> io::Result<Self> {
        Ok(Self { root: open_root(root)? })
    }

    /// The type of the entry at a path; none if it does not exist, or a parent is not a directory.
    pub fn kind(&self, inside: impl AsRef<Path>) -> io::Result<Option<FileType>> {
        Ok(self.look(inside)?.map(|(kind, _)| kind))
    }

    /// What is there, and how large it is; none if there is nothing.
    pub fn look(&self, inside: impl AsRef<Path>) -> io::Result<Option<(FileType, u64)>> {
        let Some((dir, name)) = self.open_parent(inside.as_ref(), false)? else { return Ok(None) };
        stat_at(dir.as_fd(), name)
    }

    /// Opens a regular file to read; none if there is nothing. Anything else is an error that says what it is.
    pub fn open(&self, inside: impl AsRef<Path>) -> io::Result<Option<File>> {
        Ok(self.open_sized(inside.as_ref())?.map(|(file, _)| file))
    }

    /// The same with how long it is.
    fn open_sized(&self, inside: &Path) -> io::Result<Option<(File, u64)>> {
        let Some((dir, name)) = self.open_parent(inside, false)? else { return Ok(None) };
        // What could be opened with an effect, or make the opener wait, is not even opened.
        match kind_at(dir.as_fd(), name)? {
            None => return Ok(None),
            Some(FileType::RegularFile) => {}
            Some(other) => return Err(not_a_file(other)),
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file?),
        };
        let found = fstat(&file)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(Some((file, u64::try_from(found.st_size).unwrap_or(0)))),
            other => Err(not_a_file(other)),
        }
    }

    /// The content of a regular file of at most `limit` bytes; none if there is nothing.
    pub fn read(&self, inside: impl AsRef<Path>, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((file, size)) = self.open_sized(inside.as_ref())? else { return Ok(None) };
        // Room for all of it at once, and to see that there is no more.
        let room = usize::try_from(size.min(limit)).unwrap_or(0).saturating_add(READ_PROBE);
        let mut bytes = Vec::with_capacity(room);
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            Err(io::Error::other(format!("it is larger than {limit} bytes")))
        } else {
            Ok(Some(bytes))
        }
    }

    /// Writes a file, replacing a file, link or pipe, with the directories it needs. A link among its parents is an error.
    pub fn write(&self, inside: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let Some((dir, name)) = self.open_parent(inside.as_ref(), true)? else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let (mut file, beside) = create_beside(dir.as_fd(), name)?;
        let written = file.write_all(bytes).and_then(|()| Ok(renameat(&dir, &beside, &dir, name)?));
        if written.is_err() {
            let _ = unlinkat(&dir, &beside, AtFlags::empty());
        }
        written
    }

    /// The same where no other file may be beside it, not even for a moment: one who is killed meanwhile leaves it short, or
    /// gone. A file that is there stays the same file, if this is its only name.
    pub fn put(&self, inside: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let Some((dir, name)) = self.open_parent(inside.as_ref(), true)? else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let how = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            found => Some(found?),
        };
        let is_own = found.is_some_and(|found| found.st_mode & 0o170_000 == 0o100_000 && found.st_nlink == 1);
        let file = if is_own {
            openat(&dir, name, how | OFlags::TRUNC, Mode::empty())?
        } else {
            unlink(dir.as_fd(), name, AtFlags::empty())?;
            openat(&dir, name, how | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666))?
        };
        File::from(file).write_all(bytes)
    }

    /// Removes what is at a path, a directory with all in it. What is not there, or behind a link, is no error.
    pub fn remove(&self, inside: impl AsRef<Path>) -> io::Result<()> {
        match self.open_parent(inside.as_ref(), false)? {
            Some((dir, name)) => remove_at(dir.as_fd(), name),
            None => Ok(()),
        }
    }

    /// Removes a directory that is empty; whether it was.
    pub fn remove_empty(&self, inside: impl AsRef<Path>) -> io::Result<bool> {
        let Some((dir, name)) = self.open_parent(inside.as_ref(), false)? else { return Ok(false) };
        Ok(unlinkat(&dir, name, AtFlags::REMOVEDIR).is_ok())
    }

    /// Makes a directory, and those it needs.
    pub fn make_directory(&self, inside: impl AsRef<Path>) -> io::Result<()> {
        match self.open_parent(&inside.as_ref().join("x"), true)? {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Makes a link in a place where nothing is, with the directories it needs. What is there stays.
    pub fn link(&self, inside: impl AsRef<Path>, target: &Path) -> io::Result<()> {
        let Some((dir, name)) = self.open_parent(inside.as_ref(), true)? else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        match symlinkat(target, &dir, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The names of all that lies directly in it.
    pub fn names(&self) -> io::Result<BTreeSet<OsString>> {
        Ok(entries(self.root.as_fd())?.into_iter().map(|(name, _)| name).collect())
    }

    /// All below that is no directory, and the directories that cannot be read or lie below too many others, with what each
    /// is. Those in the root that are in `except` are left out with all in them.
    pub fn list(&self, except: &[&str]) -> io::Result<Vec<(PathBuf, FileType)>> {
        let mut all = Vec::new();
        let mut waiting = vec![(ParentDir::Root(self.root.as_fd()), PathBuf::new(), 0)];
        while let Some((holder, path, depth)) = waiting.pop() {
            let dir = holder.as_fd();
            for (name, kind) in entries(dir)? {
                let inside = path.join(&name);
                if kind != FileType::Directory || depth == DEEPEST {
                    all.push((inside, kind));
                } else if !except.iter().any(|except| inside == Path::new(except)) {
                    match open_directory(dir, &name) {
                        Ok(below) => waiting.push((ParentDir::Below(below), inside, depth + 1)),
                        Err(Errno::NOENT) => {}
                        Err(Errno::ACCESS) => all.push((inside, kind)),
                        Err(errno) => return Err(errno.into()),
                    }
                }
            }
        }
        Ok(all)
    }

    /// What there is at a path, as [`ConfinedDir::kind`]. A file or a directory gives back the right to read and write it to
    /// whoever it belongs to: whether that was taken away.
    pub fn unlock(&self, inside: impl AsRef<Path>) -> io::Result<(Option<FileType>, bool)> {
        match self.open_parent(inside.as_ref(), false)? {
            Some((dir, name)) => unlock_at(dir.as_fd(), name),
            None => Ok((None, false)),
        }
    }

    /// The directory of a path, open, and the name in it. None if there is no such directory, unless it is to be made.
    fn open_parent<'a>(&'a self, inside: &'a Path, make: bool) -> io::Result<Option<(ParentDir<'a>, &'a OsStr)>> {
        let mut names = Vec::new();
        for part in inside.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path leaves the directory")),
            }
        }
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut dir = ParentDir::Root(self.root.as_fd());
        for part in names {
            if make {
                match mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            dir = match open_directory(dir.as_fd(), part) {
                Ok(dir) => ParentDir::Below(dir),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !make => return Ok(None),
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let kind = kind_at(dir.as_fd(), part)?.unwrap_or(FileType::Unknown);
                    let part = part.to_string_lossy();
                    return Err(io::Error::other(format!(
                        "`{part}` in the path is {}, not a directory",
                        describe_kind(kind)
                    )));
                }
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(Some((dir, name)))
    }
}

/// The directory something lies in, open.
enum ParentDir<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for ParentDir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Below(dir) => dir.as_fd(),
        }
    }
}

/// The content of a file whose directory nobody but pleach can put something else in the place of, as [`ConfinedDir::read`].
pub fn read(place: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let (Some(above), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match ConfinedDir::at(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        above => above?.read(name, limit),
    }
}

/// The same as [`ConfinedDir::unlock`] for a file or directory in a directory nobody but pleach can put something else in the
/// place of.
pub fn unlock(place: &Path) -> io::Result<bool> {
    let (Some(above), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match ConfinedDir::at(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        above => Ok(unlock_at(above?.root.as_fd(), name)?.1),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn pipe(at: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    #[test]
    fn permissions_are_restored_without_following_links() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str| dir.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
        let shut = |name: &str| fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o040)).unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("f"), "").unwrap();
        symlink("f", dir.path().join("link")).unwrap();
        ["d", "f"].into_iter().for_each(shut);
        let confined = ConfinedDir::at(dir.path()).unwrap();
        let (file, directory) = (Some(FileType::RegularFile), Some(FileType::Directory));
        assert_eq!(confined.unlock("link").unwrap(), (Some(FileType::Symlink), false));
        assert_eq!(confined.unlock("none").unwrap(), (None, false));
        assert_eq!((mode("d"), mode("f")), (0o040, 0o040));
        assert_eq!(confined.unlock("d").unwrap(), (directory, true));
        assert!(unlock(&dir.path().join("f")).unwrap());
        assert_eq!((mode("d"), mode("f")), (0o740, 0o640));
        assert_eq!(confined.unlock("d").unwrap(), (directory, false), "once");
        assert_eq!(confined.unlock("f").unwrap(), (file, false));
    }

    #[test]
    fn writing_replaces_a_link_or_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (root, mine) = (dir.path().join("root"), dir.path().join("mine"));
        fs::create_dir(&root).unwrap();
        fs::write(&mine, "mine").unwrap();
        symlink(&mine, root.join("link")).unwrap();
        pipe(&root.join("pipe"));
        let confined = ConfinedDir::at(&root).unwrap();
        for name in ["link", "pipe", "new", "a/b/c"] {
            confined.write(name, b"ours").unwrap();
            assert_eq!(confined.read(name, 100).unwrap().unwrap(), b"ours");
        }
        for name in ["link", "pipe", "new"] {
            fs::remove_file(root.join(name)).unwrap();
        }
        symlink(&mine, root.join("link")).unwrap();
        fs::hard_link(&mine, root.join("new")).unwrap();
        pipe(&root.join("pipe"));
        for name in ["link", "pipe", "new", "a/b/c"] {
            confined.put(name, b"o").unwrap();
            assert_eq!(confined.read(name, 100).unwrap().unwrap(), b"o");
        }
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 4, "nothing is left beside");
    }

    #[test]
    fn no_link_is_followed_and_no_pipe_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let (root, out) = (dir.path().join("root"), dir.path().join("out"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("f"), "mine").unwrap();
        symlink(&out, root.join("way")).unwrap();
        symlink(out.join("f"), root.join("link")).unwrap();
        pipe(&root.join("pipe"));
        fs::write(root.join("long"), "12345").unwrap();
        let confined = ConfinedDir::at(&root).unwrap();
        assert!(confined.read("way/f", 100).unwrap().is_none() && confined.kind("way/f").unwrap().is_none());
        confined.remove("way/f").unwrap();
        assert!(confined.write("way/g", b"x").unwrap_err().to_string().contains("`way` in the path is a link"));
        assert!(confined.link("way/g", &out).unwrap_err().to_string().contains("`way` in the path is a link"));
        assert!(confined.read("link", 100).unwrap_err().to_string().contains("it is a link"));
        assert!(confined.read("pipe", 100).unwrap_err().to_string().contains("it is a named pipe"));
        assert!(confined.read("long", 4).is_err() && confined.read("long", 5).unwrap().is_some());
        assert!(confined.read("../out/f", 100).is_err() && confined.read(out.join("f"), 100).is_err());
        for name in ["way", "link", "pipe", "none"] {
            confined.remove(name).unwrap();
        }
        assert_eq!(fs::read_to_string(out.join("f")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    }
}
