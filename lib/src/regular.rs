//! Reading files that a repository brings along, or that its settings name: whoever made them may have made a pipe or a
//! device of one, which would keep the reader for ever.

use std::io;
use std::path::Path;

use rustix::fs::FileType;

use crate::beneath::said;

/// The text of a regular file, links followed. Anything else is an error that says what it is, and is not opened.
pub fn read(path: &Path) -> io::Result<String> {
    match FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode) {
        FileType::RegularFile => std::fs::read_to_string(path),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        other => Err(io::Error::other(format!("it is {}, not a file", said(other)))),
    }
}

#[cfg(test)]
mod tests {
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
}
