//! The git directories of worktrees: finding them, and the files that tie them to the worktree.

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use super::registration::Registration;
use crate::git::error::{Error, IoContext as _};
use crate::git::repo::Repo;
use os::confined_fs::{self, ConfinedDir, FEW_LINES};

/// The git directory the worktree's `.git` file names, none if it has no such file.
pub(in crate::git) fn linked_git_dir(root: &Path) -> Result<Option<PathBuf>, Error> {
    let link = root.join(".git");
    if link.is_dir() {
        return Ok(Some(link));
    }
    match confined_fs::read(&link, FEW_LINES) {
        Ok(None) => Ok(None),
        bytes => {
            let bytes = bytes.at("read", &link)?.unwrap_or_default();
            let target = bytes.strip_prefix(b"gitdir: ").ok_or(Error::LinkReplaced { path: link })?;
            Ok(Some(root.join(path_of(target))))
        }
    }
}

/// The git directory of a worktree, as the repository knows it. What lies in the worktree is the agent's to write: a link
/// in it must not lead to the git directory of the user's checkout, or of another worktree.
pub(super) fn own_git_dir(repo: &Repo, root: &Path) -> Result<PathBuf, Error> {
    if repo.workdir().is_some_and(|own| same_file(own, root)) {
        return Ok(repo.git_dir().to_owned());
    }
    if let Some(admin) = find_git_dir(repo, root)? {
        return Ok(admin);
    }
    let link = root.join(".git");
    let is_main = repo.common_dir() == link && link.symlink_metadata().is_ok_and(|link| link.is_dir());
    match linked_git_dir(root)? {
        None => Err(Error::NoSuchWorktree { path: root.to_owned() }),
        Some(_) if is_main => Ok(link),
        Some(_) => Err(Error::LinkReplaced { path: root.to_owned() }),
    }
}

/// The directory in which the repository keeps what belongs to the worktree at `path`. Of pleach's own worktrees it knows
/// by notes; what others say of theirs counts only where there is none, or where its worktree was moved away.
pub(super) fn find_git_dir(repo: &Repo, path: &Path) -> Result<Option<PathBuf>, Error> {
    let common = repo.common_dir();
    let is_there = |root: &Path| root == path || same_file(root, path);
    let (mut noted, mut others) = (Vec::new(), Vec::new());
    for git_dir in git_dirs(common)? {
        match Registration::of(common, &git_dir)? {
            Some(registration) if is_there(&registration.root) => noted.push(git_dir),
            Some(registration) if registration.root.symlink_metadata().is_ok() => {}
            _ => others.push(git_dir),
        }
    }
    // Who was killed while one took the place of another has left both.
    let whole = noted.iter().position(|git_dir| is_complete(git_dir)).unwrap_or_default();
    let mut noted = noted.into_iter().skip(whole);
    let claims = |git_dir: &PathBuf| claimed_root(git_dir).is_some_and(|root| is_there(&root));
    Ok(noted.next().or_else(|| others.into_iter().find(claims)))
}

/// The directories the repository keeps of its worktrees, in order.
pub(in crate::git) fn git_dirs(common: &Path) -> Result<Vec<PathBuf>, Error> {
    let all = common.join("worktrees");
    let entries = match std::fs::read_dir(&all) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at("list", &all)?,
    };
    let mut found = entries.map(|entry| Ok(entry.at("list", &all)?.path())).collect::<Result<Vec<_>, Error>>()?;
    found.sort();
    Ok(found)
}

/// Where the files of a worktree are, as its git directory has it.
pub(super) fn claimed_root(git_dir: &Path) -> Option<PathBuf> {
    let line = confined_fs::read(&git_dir.join("gitdir"), FEW_LINES).ok().flatten()?;
    git_dir.join(path_of(&line)).parent().map(Path::to_owned)
}

/// Whether a directory is where the repository keeps what belongs to one of its worktrees.
pub(super) fn is_worktree_git_dir(repo: &Repo, git_dir: &Path) -> bool {
    let all = repo.common_dir().join("worktrees");
    git_dir.parent() == Some(&all) || all.canonicalize().is_ok_and(|all| git_dir.parent() == Some(&all))
}

/// Whether a git directory says that it is this worktree's.
pub(super) fn leads_to(git_dir: &Path, root: &Path) -> bool {
    let Ok(Some(line)) = confined_fs::read(&git_dir.join("gitdir"), FEW_LINES) else { return false };
    let found = path_of(&line);
    found == root.join(".git") || git_dir.join(found).parent().is_some_and(|above| same_file(above, root))
}

/// Puts back what ties a worktree of this repository to it, where an agent has removed it or made it lead elsewhere, so
/// that git finds the repository again.
pub(super) fn link_git_dir(repo: &Repo, root: &Path, git_dir: &Path) -> Result<(), Error> {
    if !is_worktree_git_dir(repo, git_dir) {
        return Ok(());
    }
    let common = repo.common_dir();
    // A repository that is gone is not made again by this.
    if common.join("HEAD").exists() {
        std::fs::create_dir_all(git_dir).at("create", git_dir)?;
    }
    let dir = ConfinedDir::at(git_dir).at("open", git_dir)?;
    let read = |name: &str| dir.read(name, FEW_LINES).ok().flatten().map(|line| path_of(&line));
    let write =
        |name: &str, content: &[u8]| dir.write(name, &[content, b"\n"].concat()).at("write", &git_dir.join(name));
    // What git writes is known by its words. Anything else may lead one process here and another one elsewhere: by way of
    // links, and of `/proc/self/cwd`.
    if read("commondir").as_deref() != Some(Path::new("../..")) {
        write("commondir", b"../..")?;
    }
    let link = root.join(".git");
    if read("gitdir").is_none_or(|found| normalized(&git_dir.join(found)) != link) {
        write("gitdir", link.as_os_str().as_bytes())?;
    }
    Ok(())
}

/// A path without its `..`, by its words alone.
fn normalized(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Whether a git directory has a HEAD of the form git gives it.
pub(super) fn has_head(git_dir: &Path) -> bool {
    let Ok(Some(text)) = confined_fs::read(&git_dir.join("HEAD"), FEW_LINES) else { return false };
    let text = text.trim_ascii_end();
    text.starts_with(b"ref: refs/") || gix::ObjectId::from_hex(text).is_ok()
}

/// Whether a git directory has what tells the files of its worktree apart.
pub(super) fn is_complete(git_dir: &Path) -> bool {
    has_head(git_dir) && git_dir.join("index").exists()
}

pub(super) fn path_of(line: &[u8]) -> PathBuf {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    PathBuf::from(std::ffi::OsString::from_vec(line.to_vec()))
}

pub(super) fn same_file(one: &Path, two: &Path) -> bool {
    matches!((one.canonicalize(), two.canonicalize()), (Ok(one), Ok(two)) if one == two)
}
