//! Which worktrees are pleach's own. An agent can write anything into the git directory of its worktree, but can
//! neither rename nor replace that directory, nor write beside it. So pleach keeps a note of each by its name, where no
//! agent can write, and trusts only that.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::metadata::{LONGEST, Notes};
use crate::git::error::{Error, IoContext as _};
use os::confined_fs::ConfinedDir;

/// pleach's own record of a worktree it created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registration {
    /// Where its files are.
    pub root: PathBuf,
    /// The settings of git's that hold in it alone, as git has made it: none, or copied from the user's checkout.
    pub settings: Option<Vec<u8>>,
}

impl Registration {
    /// Registers a new worktree, before any agent works there.
    pub fn register(common: &Path, git_dir: &Path, root: &Path) -> Result<(), Error> {
        Self { root: root.to_owned(), settings: settings(git_dir)? }.write(common, git_dir)
    }

    /// Puts the note where it is found by the name of the git directory.
    pub fn write(&self, common: &Path, git_dir: &Path) -> Result<(), Error> {
        let born = birth_stamp(git_dir).at("look at", git_dir)?;
        Notes::of(common, git_dir).write_durably(OWN, &self.text(&born))
    }

    /// The registration of a git directory; none if pleach did not create it.
    pub fn of(common: &Path, git_dir: &Path) -> Result<Option<Self>, Error> {
        let Some(text) = Notes::of(common, git_dir).read(OWN, 2 * LONGEST)? else { return Ok(None) };
        match birth_stamp(git_dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            born => Ok(Self::read(&text, &born.at("look at", git_dir)?)),
        }
    }

    /// Restores settings that an agent has changed, and names the file. They may name programs, which the next git that
    /// is run in the worktree would start, whoever runs it.
    pub fn restore_settings(&self, git_dir: &Path) -> Result<Option<String>, Error> {
        let place = git_dir.join(SETTINGS);
        if settings(git_dir).is_ok_and(|found| found == self.settings) {
            return Ok(None);
        }
        let dir = match ConfinedDir::at(git_dir) {
            // It is recreated later.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            dir => dir.at("open", git_dir)?,
        };
        match &self.settings {
            Some(settings) => dir.put(SETTINGS, settings).at("write", &place)?,
            None => dir.remove(SETTINGS).at("remove", &place)?,
        }
        Ok(Some(format!("{} (restored)", place.display())))
    }

    /// `BORN NUL ROOT`, and `NUL SETTINGS` if there are some.
    fn text(&self, born: &str) -> Vec<u8> {
        let parts = [born.as_bytes(), self.root.as_os_str().as_bytes()].into_iter();
        parts.chain(self.settings.as_deref()).collect::<Vec<_>>().join(&0)
    }

    fn read(text: &[u8], born: &str) -> Option<Self> {
        let text = text.strip_prefix(born.as_bytes())?.strip_prefix(b"\0")?;
        let mut parts = text.splitn(2, |byte| *byte == 0);
        let root = PathBuf::from(OsStr::from_bytes(parts.next()?));
        Some(Self { root, settings: parts.next().map(<[u8]>::to_vec) })
    }
}

/// What the note is called among what is noted of a worktree.
const OWN: &str = "own";

/// The file of a worktree's own settings.
const SETTINGS: &str = "config.worktree";

fn settings(git_dir: &Path) -> Result<Option<Vec<u8>>, Error> {
    let read = ConfinedDir::at(git_dir).and_then(|dir| dir.read(SETTINGS, LONGEST));
    read.at("read", &git_dir.join(SETTINGS))
}

/// Tells a directory from a later one of the same name: somebody may remove a worktree of pleach's with git and create
/// another that gets the same name.
fn birth_stamp(dir: &Path) -> std::io::Result<String> {
    let data = dir.symlink_metadata()?;
    let time = data.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(match time {
        Some(time) => format!("born {}", time.as_nanos()),
        None => format!("inode {}", data.ino()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_does_not_apply_to_a_recreated_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (common, root) = (dir.path(), Path::new("/some\nwhere"));
        let admin = common.join("worktrees/main");
        std::fs::create_dir_all(&admin).unwrap();
        assert_eq!(Registration::of(common, &admin).unwrap(), None);
        Registration::register(common, &admin, root).unwrap();
        let registration = Registration { root: root.to_owned(), settings: None };
        assert_eq!(Registration::of(common, &admin).unwrap(), Some(registration.clone()));
        std::fs::write(admin.join("HEAD"), "x").unwrap();
        assert_eq!(Registration::of(common, &admin).unwrap(), Some(registration), "whatever is written there");
        std::fs::remove_dir_all(&admin).unwrap();
        assert_eq!(Registration::of(common, &admin).unwrap(), None);
        std::fs::create_dir_all(&admin).unwrap();
        assert_eq!(Registration::of(common, &admin).unwrap(), None, "it is another one");
        std::fs::remove_dir_all(&admin).unwrap();
        let other = common.join("worktrees/other");
        std::fs::create_dir_all(&other).unwrap();
        Registration::register(common, &other, root).unwrap();
        Notes::sweep(common).unwrap();
        let has = |git_dir: &Path| Notes::of(common, git_dir).has(OWN);
        assert!(has(&other) && !has(&admin), "nothing is left of those that are gone");
    }

    #[test]
    fn settings_are_what_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let (common, admin) = (dir.path(), dir.path().join("worktrees/main"));
        std::fs::create_dir_all(&admin).unwrap();
        let place = admin.join(SETTINGS);
        for settings in [None, Some(&b""[..]), Some(b"[core]\n\tsparseCheckout = true\0\n")] {
            let _ = std::fs::remove_file(&place);
            settings.map(|settings| std::fs::write(&place, settings)).transpose().unwrap();
            Registration::register(common, &admin, common).unwrap();
            let registration = Registration::of(common, &admin).unwrap().unwrap();
            assert_eq!(registration.restore_settings(&admin).unwrap(), None);
            std::fs::write(&place, "[alias]\n").unwrap();
            assert!(registration.restore_settings(&admin).unwrap().is_some());
            assert_eq!(std::fs::read(&place).ok().as_deref(), settings);
        }
    }
}
