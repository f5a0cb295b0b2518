//! Content of commits from before the work began, read newest first and only as far as needed. Objects a partial or
//! shallow clone lacks are skipped: nothing is fetched.

use std::collections::{BinaryHeap, HashSet};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::git::error::{Error, LibraryContext as _};
use crate::git::history::time;
use crate::git::id::to_gix;
use crate::git::repo::Repo;
use pleach_core::ids::CommitId;

/// How many commits are read of each kind, to bound the time for a long history.
const MOST: usize = 5_000;

/// Where pleach's own refs are.
const OWN: &str = "refs/pleach/";

/// Where the content of a repository is found that is not new, though the recorded tree does not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// The commits the work is based on.
    pub own: Vec<CommitId>,
    /// What refs led to before the work began; none where they cannot have moved since.
    pub refs: Option<Vec<CommitId>>,
}

/// The content below such commits, as far as it was read.
pub(super) struct PastContent {
    handle: gix::Repository,
    /// What is still to begin with, the last first.
    tips: Vec<Vec<ObjectId>>,
    commits: BinaryHeap<(i64, ObjectId)>,
    trees: Vec<ObjectId>,
    /// Commits and trees that were met.
    met: HashSet<ObjectId>,
    /// How many commits of this kind may still be read.
    left: usize,
}

impl PastContent {
    pub fn new(repo: &Repo, handle: gix::Repository, past: &Past) -> Result<Self, Error> {
        let refs = match &past.refs {
            Some(refs) => refs.clone(),
            // What pleach keeps was held back, or undone: that is still to be looked at by somebody.
            None => repo.refs().list_except(&[OWN])?.into_values().collect(),
        };
        let tips = [&refs, &past.own].map(|tips| tips.iter().copied().map(to_gix).collect()).to_vec();
        Ok(Self { handle, tips, commits: BinaryHeap::new(), trees: Vec::new(), met: HashSet::new(), left: 0 })
    }

    /// Reads on, and takes the files it comes to. Returns whether there was anything left to read.
    pub fn read_on(&mut self, files: &mut HashSet<ObjectId>) -> Result<bool, Error> {
        if let Some(tree) = self.trees.pop() {
            self.read_tree(tree, files)?;
        } else if let (Some((_, commit)), 1..) = (self.commits.pop(), self.left) {
            self.left -= 1;
            self.read_commit(commit);
        } else if let Some(tips) = self.tips.pop() {
            (self.commits, self.left) = (BinaryHeap::new(), MOST);
            // All of them come before what is below any: their age is unknown.
            tips.into_iter().for_each(|tip| self.begin(tip));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Begins with a commit, or with what a tag is of.
    fn begin(&mut self, tip: ObjectId) {
        let found = self.handle.find_object(tip).ok().and_then(|found| found.peel_tags_to_end().ok());
        if let Some(commit) = found.filter(|found| found.kind == gix::objs::Kind::Commit).map(|found| found.id)
            && self.met.insert(commit)
        {
            self.commits.push((i64::MAX, commit));
        }
    }

    fn read_commit(&mut self, id: ObjectId) {
        let Ok(commit) = self.handle.find_commit(id) else { return };
        let Ok(commit) = commit.decode() else { return };
        let tree = commit.tree();
        if self.met.insert(tree) {
            self.trees.push(tree);
        }
        for parent in commit.parents().filter(|parent| !self.met.contains(parent)).collect::<Vec<_>>() {
            self.met.insert(parent);
            let committed = self
                .handle
                .find_commit(parent)
                .ok()
                .and_then(|parent| parent.decode().ok().map(|decoded| time(&decoded)));
            self.commits.extend(committed.map(|at| (at, parent)));
        }
    }

    fn read_tree(&mut self, id: ObjectId, files: &mut HashSet<ObjectId>) -> Result<(), Error> {
        let Ok(tree) = self.handle.find_tree(id) else { return Ok(()) };
        for entry in tree.iter() {
            let entry = entry.doing("read a tree")?;
            match entry.mode().kind() {
                EntryKind::Commit => {}
                EntryKind::Tree => self.trees.extend(self.met.insert(entry.object_id()).then(|| entry.object_id())),
                EntryKind::Blob | EntryKind::BlobExecutable | EntryKind::Link => {
                    files.insert(entry.object_id());
                }
            }
        }
        Ok(())
    }
}
