//! Work in submodules that only this worktree has, and that is lost with it: uncommitted changes, and commits on no
//! remote, at any depth. No commit of the worktree's own repository can hold it, so it is named before anything could
//! remove it.
//!
//! An agent can write to the git directory of a submodule, so nothing it configures is run: it is opened with the
//! settings of the main repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice as _};

use super::cache::{Cache, Links};
use super::git_dir::linked_git_dir;
use super::scan::look_at_index;
use super::sparse_rules::SparseRules;
use super::special_files::{has_special_files_below, special_files_of};
use super::submodule_commits::{Tips, UnpublishedCommits, leads_to};
use super::{FileStamp, Worktree};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::id::TreeId;
use crate::git::open::open_with;
use pleach_core::ids::RepoPath;
use pleach_core::text::listed;

/// The note of what the setup has left in submodules.
const NOTE: &str = "submodules";

/// What that says of a file that is gone.
const GONE: &str = "-";

/// The note of the commits it has left there.
const COMMITS: &str = "submodule-commits";

/// What such a note has at most.
const LONGEST: u64 = 64 * 1024 * 1024;

/// How deep submodules are looked for in submodules.
const DEEPEST: usize = 16;

/// How thoroughly files are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckDepth {
    /// The index of a submodule is trusted.
    Quick,
    /// All files are read: an agent can write that index as well.
    Thorough,
}

/// Work in submodules that only the worktree has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubmoduleWork {
    /// Files that are new, changed or gone; the submodule itself if that cannot be told.
    pub files: BTreeSet<RepoPath>,
    /// Submodules with commits that are on no remote.
    pub commits: BTreeMap<RepoPath, UnpublishedCommits>,
    /// Submodules at a commit that is not in the history of the recorded one.
    pub moved: BTreeSet<RepoPath>,
}

impl SubmoduleWork {
    /// Whether there is no such work.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.commits.is_empty() && self.moved.is_empty()
    }

    /// What there is and where it is missing, as the end of a sentence each.
    pub fn missing(&self) -> Vec<String> {
        const NAMED: usize = 5;
        let names = |what: &str, paths: &BTreeSet<RepoPath>| {
            let names = listed(paths.iter().map(|path| format!("`{path}`")), NAMED);
            (!paths.is_empty()).then(|| format!("in no {what}: {names}"))
        };
        let commits = self.commits.iter().map(|(path, work)| format!("on no remote: {work} of `{path}`"));
        let (files, moved) = (names("commit", &self.files), names("recorded link", &self.moved));
        files.into_iter().chain(commits).chain(moved).collect()
    }
}

/// What is known while submodules are looked into.
struct SubmoduleScan {
    care: CheckDepth,
    found: SubmoduleWork,
    /// The git directories that were looked into.
    met: BTreeSet<PathBuf>,
    /// What the setup has left.
    files: BTreeMap<BString, Option<FileStamp>>,
    commits: BTreeMap<BString, BTreeSet<ObjectId>>,
    /// What leads to commits in each submodule.
    tips: BTreeMap<BString, BTreeSet<ObjectId>>,
}

/// Work that exists only in submodules. What the setup left there does not count.
pub fn unpublished_work(worktree: &mut Worktree, care: CheckDepth) -> Result<SubmoduleWork, Error> {
    Ok(look_into_all(worktree, care)?.found)
}

fn look_into_all(worktree: &mut Worktree, care: CheckDepth) -> Result<SubmoduleScan, Error> {
    let links: BTreeMap<BString, ObjectId> = worktree.cache.links().into_iter().collect();
    let (files, commits) = (setup_files(worktree)?, setup_commits(worktree)?);
    let (found, met, tips) = Default::default();
    let mut look = SubmoduleScan { care, found, met, files, commits, tips };
    for (link, at) in &links {
        if worktree.has_real_parents(link.as_bstr()) && is_checked_out(&worktree.disk_path(link.as_bstr())) {
            look_into(worktree, link, *at, DEEPEST, &mut look);
        }
    }
    // Those that are not checked out any more.
    for (name, git_dir) in stores(&worktree.git_dir, DEEPEST) {
        if git_dir.canonicalize().is_ok_and(|git_dir| !look.met.contains(&git_dir)) {
            let opened = open_store(worktree, &git_dir);
            let at = links.get(&name).copied();
            if opened.and_then(|handle| look.take_commits(&handle, &name, at)).is_err() {
                look.found.files.insert(RepoPath::new(name.to_vec()));
            }
        }
    }
    Ok(look)
}

/// Takes what is in submodules now for the work of the setup.
pub(super) fn note_setup_submodules(worktree: &mut Worktree) -> Result<(), Error> {
    worktree.notes.remove(NOTE)?;
    worktree.notes.remove(COMMITS)?;
    let look = look_into_all(worktree, CheckDepth::Quick)?;
    let line = |path: &RepoPath| {
        let seen = FileStamp::at(&worktree.disk_path(path.as_bytes().as_bstr()));
        let seen = seen.map_or(GONE.to_owned(), |seen| seen.to_string());
        [format!("{seen} ").as_bytes(), path.as_bytes(), b"\0"].concat()
    };
    let files: Vec<u8> = look.found.files.iter().flat_map(line).collect();
    let tips = look.tips.iter().flat_map(|(path, tips)| tips.iter().map(move |tip| (path, tip)));
    let commits: Vec<u8> =
        tips.flat_map(|(path, tip)| [format!("{tip} ").as_bytes(), path.as_bytes(), b"\0"].concat()).collect();
    for (name, text) in [(NOTE, files), (COMMITS, commits)] {
        if !text.is_empty() {
            worktree.notes.write(name, &text)?;
        }
    }
    Ok(())
}

fn setup_files(worktree: &Worktree) -> Result<BTreeMap<BString, Option<FileStamp>>, Error> {
    let text = worktree.notes.read(NOTE, LONGEST)?.unwrap_or_default();
    let file = |(seen, path): (&str, BString)| match seen {
        GONE => Some((path, None)),
        seen => Some((path, Some(FileStamp::read(seen)?))),
    };
    Ok(lines(&text).filter_map(file).collect())
}

fn setup_commits(worktree: &Worktree) -> Result<BTreeMap<BString, BTreeSet<ObjectId>>, Error> {
    let text = worktree.notes.read(COMMITS, LONGEST)?.unwrap_or_default();
    let mut commits: BTreeMap<BString, BTreeSet<ObjectId>> = BTreeMap::new();
    for (id, path) in lines(&text) {
        commits.entry(path).or_default().extend(ObjectId::from_hex(id.as_bytes()).ok());
    }
    Ok(commits)
}

/// Adds what is in one submodule and in those below it. `at` is the commit it is recorded at.
fn look_into(worktree: &Worktree, link: &BString, at: ObjectId, deepest: usize, look: &mut SubmoduleScan) {
    let inside = |path: BString| BString::from([link.as_bytes(), b"/", path.as_bytes()].concat());
    let looked = open_submodule(worktree, link).and_then(|handle| {
        look.met.extend(handle.git_dir().canonicalize().ok());
        look.take_commits(&handle, link, Some(at))?;
        if deepest == DEEPEST {
            look.take_moved(&handle, link, at)?;
        }
        changes_of(worktree, &handle, link, look.care)
    });
    let Ok((found, below)) = looked else {
        look.found.files.insert(RepoPath::new(link.to_vec()));
        return;
    };
    for path in found.into_iter().map(inside) {
        let seen = FileStamp::at(&worktree.disk_path(path.as_bstr()));
        if look.files.get(&path) != Some(&seen) {
            look.found.files.insert(RepoPath::new(path.to_vec()));
        }
    }
    for (link, at) in below.into_iter().map(|(link, at)| (inside(link), at)) {
        match deepest.checked_sub(1) {
            _ if !is_checked_out(&worktree.disk_path(link.as_bstr())) => {}
            Some(deepest) => look_into(worktree, &link, at, deepest, look),
            None => drop(look.found.files.insert(RepoPath::new(link.to_vec()))),
        }
    }
}

fn open_submodule(worktree: &Worktree, link: &BString) -> Result<gix::Repository, Error> {
    let place = worktree.disk_path(link.as_bstr());
    let unreadable = || Error::NotARepository { path: place.clone() };
    if !special_files_of(&place.join(".git")).is_empty() || has_special_files_below(&place) {
        return Err(unreadable());
    }
    let git_dir = linked_git_dir(&place)?.ok_or_else(unreadable)?;
    let mut handle = open_with(&git_dir, worktree.repo.shared.config.clone())?.to_thread_local();
    handle.set_workdir(place).doing("open a submodule")?;
    Ok(handle)
}

/// Opens the repository of a submodule without its files.
fn open_store(worktree: &Worktree, git_dir: &Path) -> Result<gix::Repository, Error> {
    if special_files_of(git_dir).is_empty() {
        Ok(open_with(git_dir, worktree.repo.shared.config.clone())?.to_thread_local())
    } else {
        Err(Error::NotARepository { path: git_dir.to_owned() })
    }
}

/// What differs from the commit a submodule is at, and the submodules in it.
fn changes_of(
    worktree: &Worktree,
    handle: &gix::Repository,
    link: &BString,
    care: CheckDepth,
) -> Result<(BTreeSet<BString>, Links), Error> {
    let head = handle.head_tree_id().doing("read a submodule")?.detach();
    let trusted = care == CheckDepth::Quick;
    let index = handle.index_path();
    let mut cache = Cache::read(handle, TreeId::from_gix(&head), &index, trusted, &SparseRules::default())?;
    let links = cache.links();
    let found = look_at_index(handle, cache.index(), &worktree.disk_path(link.as_bstr()), true)?.scan;
    let nested = found.nested.iter().chain(&found.submodules).map(|path| BString::from(path.as_bytes()));
    Ok((found.candidates.into_iter().chain(nested).collect(), links))
}

impl SubmoduleScan {
    /// Takes the commits that only the repository of a submodule has.
    fn take_commits(&mut self, handle: &gix::Repository, link: &BString, at: Option<ObjectId>) -> Result<(), Error> {
        let tips = Tips::read(handle)?;
        let setup_files = self.commits.get(link).into_iter().flatten().copied();
        let work = tips.unpublished(handle, &setup_files.chain(at).collect())?;
        if !work.is_empty() {
            self.found.commits.insert(RepoPath::new(link.to_vec()), work);
        }
        self.tips.insert(link.clone(), tips.own().collect());
        Ok(())
    }

    /// Notices a submodule that somebody has moved. One whose recorded commit has gone on since is only behind, and where
    /// that was never fetched, it was not moved.
    fn take_moved(&mut self, handle: &gix::Repository, link: &BString, at: ObjectId) -> Result<(), Error> {
        let head = handle.head_id().doing("read a submodule")?.detach();
        let is_begun = self.commits.get(link).is_some_and(|setup_files| setup_files.contains(&head));
        if !is_begun && handle.has_object(at) && !leads_to(handle, at, head)? {
            self.found.moved.insert(RepoPath::new(link.to_vec()));
        }
        Ok(())
    }
}

/// The repositories that git keeps of submodules in a git directory, by their names.
fn stores(git_dir: &Path, deepest: usize) -> Vec<(BString, PathBuf)> {
    let mut found = Vec::new();
    let mut waiting = vec![(BString::default(), git_dir.join("modules"), deepest)];
    while let Some((name, place, left)) = waiting.pop() {
        // What is not there, or none of git's, has no repository.
        for entry in std::fs::read_dir(&place).into_iter().flatten().flatten() {
            let (part, place) = (entry.file_name(), entry.path());
            let Some(left) = left.checked_sub(1).filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) else {
                continue;
            };
            let joint: &[u8] = if name.is_empty() { b"" } else { b"/" };
            let name = BString::from([name.as_bytes(), joint, part.as_encoded_bytes()].concat());
            if place.join("HEAD").symlink_metadata().is_ok() {
                waiting.push((name.clone(), place.join("modules"), left));
                found.push((name, place));
            } else {
                waiting.push((name, place, left))
            }
        }
    }
    found
}

/// The lines of a note: a word, and the path it is about.
fn lines(text: &[u8]) -> impl Iterator<Item = (&str, BString)> {
    text.split(|byte| *byte == 0).filter_map(|line| {
        let (word, path) = line.split_once_str(b" ")?;
        Some((std::str::from_utf8(word).ok()?, BString::from(path)))
    })
}

fn is_checked_out(place: &Path) -> bool {
    place.join(".git").symlink_metadata().is_ok()
}
