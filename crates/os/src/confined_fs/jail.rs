//! The worktree as the only place file tools can reach.
//!
//! Paths are walked one component at a time, each opened relative to the descriptor of its parent and never through a
//! symbolic link; links are read and walked the same way. What was checked is therefore what is used, also when a
//! process swaps a directory for a link meanwhile. Links that stay inside are followed, those that leave are refused.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, readlinkat, unlinkat};
use rustix::io::Errno;

use super::entry::{open_directory, open_root};

/// How files are opened to read; a pipe must not make the reader wait.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Links followed for one path, as the kernel has it.
const MAX_LINKS: usize = 40;

/// Why a path cannot be used. The messages are for the model.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    #[error("`{0}` is outside the working directory; use a path inside it")]
    Outside(String),
    #[error("`{0}` belongs to git and cannot be written")]
    Git(String),
    #[error("`{0}` does not exist")]
    Missing(String),
    #[error("`{0}` is a directory")]
    Directory(String),
    #[error("`{0}` is not a regular file")]
    Special(String),
    #[error("part of the path `{0}` is not a directory")]
    NotDirectory(String),
    #[error("the path is empty")]
    Empty,
    #[error("cannot use `{path}`: {source}")]
    Io { path: String, source: io::Error },
}

/// A directory nothing can leave, one file outside that may be used as well, and a directory outside whose files may be
/// read.
#[derive(Debug)]
pub struct Jail {
    root: OwnedFd,
    /// The root as the agent may spell it: as given, and with all links resolved.
    spellings: Vec<PathBuf>,
    /// Where relative paths start, below the root.
    start: PathBuf,
    extra: Option<PathBuf>,
    reads: Option<PathBuf>,
}

/// Where a walked path ends: a name in an open directory, both free of links.
struct WalkedPath {
    dir: OwnedFd,
    /// Names from the root to `dir`.
    dirs: Vec<OsString>,
    /// None for the root itself.
    name: Option<OsString>,
}

/// A path the tools asked for.
enum RequestedPath {
    /// Below the root, relative to it.
    Inside(PathBuf),
    /// The one file outside.
    Extra(PathBuf),
    /// A file outside that may only be read.
    Read(PathBuf),
}

impl Jail {
    /// `root` as jail, with relative paths starting at `start`, which lies in it; `extra` is allowed besides.
    pub fn new(root: &Path, start: &Path, extra: Option<&Path>) -> io::Result<Self> {
        let real = root.canonicalize()?;
        let outside = || io::Error::other(format!("{} is not inside {}", start.display(), root.display()));
        let below = start.canonicalize()?.strip_prefix(&real).map_err(|_| outside())?.to_path_buf();
        let root_dir = open_root(&real)?;
        let spellings = vec![root.to_path_buf(), real];
        Ok(Self { root: root_dir, spellings, start: below, extra: extra.map(plain), reads: None })
    }

    /// The same with a directory outside, the files directly in which may be read.
    pub fn with_reads(self, reads: Option<&Path>) -> Self {
        Self { reads: reads.map(plain), ..self }
    }

    /// The root with all links resolved.
    pub fn real_root(&self) -> &Path {
        &self.spellings[1]
    }

    /// The directories from the root to where relative paths start, below the root.
    pub fn directories_to_start(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.start.ancestors().map(Path::to_path_buf).collect();
        all.reverse();
        all
    }

    /// A path below the root as the agent would write it.
    pub fn shown(&self, inside: &Path) -> PathBuf {
        if let Ok(rest) = inside.strip_prefix(&self.start) {
            return if rest.as_os_str().is_empty() { PathBuf::from(".") } else { rest.to_path_buf() };
        }
        self.start.components().map(|_| Component::ParentDir).collect::<PathBuf>().join(inside)
    }

    fn asked(&self, path: &str) -> Result<RequestedPath, JailError> {
        let asked = Path::new(path);
        if path.is_empty() {
            return Err(JailError::Empty);
        }
        if asked.is_relative() {
            return Ok(RequestedPath::Inside(self.start.join(asked)));
        }
        if self.extra.as_ref().is_some_and(|extra| *extra == plain(asked)) {
            return Ok(RequestedPath::Extra(plain(asked)));
        }
        if self.reads.is_some() && self.reads.as_deref() == plain(asked).parent() {
            return Ok(RequestedPath::Read(plain(asked)));
        }
        let inside = self.spellings.iter().find_map(|root| asked.strip_prefix(root).ok());
        inside.map(|rest| RequestedPath::Inside(rest.to_path_buf())).ok_or_else(|| JailError::Outside(path.into()))
    }

    /// Opens a file to read.
    pub fn open(&self, path: &str) -> Result<File, JailError> {
        match self.asked(path)? {
            RequestedPath::Inside(inside) => self.open_inside(&inside),
            RequestedPath::Extra(extra) | RequestedPath::Read(extra) => {
                let file = open_extra(&extra, READ, path)?;
                check_regular(&file, path)?;
                Ok(file)
            }
        }
    }

    /// Opens a file to read, by its path below the root.
    pub fn open_inside(&self, inside: &Path) -> Result<File, JailError> {
        let asked = inside.to_string_lossy();
        let file = open_at(&self.walk(inside, &asked, false)?, READ, &asked)?;
        check_regular(&file, &asked)?;
        Ok(file)
    }

    /// The whole content of a file of at most `limit` bytes.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, JailError> {
        let file = self.open(path)?;
        let size = file.metadata().map_err(|source| JailError::Io { path: path.into(), source })?.len();
        if size > limit {
            let source = io::Error::other(format!("it has {size} bytes, more than the {limit} this tool takes"));
            return Err(JailError::Io { path: path.into(), source });
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes).map_err(|source| JailError::Io { path: path.into(), source })?;
        Ok(bytes)
    }

    /// Replaces a file's content, or makes the file and the directories it needs. Says where it really is below the
    /// root (none for the extra file).
    pub fn write(&self, path: &str, content: &[u8]) -> Result<Option<PathBuf>, JailError> {
        let io = |source: io::Error| JailError::Io { path: path.into(), source };
        let inside = match self.asked(path)? {
            RequestedPath::Inside(inside) => inside,
            RequestedPath::Extra(extra) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
                let file = open_extra(&extra, flags, path)?;
                check_regular(&file, path)?;
                overwrite(file, content).map_err(io)?;
                return Ok(None);
            }
            RequestedPath::Read(_) => return Err(JailError::Outside(path.into())),
        };
        let place = self.walk(&inside, path, true)?;
        if place.path().components().any(|part| is_git(part.as_os_str())) {
            return Err(JailError::Git(path.into()));
        }
        let old = match open_at(&place, OFlags::WRONLY | OFlags::NONBLOCK, path) {
            Ok(file) => Some(file),
            Err(JailError::Missing(_)) => None,
            Err(error) => return Err(error),
        };
        let mut kept_mode = None;
        if let Some(file) = old {
            check_regular(&file, path)?;
            let stat = fstat(&file).map_err(|errno| io(errno.into()))?;
            if stat.st_nlink == 1 {
                overwrite(file, content).map_err(io)?;
                return Ok(Some(place.path()));
            }
            // Other names of the same file may lie anywhere: give this name a file of its own.
            kept_mode = Some(Mode::from_raw_mode(stat.st_mode));
            let name = place.name.as_deref().ok_or_else(|| JailError::Directory(path.into()))?;
            unlinkat(&place.dir, name, AtFlags::empty()).map_err(|errno| io(errno.into()))?;
        }
        let file = create_at(&place, kept_mode.unwrap_or(Mode::from_raw_mode(0o666)), path)?;
        if let Some(mode) = kept_mode {
            // The umask is for new files, and this one is not.
            fchmod(&file, mode).map_err(|errno| io(errno.into()))?;
        }
        overwrite(file, content).map_err(io)?;
        Ok(Some(place.path()))
    }

    /// Where a directory or file really is below the root, to walk it.
    pub fn locate(&self, path: &str) -> Result<PathBuf, JailError> {
        match self.asked(path)? {
            RequestedPath::Inside(inside) => {
                let place = self.walk(&inside, path, false)?;
                open_at(&place, READ, path).map(drop).or_else(|error| match error {
                    JailError::Directory(_) => Ok(()),
                    error => Err(error),
                })?;
                Ok(place.path())
            }
            RequestedPath::Extra(_) | RequestedPath::Read(_) => Err(JailError::Outside(path.into())),
        }
    }

    /// Walks to `inside`, making missing directories if `make` says so.
    fn walk(&self, inside: &Path, asked: &str, make: bool) -> Result<WalkedPath, JailError> {
        let io = |errno: Errno| JailError::Io { path: asked.into(), source: errno.into() };
        let outside = || JailError::Outside(asked.into());
        let mut stack: Vec<(OsString, OwnedFd)> = Vec::new();
        let mut ahead: VecDeque<OsString> = parts(inside).ok_or_else(outside)?;
        let mut links = 0;
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                stack.pop().ok_or_else(outside)?;
                continue;
            }
            let here = stack.last().map_or(&self.root, |(_, dir)| dir);
            match readlinkat(here, &part, Vec::new()) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(io(Errno::LOOP));
                    }
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    let mut next = if target.is_absolute() {
                        let below = target.strip_prefix(self.real_root()).map_err(|_| outside())?;
                        stack.clear();
                        parts(below).ok_or_else(outside)?
                    } else {
                        parts(&target).ok_or_else(outside)?
                    };
                    next.append(&mut ahead);
                    ahead = next;
                    continue;
                }
                // Not a link (or not there): the opens below find out which, without following one that appears now.
                Err(Errno::INVAL | Errno::NOENT) => {}
                Err(Errno::NOTDIR) => return Err(JailError::NotDirectory(asked.into())),
                Err(errno) => return Err(io(errno)),
            }
            if ahead.is_empty() {
                let dir = here.try_clone().map_err(|source| JailError::Io { path: asked.into(), source })?;
                let dirs = stack.into_iter().map(|(name, _)| name).collect();
                return Ok(WalkedPath { dir, dirs, name: Some(part) });
            }
            let make_here = make && !ahead.iter().any(|part| part == "..");
            if make_here && is_git(&part) {
                return Err(JailError::Git(asked.into()));
            }
            let dir = open_or_make_directory(here, &part, make_here).map_err(|errno| match errno {
                Errno::NOENT => JailError::Missing(asked.into()),
                Errno::NOTDIR | Errno::LOOP => JailError::NotDirectory(asked.into()),
                errno => io(errno),
            })?;
            stack.push((part, dir));
        }
        let name = stack.pop().map(|(name, _)| name);
        let dir = stack.last().map_or(&self.root, |(_, dir)| dir);
        let dir = dir.try_clone().map_err(|source| JailError::Io { path: asked.into(), source })?;
        Ok(WalkedPath { dir, dirs: stack.into_iter().map(|(name, _)| name).collect(), name })
    }
}

impl WalkedPath {
    /// The place below the root.
    fn path(&self) -> PathBuf {
        self.dirs.iter().chain(&self.name).collect()
    }
}

fn open_or_make_directory(parent: &OwnedFd, name: &OsStr, make: bool) -> Result<OwnedFd, Errno> {
    let open = || open_directory(parent.as_fd(), name);
    match open() {
        Err(Errno::NOENT) if make => {
            match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            open()
        }
        result => result,
    }
}

fn open_at(place: &WalkedPath, flags: OFlags, asked: &str) -> Result<File, JailError> {
    let Some(name) = &place.name else { return Err(JailError::Directory(asked.into())) };
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&place.dir, name, flags, Mode::empty()).map(File::from).map_err(|errno| open_error(errno, asked)).and_then(
        |file| match FileType::from_raw_mode(fstat(&file).map_err(|errno| open_error(errno, asked))?.st_mode) {
            FileType::Directory => Err(JailError::Directory(asked.into())),
            _ => Ok(file),
        },
    )
}

fn create_at(place: &WalkedPath, mode: Mode, asked: &str) -> Result<File, JailError> {
    let Some(name) = &place.name else { return Err(JailError::Directory(asked.into())) };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&place.dir, name, flags, mode).map(File::from).map_err(|errno| open_error(errno, asked))
}

fn open_extra(extra: &Path, flags: OFlags, asked: &str) -> Result<File, JailError> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(extra, flags, Mode::from_raw_mode(0o666)).map(File::from).map_err(|errno| open_error(errno, asked))
}

fn open_error(errno: Errno, asked: &str) -> JailError {
    match errno {
        Errno::NOENT => JailError::Missing(asked.into()),
        Errno::ISDIR => JailError::Directory(asked.into()),
        Errno::NOTDIR => JailError::NotDirectory(asked.into()),
        // A link where none was a moment ago, a socket, a pipe without a reader.
        Errno::LOOP | Errno::NXIO => JailError::Special(asked.into()),
        errno => JailError::Io { path: asked.into(), source: errno.into() },
    }
}

fn check_regular(file: &File, asked: &str) -> Result<(), JailError> {
    let stat = fstat(file).map_err(|errno| JailError::Io { path: asked.into(), source: errno.into() })?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(JailError::Directory(asked.into())),
        _ => Err(JailError::Special(asked.into())),
    }
}

fn overwrite(mut file: File, content: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(content)
}

/// The names of a path; none when it starts at a root of its own.
fn parts(path: &Path) -> Option<VecDeque<OsString>> {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// An absolute path without `.` and `..`, as text.
fn plain(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(result.pop()),
            Component::CurDir => {}
            part => result.push(part),
        }
    }
    result
}

/// `.git`, also as a file system that ignores case would have it.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

#[cfg(test)]
mod tests;
