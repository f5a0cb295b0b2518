//! What tells a clone from another one at the same path: a random text in its git directory, which no clone and no archive
//! brings along. An approval of every command holds as long as it is there.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use os::plain_file;

/// How many random bytes it has.
const LENGTH: usize = 16;

/// The token of the repository with this common git directory, if it has one.
pub(super) fn read(repo: &Path) -> Option<String> {
    plain_file::read(&place(repo)).ok().filter(|token| token.len() == 2 * LENGTH)
}

/// Makes another one: one that is there may have come along with the repository.
pub(super) fn make(repo: &Path) -> io::Result<String> {
    let mut random = [0; LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let place = place(repo);
    fs::create_dir_all(place.parent().unwrap_or(repo))?;
    fs::write(&place, &token)?;
    Ok(token)
}

fn place(repo: &Path) -> PathBuf {
    repo.join("pleach/trusted")
}
