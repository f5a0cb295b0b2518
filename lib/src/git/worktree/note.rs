//! Which worktrees are pleach's own. An agent can write all that lies in the git directory of its worktree, and so make it
//! say anything; but it can neither rename nor replace that directory, nor write beside it. So pleach keeps a note of each,
//! by its name, where no agent can write, and believes that instead.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::git::error::{Error, IoContext as _};

/// What is noted of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    /// Where its files are.
    pub root: PathBuf,
}

impl Note {
    /// Takes note of the git directory of a worktree, before any agent works there.
    pub fn take(common: &Path, git_dir: &Path, root: &Path) -> Result<(), Error> {
        let all = notes(common);
        std::fs::create_dir_all(&all).at("create", &all)?;
        sweep(common)?;
        let note = Self { root: root.to_owned() };
        let place = place(common, git_dir);
        // No worktree's: git gives none a name that begins with a dot.
        let mut new = OsString::from(".");
        new.extend([git_dir.file_name().unwrap_or_default(), OsStr::new(&format!(".{}", std::process::id()))]);
        let new = all.join(new);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(&note.text(&born(git_dir)?))?;
            file.sync_all()
        });
        written.and_then(|()| std::fs::rename(&new, &place)).at("write", &place)
    }

    /// The note of a git directory; none when it is not one that pleach has made.
    pub fn of(common: &Path, git_dir: &Path) -> Result<Option<Self>, Error> {
        let place = place(common, git_dir);
        let text = match std::fs::read(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.at("read", &place)?,
        };
        match born(git_dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            born => Ok(Self::read(&text, &born.at("look at", git_dir)?)),
        }
    }

    /// Removes the note of a git directory that is gone.
    pub fn forget(common: &Path, git_dir: &Path) -> Result<(), Error> {
        let place = place(common, git_dir);
        match std::fs::remove_file(&place) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).at("remove", &place),
            _ => Ok(()),
        }
    }

    /// `BORN NUL ROOT`
    fn text(&self, born: &str) -> Vec<u8> {
        [born.as_bytes(), self.root.as_os_str().as_bytes()].join(&0)
    }

    fn read(text: &[u8], born: &str) -> Option<Self> {
        let root = text.strip_prefix(born.as_bytes())?.strip_prefix(b"\0")?;
        Some(Self { root: PathBuf::from(OsStr::from_bytes(root)) })
    }
}

/// What tells a directory from another one that has its name later: somebody may remove a worktree of pleach's with git, and
/// make one of their own that gets the same name.
fn born(dir: &Path) -> std::io::Result<String> {
    let data = dir.symlink_metadata()?;
    let time = data.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(match time {
        Some(time) => format!("born {}", time.as_nanos()),
        None => format!("inode {}", data.ino()),
    })
}

fn notes(common: &Path) -> PathBuf {
    common.join("pleach/worktrees")
}

fn place(common: &Path, git_dir: &Path) -> PathBuf {
    notes(common).join(git_dir.file_name().unwrap_or_default())
}

/// Removes the notes of worktrees that somebody else has removed.
fn sweep(common: &Path) -> Result<(), Error> {
    let all = notes(common);
    for entry in std::fs::read_dir(&all).at("list", &all)? {
        let name = entry.at("list", &all)?.file_name();
        let is_note = !name.as_bytes().starts_with(b".");
        if is_note && common.join("worktrees").join(&name).symlink_metadata().is_err() {
            Note::forget(common, Path::new(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_of_one_directory_and_not_of_the_next_that_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (common, root) = (dir.path(), Path::new("/some\nwhere"));
        let admin = common.join("worktrees/main");
        std::fs::create_dir_all(&admin).unwrap();
        assert_eq!(Note::of(common, &admin).unwrap(), None);
        Note::take(common, &admin, root).unwrap();
        let note = Note { root: root.to_owned() };
        assert_eq!(Note::of(common, &admin).unwrap(), Some(note.clone()));
        std::fs::write(admin.join("HEAD"), "x").unwrap();
        assert_eq!(Note::of(common, &admin).unwrap(), Some(note), "whatever is written there");
        std::fs::remove_dir_all(&admin).unwrap();
        assert_eq!(Note::of(common, &admin).unwrap(), None);
        std::fs::create_dir_all(&admin).unwrap();
        assert_eq!(Note::of(common, &admin).unwrap(), None, "it is another one");
        std::fs::remove_dir_all(&admin).unwrap();
        let other = common.join("worktrees/other");
        std::fs::create_dir_all(&other).unwrap();
        Note::take(common, &other, root).unwrap();
        let left: Vec<_> = std::fs::read_dir(notes(common)).unwrap().map(|note| note.unwrap().file_name()).collect();
        assert_eq!(left, ["other"], "nothing is left of those that are gone");
    }
}
