//! The git program itself, to compare with.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A call of git without anything of the environment but `PATH`. It is started by its place: a name would be looked up in a fork of
/// this large process, which takes longer than git does.
#[expect(clippy::disallowed_methods, reason = "the tests compare with the git program itself")]
pub fn command() -> Command {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let place = PLACE.get_or_init(|| {
        let place = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|place| place.is_file());
        place.expect("git is installed")
    });
    let mut command = Command::new(place);
    command.env_clear().env("PATH", path);
    command
}
