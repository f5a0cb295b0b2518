//! Files that a repository brings along, or that somebody names. Whoever made them may have made a pipe or a
//! device of one, which would keep the reader for ever.

use std::io;
use std::path::Path;

use rustix::fs::FileType;

use crate::confined_fs::describe_kind;

/// The text of a regular file, links followed. Anything else is an error that says what it is, and is not opened.
pub fn read(path: &Path) -> io::Result<String> {
    match FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode) {
        FileType::RegularFile => std::fs::read_to_string(path),
        FileType::Directory => Err(rustix::io::Errno::ISDIR.into()),
        other => Err(io::Error::other(format!("it is {}, not a file", describe_kind(other)))),
    }
}

/// The same of a file that is named on the command line, where it may also be a pipe that is open already: that is how a
/// shell hands over what a command prints. No repository can name one so that it counts.
pub fn read_given(path: &Path) -> io::Result<String> {
    let is_open = path == "/dev/stdin" || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
    if is_open && FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode) == FileType::Fifo {
        std::fs::read_to_string(path)
    } else {
        read(path)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        assert_eq!((read(&at("file")).unwrap(), read(&at("link")).unwrap()), ("text".into(), "text".into()));
        assert_eq!(read(&at("device")).unwrap_err().to_string(), "it is a device, not a file");
        assert_eq!(read(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_is_read_where_it_is_given_and_open() {
        let dir = tempfile::tempdir().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        let open = format!("/dev/fd/{}", reader.as_raw_fd());
        let no_file = "it is a named pipe, not a file";
        assert_eq!(read(Path::new(&open)).unwrap_err().to_string(), no_file);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert_eq!(read_given(&link).unwrap_err().to_string(), no_file, "who made the link is not who names it");
        assert_eq!(read_given(Path::new(&open)).unwrap(), "text");
        let named = dir.path().join("named");
        rustix::fs::mknodat(rustix::fs::CWD, &named, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read_given(&named).unwrap_err().to_string(), no_file);
        std::fs::write(dir.path().join("file"), "text").unwrap();
        assert_eq!(read_given(&dir.path().join("file")).unwrap(), "text");
    }
}
