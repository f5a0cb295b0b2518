//! Which checkouts have a branch. The git program knows; what it said holds as long as nothing it goes by has changed,
//! which is looked at each time and costs less than a process.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::{Error, IoContext as _};
use super::land::full_name;
use super::repo::Repo;
use super::worktree::{Listed, Worktree};
use crate::beneath::{self, FEW_LINES};
use crate::ids::BranchName;

/// All that decides which checkouts there are and which branch each has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Whether there is a main checkout is a setting.
    settings: [Option<SystemTime>; 2],
    main: Option<Vec<u8>>,
    linked: Vec<Linked>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Linked {
    admin: PathBuf,
    /// The branch it has, as its HEAD names it.
    head: Option<Vec<u8>>,
    place: Option<Vec<u8>>,
    is_there: bool,
    is_locked: bool,
}

impl Repo {
    /// The checkouts that have a branch checked out: the main one, linked worktrees. Those that were deleted without
    /// telling git are left out.
    pub fn checkouts_of(&self, branch: &BranchName) -> Result<Vec<PathBuf>, Error> {
        let name = full_name(branch);
        // git can only say of those that have it that they do. Mostly there is none, which costs no process.
        if !is_named(self.common_dir(), &name)? {
            return Ok(Vec::new());
        }
        let all = self.checkouts()?.into_iter().enumerate();
        let has_it = all.filter(|(_, one)| one.branch.as_ref() == Some(&name) && one.prunable.is_none());
        Ok(has_it.map(|(index, one)| if index == 0 { self.main_checkout(one.path) } else { one.path }).collect())
    }

    /// git takes the place of the git directory for that of the files, which is wrong in a submodule.
    fn main_checkout(&self, listed: PathBuf) -> PathBuf {
        let is_own = self.git_dir().canonicalize().is_ok_and(|own| own == self.common_dir());
        self.workdir().filter(|_| is_own).map_or(listed, Path::to_owned)
    }

    fn checkouts(&self) -> Result<Vec<Listed>, Error> {
        // Looked at before git is asked: what changes meanwhile is noticed the next time.
        let now = look(self.common_dir())?;
        let mut known = self.shared.checkouts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, all)) = known.as_ref().filter(|(seen, _)| *seen == now) {
            return Ok(all.clone());
        }
        let all = Worktree::list(self)?;
        *known = Some((now, all.clone()));
        Ok(all)
    }
}

/// Whether the HEAD of some checkout names a branch.
fn is_named(common: &Path, name: &str) -> Result<bool, Error> {
    let names_it = |dir: &Path| {
        let head = branch(&dir.join("HEAD"));
        head.is_some_and(|head| head.strip_prefix(b"ref:").is_some_and(|to| to.trim_ascii() == name.as_bytes()))
    };
    let all = common.join("worktrees");
    let entries = match std::fs::read_dir(&all) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(names_it(common)),
        entries => entries.at("list", &all)?,
    };
    for entry in entries {
        if names_it(&entry.at("list", &all)?.path()) {
            return Ok(true);
        }
    }
    Ok(names_it(common))
}

fn look(common: &Path) -> Result<Seen, Error> {
    let all = common.join("worktrees");
    let mut linked = Vec::new();
    match std::fs::read_dir(&all) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries.at("list", &all)? {
                let admin = entry.at("list", &all)?.path();
                let place = beneath::read(&admin.join("gitdir"), FEW_LINES).ok().flatten();
                let link = place.as_deref().map(|place| admin.join(to_path(place.trim_ascii_end())));
                linked.push(Linked {
                    head: branch(&admin.join("HEAD")),
                    is_there: link.is_some_and(|link| link.exists()),
                    is_locked: admin.join("locked").exists(),
                    place,
                    admin,
                });
            }
        }
    }
    linked.sort();
    let changed = |name: &str| common.join(name).metadata().and_then(|data| data.modified()).ok();
    let settings = ["config", "config.worktree"].map(changed);
    Ok(Seen { settings, main: branch(&common.join("HEAD")), linked })
}

/// What a HEAD says that names a branch; none when it names a commit, which branch nothing depends on.
fn branch(head: &Path) -> Option<Vec<u8>> {
    // In its oldest form it is a link to the branch.
    if let Ok(target) = std::fs::read_link(head) {
        return Some([b"ref: ", target.as_os_str().as_encoded_bytes()].concat());
    }
    beneath::read(head, FEW_LINES).ok().flatten().filter(|content| content.starts_with(b"ref:"))
}

fn to_path(bytes: &[u8]) -> &Path {
    Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes))
}
