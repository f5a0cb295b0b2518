//! Free disk space, and whether a directory is writable.

use std::io;
use std::path::Path;

/// How many bytes can still be written where a path lies or will lie.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(existing(path))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether files can be made where a path lies or will lie, and if not, why: a read-only mount, or no permission.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(existing(path), rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?)
}

/// The path, or the nearest directory above it that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_path_has_the_free_space_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(&dir.path().join("not/yet")).unwrap() > 0);
        check_writable(&dir.path().join("not/yet")).unwrap();
    }
}
