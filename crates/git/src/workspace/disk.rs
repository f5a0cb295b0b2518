//! Free and used disk space, and whether a directory is writable.

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

/// How many bytes a directory takes on the disk, with everything in it. Links are not followed, and what cannot be read
/// does not count.
pub fn disk_usage(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(found) = path.symlink_metadata() else { return 0 };
    // The unit of this count is fixed, whatever the file system uses.
    let own = found.blocks() * 512;
    let entries = found.is_dir().then(|| std::fs::read_dir(path).ok()).flatten();
    own + entries.into_iter().flatten().flatten().map(|entry| disk_usage(&entry.path())).sum::<u64>()
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

    #[test]
    fn usage_counts_files_below_but_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in/deep"), dir.path().join("out"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("file"), vec![1; 100_000]).unwrap();
        std::fs::write(&outside, vec![1; 4_000_000]).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let used = disk_usage(&dir.path().join("in"));
        assert!((100_000..2_000_000).contains(&used), "{used}");
        assert_eq!(disk_usage(&dir.path().join("none")), 0);
    }
}
