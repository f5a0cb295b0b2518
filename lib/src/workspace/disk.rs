//! Room on the disk.

use std::io;
use std::path::Path;

/// How many bytes can still be written where a path lies or will lie.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let there = path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_yet_has_the_room_of_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(&dir.path().join("not/yet")).unwrap() > 0);
    }
}
