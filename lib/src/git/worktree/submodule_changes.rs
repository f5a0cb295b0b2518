//! Files in submodules that are checked out: no commit of the worktree's own repository can have them, and they go with the
//! worktree. What nobody has committed in a submodule is named, at any depth, before anything could remove it.
//!
//! The git directory of a submodule is the agent's to write, so nothing it says is run: it is opened with the settings of
//! the repository itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gix::bstr::{BString, ByteSlice as _};

use super::admin::linked_git_dir;
use super::cache::Cache;
use super::rules::Rules;
use super::scan::look_at_index;
use super::waits::{waits, waits_below};
use super::{Seen, Worktree};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::id::TreeId;
use crate::git::open::open_with;
use crate::ids::RepoPath;

/// The note of what the setup has left in submodules.
const NOTE: &str = "submodules";

/// What it has at most.
const LONGEST: u64 = 64 * 1024 * 1024;

/// How deep submodules are looked for in submodules.
const DEEPEST: usize = 16;

/// How closely files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// What the index of a submodule says of a file is believed.
    Quick,
    /// All files are read: an agent can write that index as well.
    Thorough,
}

impl Worktree {
    /// The files in submodules that are new or changed there; a submodule itself where nobody can tell. What the setup has
    /// left there is nobody's work.
    pub fn changed_in_submodules(&mut self, care: Care) -> Result<BTreeSet<RepoPath>, Error> {
        let links = self.cache.submodules();
        let is_there = |link: &BString| self.leads_to(link.as_bstr()) && is_checked_out(&self.place(link.as_bstr()));
        let links: Vec<BString> = links.into_iter().filter(is_there).collect();
        if links.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut changed = BTreeSet::new();
        for link in links {
            self.look_into(&link, care, DEEPEST, &mut changed);
        }
        let begun = self.begun_in_submodules()?;
        let is_begun =
            |path: &BString| begun.get(path).is_some_and(|seen| Seen::at(&self.place(path.as_bstr())) == Some(*seen));
        changed.retain(|path| !is_begun(path));
        Ok(changed.into_iter().map(|path| RepoPath::new(path.to_vec())).collect())
    }

    /// Takes what is changed in submodules now for the work of the setup.
    pub(super) fn note_submodules(&mut self) -> Result<(), Error> {
        self.notes.remove(NOTE)?;
        let changed = self.changed_in_submodules(Care::Quick)?;
        let line = |path: &RepoPath| {
            let seen = Seen::at(&self.place(path.as_bytes().as_bstr()))?;
            Some([format!("{seen} ").as_bytes(), path.as_bytes(), b"\0"].concat())
        };
        let text: Vec<u8> = changed.iter().filter_map(line).flatten().collect();
        if text.is_empty() { Ok(()) } else { self.notes.write(NOTE, &text) }
    }

    fn begun_in_submodules(&self) -> Result<BTreeMap<BString, Seen>, Error> {
        let text = self.notes.read(NOTE, LONGEST)?.unwrap_or_default();
        let line = |line: &[u8]| {
            let (seen, path) = line.split_once_str(b" ")?;
            Some((BString::from(path), Seen::read(std::str::from_utf8(seen).ok()?)?))
        };
        Ok(text.split(|byte| *byte == 0).filter_map(line).collect())
    }

    /// Adds what is changed in one submodule and in those below it.
    fn look_into(&self, link: &BString, care: Care, deepest: usize, changed: &mut BTreeSet<BString>) {
        let Ok((found, below)) = self.changes_of(link, care) else {
            changed.insert(link.clone());
            return;
        };
        let inside = |path: BString| BString::from([link.as_bytes(), b"/", path.as_bytes()].concat());
        changed.extend(found.into_iter().map(inside).filter(|path| self.is_there(path.as_bstr())));
        for link in below.into_iter().map(inside).filter(|link| is_checked_out(&self.place(link.as_bstr()))) {
            match deepest.checked_sub(1) {
                Some(deepest) => self.look_into(&link, care, deepest, changed),
                None => drop(changed.insert(link)),
            }
        }
    }

    /// What differs from the commit a submodule stands at, and the submodules in it.
    fn changes_of(&self, link: &BString, care: Care) -> Result<(BTreeSet<BString>, Vec<BString>), Error> {
        let place = self.place(link.as_bstr());
        let unreadable = |path: &Path| Error::NotARepository { path: path.to_owned() };
        if !waits(&place.join(".git")).is_empty() || waits_below(&place) {
            return Err(unreadable(&place));
        }
        let git_dir = linked_git_dir(&place)?.ok_or_else(|| unreadable(&place))?;
        let mut handle = open_with(&git_dir, self.repo.shared.config.clone())?.to_thread_local();
        handle.set_workdir(place.clone()).doing("open a submodule")?;
        let head = handle.head_tree_id().doing("read a submodule")?.detach();
        let trusted = care == Care::Quick;
        let index = handle.index_path();
        let mut cache = Cache::read(&handle, TreeId::from_gix(&head), &index, trusted, &Rules::default())?;
        let links = cache.submodules();
        let found = look_at_index(&handle, cache.index(), &place, true)?.scan;
        let nested = found.nested.iter().chain(&found.submodules).map(|path| BString::from(path.as_bytes()));
        Ok((found.candidates.into_iter().chain(nested).collect(), links))
    }
}

fn is_checked_out(place: &Path) -> bool {
    place.join(".git").symlink_metadata().is_ok()
}
