//! Commits that exist only in the repository of a submodule, which is removed with the worktree: those its HEAD,
//! branches or stashes lead to, or that HEAD was moved away from, unless a known remote branch has them.
//!
//! An agent can write to that repository: nothing in it may block.

use std::collections::BTreeSet;
use std::path::Path;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::hashtable::HashSet;

use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::history::{ONE, TWO, paint, shallow, time};
use os::confined_fs::ConfinedDir;
use pleach_core::text::counted;

/// The longest log of a ref that is read.
const LONGEST_LOG: u64 = 64 * 1024 * 1024;

/// What only the repository of a submodule has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnpublishedCommits {
    commits: usize,
    stashes: usize,
}

impl UnpublishedCommits {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl std::fmt::Display for UnpublishedCommits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (commits, stashes) = (counted(self.commits, "commit"), counted(self.stashes, "stashed change"));
        match (self.commits, self.stashes) {
            (_, 0) => f.write_str(&commits),
            (0, _) => f.write_str(&stashes),
            _ => write!(f, "{commits} and {stashes}"),
        }
    }
}

/// What leads to the commits of a repository.
#[derive(Debug, Default)]
pub(super) struct Tips {
    pub head: Option<ObjectId>,
    branches: BTreeSet<ObjectId>,
    stashes: BTreeSet<ObjectId>,
    /// Where HEAD was before something else was checked out.
    left: BTreeSet<ObjectId>,
    remotes: BTreeSet<ObjectId>,
}

impl Tips {
    /// An error means that they cannot be determined.
    pub fn read(handle: &gix::Repository) -> Result<Self, Error> {
        let git_dir = handle.git_dir();
        refuse_odd(&git_dir.join("refs"))?;
        let head = handle.head().doing("read a submodule")?.id().map(gix::Id::detach);
        let mut tips = Self { head, ..Self::default() };
        let mut tags = BTreeSet::new();
        let all = handle.references().doing("list the refs of a submodule")?;
        for reference in all.all().doing("list the refs of a submodule")? {
            let mut reference = reference.doing("list the refs of a submodule")?;
            let name = reference.name().as_bstr().to_owned();
            let into = match name.as_bytes() {
                name if name.starts_with(b"refs/remotes/") => &mut tips.remotes,
                name if name.starts_with(b"refs/tags/") => &mut tags,
                name if name == b"refs/stash" => &mut tips.stashes,
                name if name.starts_with(b"refs/heads/") => &mut tips.branches,
                _ => continue,
            };
            match reference.peel_to_id() {
                Ok(id) => drop(into.insert(id.detach())),
                // What a remote or a tag fails to name is on no remote.
                Err(_) if name.starts_with(b"refs/remotes/") || name.starts_with(b"refs/tags/") => {}
                Err(error) => return Err(Error::library("read a submodule", error)),
            }
        }
        let is_there = |id: &ObjectId| handle.find_commit(*id).is_ok();
        for (_, new, _) in log(git_dir, "logs/refs/stash")? {
            tips.stashes.extend(new.filter(is_there));
        }
        for (old, _, said) in log(git_dir, "logs/HEAD")? {
            // Whoever amends, rebases or resets means to leave the commit.
            let is_left = |id: &ObjectId| said.starts_with(b"checkout: ") && !tags.contains(id) && is_there(id);
            tips.left.extend(old.filter(is_left));
        }
        Ok(tips)
    }

    /// All that could lead to a commit that is nowhere else.
    pub fn own(&self) -> impl Iterator<Item = ObjectId> {
        self.head.iter().chain(&self.branches).chain(&self.stashes).chain(&self.left).copied()
    }

    /// What they lead to that no remote has, nor what is below commits that are known.
    pub fn unpublished(
        &self,
        handle: &gix::Repository,
        known: &BTreeSet<ObjectId>,
    ) -> Result<UnpublishedCommits, Error> {
        let history = SubmoduleHistory::of(handle)?;
        let stashes: BTreeSet<ObjectId> = self.stashes.difference(known).copied().collect();
        let mut tips: BTreeSet<ObjectId> = self.head.iter().chain(&self.branches).chain(&self.left).copied().collect();
        for stash in &stashes {
            // The other parents are what git makes of index and new files.
            tips.extend(history.read(*stash)?.1.first());
        }
        // What a shallow clone begins with came from a remote.
        let hidden: BTreeSet<ObjectId> = self.remotes.iter().chain(known).chain(&history.shallow).copied().collect();
        tips.retain(|tip| !hidden.contains(tip));
        let mut commits = 0;
        if !tips.is_empty() {
            let tips = tips.into_iter().map(|id| (id, ONE)).chain(hidden.into_iter().map(|id| (id, TWO)));
            commits = paint(tips, |id| history.read(id))?.values().filter(|side| **side == ONE).count();
        }
        Ok(UnpublishedCommits { commits, stashes: stashes.len() })
    }
}

/// Whether the history of a commit has another one.
pub(super) fn leads_to(handle: &gix::Repository, from: ObjectId, to: ObjectId) -> Result<bool, Error> {
    let history = SubmoduleHistory::of(handle)?;
    let sides = paint([(from, TWO), (to, ONE)], |id| history.read(id))?;
    Ok(sides.get(&to) == Some(&(ONE | TWO)))
}

/// The commits of a repository, as far as they are there.
struct SubmoduleHistory<'a> {
    handle: &'a gix::Repository,
    shallow: HashSet<ObjectId>,
}

impl<'a> SubmoduleHistory<'a> {
    fn of(handle: &'a gix::Repository) -> Result<Self, Error> {
        Ok(Self { handle, shallow: shallow(handle)? })
    }

    /// When a commit was made, and its parents.
    fn read(&self, id: ObjectId) -> Result<(i64, Vec<ObjectId>), Error> {
        // What a link or a remote names need not have been fetched.
        let Ok(commit) = self.handle.find_commit(id) else { return Ok((0, Vec::new())) };
        let commit = commit.decode().doing("read a commit of a submodule")?;
        let parents = if self.shallow.contains(&id) { Vec::new() } else { commit.parents().collect() };
        Ok((time(&commit), parents))
    }
}

type ReflogLine = (Option<ObjectId>, Option<ObjectId>, Vec<u8>);

/// The log of a ref: what it was, what it became, and why.
fn log(git_dir: &Path, name: &str) -> Result<Vec<ReflogLine>, Error> {
    let text = ConfinedDir::at(git_dir).and_then(|dir| dir.read(name, LONGEST_LOG)).at("read", &git_dir.join(name))?;
    let id = |hex: &[u8]| ObjectId::from_hex(hex).ok().filter(|id| !id.is_null());
    let line = |line: &[u8]| {
        let (ids, said) = line.split_once_str("\t").unwrap_or((line, b""));
        let mut ids = ids.splitn(3, |byte| *byte == b' ');
        Some((id(ids.next()?), id(ids.next()?), said.to_vec()))
    };
    Ok(text.unwrap_or_default().lines().filter_map(line).collect())
}

/// Refuses a directory with anything in it that could block a reader or leads out of it.
fn refuse_odd(directory: &Path) -> Result<(), Error> {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).at("list", &directory)? {
            let entry = entry.at("list", &directory)?;
            let kind = entry.file_type().at("look at", &entry.path())?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if !kind.is_file() {
                return Err(Error::NotARepository { path: entry.path() });
            }
        }
    }
    Ok(())
}
