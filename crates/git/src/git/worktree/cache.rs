//! The recorded files of a worktree: for each path its object and the file's stat when it was recorded. Only a cache: a
//! stat that does not match makes the file be read again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stage, Stat};
use gix::index::{File, State};

use super::rule_files::RULES;
use super::sparse_rules::{LEFT_OUT, SparseRules};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::id::TreeId;

/// What is known about one path.
#[derive(Debug, Clone)]
pub(super) struct CachedEntry {
    pub id: gix::ObjectId,
    pub mode: Mode,
    pub stat: Stat,
}

/// An index in memory and the changes since it was built. The changes are kept apart because putting one into the
/// index costs as much as the repository is large.
pub(super) struct Cache {
    index: File,
    pending: BTreeMap<BString, Option<CachedEntry>>,
    /// Whether some files may be left out of the checkout on purpose.
    sparse: bool,
    /// What the index it was built from had otherwise.
    pub staged: Vec<BString>,
}

/// The links of submodules, with the commit each names.
pub(super) type Links = Vec<(BString, gix::ObjectId)>;

impl Cache {
    pub fn empty(handle: &gix::Repository) -> Self {
        let index = File::from_state(State::new(handle.object_hash()), handle.index_path());
        Self { index, pending: BTreeMap::new(), sparse: false, staged: Vec::new() }
    }

    /// A cache for `tree`, with the stats `from` has for the same content. What the rules leave out is marked, but for what
    /// came to be there all the same as `from` has it.
    pub fn build(handle: &gix::Repository, tree: TreeId, from: &State, rules: &SparseRules) -> Result<Self, Error> {
        Self::with_stats(index_of(handle, tree)?, from, true, rules)
    }

    /// The same with the stats of the worktree's own index, read meanwhile; without any when it is missing or damaged, or
    /// not `trusted`: a forged index could claim that a changed file is unchanged.
    pub fn read(
        handle: &gix::Repository,
        tree: TreeId,
        own: &Path,
        trusted: bool,
        rules: &SparseRules,
    ) -> Result<Self, Error> {
        let hash = handle.object_hash();
        let (index, from) = std::thread::scope(|scope| {
            let read = move || {
                let file = File::at(own, hash, false, Default::default());
                file.map_or_else(|_| State::new(hash), |file| file.into_parts().0)
            };
            let from = std::thread::Builder::new().spawn_scoped(scope, read);
            let index = index_of(handle, tree);
            // Without a thread it is read afterwards.
            (index, from.map_or_else(|_| read(), |from| from.join().unwrap_or_else(|_| State::new(hash))))
        });
        Self::with_stats(index?, &from, trusted, rules)
    }

    fn with_stats(mut index: File, from: &State, trusted: bool, rules: &SparseRules) -> Result<Self, Error> {
        // Entries as new as the source itself may have changed without their stat showing it; they are looked at.
        index.set_timestamp(from.timestamp());
        rules.mark(&mut index)?;
        let mut old = from.entries().iter().peekable();
        let mut staged = Vec::new();
        let (entries, paths) = index.entries_mut_and_pathbacking();
        for entry in entries {
            let path = entry.path_in(paths);
            while let Some(added) = old.next_if(|known| known.path(from) < path) {
                staged.push(added.path(from).to_owned());
            }
            let has_it = |known: &&gix::index::Entry| {
                known.path(from) == path && known.stage_raw() == 0 && known.id == entry.id && known.mode == entry.mode
            };
            if !old.peek().is_some_and(has_it) {
                staged.push(path.to_owned());
            }
            while let Some(known) = old.next_if(|known| known.path(from) == path) {
                if trusted && known.stage_raw() == 0 && known.id == entry.id && known.mode == entry.mode {
                    entry.stat = known.stat;
                }
                // One that was never on disk has no stat: that its mark is gone does not say that it was made.
                if !known.flags.contains(Flags::SKIP_WORKTREE) && known.stat != Stat::default() {
                    entry.flags.remove(LEFT_OUT);
                }
            }
        }
        staged.extend(old.map(|added| added.path(from).to_owned()));
        // There is none, or it has directories in place of what is in them.
        if from.entries().is_empty() || from.is_sparse() {
            staged.clear();
        }
        let sparse = !rules.is_empty();
        Ok(Self { index, pending: BTreeMap::new(), sparse, staged })
    }

    pub fn known(&self, path: &BStr) -> Option<CachedEntry> {
        match self.pending.get(path) {
            Some(known) => known.clone(),
            None => self.index.entry_by_path(path).map(|entry| CachedEntry {
                id: entry.id,
                mode: entry.mode,
                stat: entry.stat,
            }),
        }
    }

    /// Whether the tree has the link of a submodule at a path.
    pub fn is_submodule(&self, path: &BStr) -> bool {
        self.known(path).is_some_and(|known| known.mode == Mode::COMMIT)
    }

    /// All submodules.
    pub fn submodules(&mut self) -> Vec<BString> {
        self.links().into_iter().map(|(path, _)| path).collect()
    }

    /// The same with the commit each names.
    pub fn links(&mut self) -> Links {
        let index = &*self.index();
        let links = index.entries().iter().filter(|entry| entry.mode == Mode::COMMIT);
        links.map(|entry| (entry.path(index).to_owned(), entry.id)).collect()
    }

    /// The content of files that say how others are read.
    pub fn rule_files(&mut self) -> Vec<gix::ObjectId> {
        let index = &*self.index();
        let is_rule = |path: &BStr| RULES.contains(&path.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
        let files = index.entries().iter().filter(|entry| entry.mode != Mode::COMMIT && is_rule(entry.path(index)));
        files.map(|entry| entry.id).collect()
    }

    /// Whether the path is left out of a sparse checkout.
    pub fn is_skipped(&self, path: &BStr) -> bool {
        let entry = self.index.entry_by_path(path);
        !self.pending.contains_key(path) && entry.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
    }

    /// The index, if it leaves files out: their attribute files are then not on disk either.
    pub fn sparse_index(&self) -> Option<&State> {
        let skips = |entry: &gix::index::Entry| entry.flags.contains(Flags::SKIP_WORKTREE);
        self.sparse.then_some(&*self.index).filter(|index| index.entries().iter().any(skips))
    }

    /// All tracked paths below a directory, given without its final slash.
    pub fn below(&self, directory: &BStr) -> BTreeSet<BString> {
        let prefix = BString::from([directory.as_bytes(), b"/"].concat());
        let entries = self.index.prefixed_entries(prefix.as_bstr()).unwrap_or_default();
        let mut paths: BTreeSet<BString> = entries.iter().map(|entry| entry.path(&self.index).to_owned()).collect();
        for (path, known) in self.pending.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix)) {
            match known {
                Some(_) => paths.insert(path.clone()),
                None => paths.remove(path),
            };
        }
        paths
    }

    /// All paths of the tree, with what they are.
    pub fn paths(&mut self) -> Vec<(BString, Mode)> {
        let index = &*self.index();
        index.entries().iter().map(|entry| (entry.path(index).to_owned(), entry.mode)).collect()
    }

    /// The paths that are left out.
    pub fn left_out(&mut self) -> BTreeSet<BString> {
        let index = &*self.index();
        let marked = index.entries().iter().filter(|entry| entry.flags.contains(Flags::SKIP_WORKTREE));
        marked.map(|entry| entry.path(index).to_owned()).collect()
    }

    /// Marks what the rules leave out, whatever came to be there before.
    pub fn mark_again(&mut self, rules: &SparseRules) -> Result<(), Error> {
        self.sparse = !rules.is_empty();
        let index = self.index();
        index.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(LEFT_OUT));
        rules.mark(index)
    }

    /// Takes what another tree has, and leaves out of it what the rules say.
    pub fn turn_to(&mut self, entries: Vec<(BString, Option<CachedEntry>)>, rules: &SparseRules) -> Result<(), Error> {
        let there = entries.iter().filter_map(|(path, known)| Some((path.clone(), known.as_ref()?.mode)));
        let left_out = if rules.is_empty() { Vec::new() } else { rules.leave_out(&there.collect::<Vec<_>>())? };
        self.apply(entries);
        if !left_out.is_empty() {
            let index = self.index();
            for path in left_out {
                let entry = index.entry_mut_by_path_and_stage(path.as_bstr(), Stage::Unconflicted);
                entry.into_iter().for_each(|entry| entry.flags.insert(LEFT_OUT));
            }
        }
        Ok(())
    }

    pub fn apply(&mut self, entries: Vec<(BString, Option<CachedEntry>)>) {
        self.pending.extend(entries);
    }

    /// Takes other stats for files whose content was looked at and is the recorded one.
    pub fn refresh(&mut self, stats: &[(BString, Stat)]) {
        for (path, stat) in stats {
            let entry = self.index.entry_mut_by_path_and_stage(path.as_bstr(), Stage::Unconflicted);
            if let Some(entry) = entry {
                entry.stat = *stat;
            }
        }
    }

    /// Forgets what tracked files looked like that are seen to differ. Git would take one for unchanged that was written
    /// within a second and has the same size.
    pub fn forget_stats<'a>(&mut self, paths: impl IntoIterator<Item = &'a BString>) {
        for path in paths {
            let known = match self.pending.get_mut(path) {
                Some(known) => known.as_mut().map(|known| &mut known.stat),
                None => {
                    let stage = gix::index::entry::Stage::Unconflicted;
                    self.index.entry_mut_by_path_and_stage(path.as_bstr(), stage).map(|entry| &mut entry.stat)
                }
            };
            if let Some(stat) = known {
                // By another size a file is known to differ without being read.
                *stat = Stat { size: stat.size, ..Stat::default() };
            }
        }
    }

    /// The index with all changes in it.
    pub fn index(&mut self) -> &mut File {
        if !self.pending.is_empty() {
            self.merge();
        }
        &mut self.index
    }

    fn merge(&mut self) {
        let mut added = Vec::new();
        let mut removed = BTreeSet::new();
        for (path, known) in std::mem::take(&mut self.pending) {
            let entry = self.index.entry_mut_by_path_and_stage(path.as_bstr(), Stage::Unconflicted);
            match (known, entry) {
                (Some(known), Some(entry)) => {
                    (entry.id, entry.mode, entry.stat) = (known.id, known.mode, known.stat);
                    entry.flags = Flags::empty();
                }
                (Some(known), None) => added.push((path, known)),
                (None, Some(_)) => {
                    removed.insert(path);
                }
                (None, None) => {}
            }
        }
        if !removed.is_empty() {
            self.index.remove_entries(|_, path, _| removed.contains(path));
        }
        if !added.is_empty() {
            for (path, known) in added {
                self.index.dangerously_push_entry(known.stat, known.id, Flags::empty(), known.mode, path.as_bstr());
            }
            self.index.sort_entries();
        }
    }
}

fn index_of(handle: &gix::Repository, tree: TreeId) -> Result<File, Error> {
    handle.index_from_tree(&tree.to_gix()).doing("read the tree of a worktree")
}

/// What becomes known about the files once the tree is recorded.
pub(super) struct StagedTree {
    pub tree: TreeId,
    pub entries: Vec<(BString, Option<CachedEntry>)>,
}
