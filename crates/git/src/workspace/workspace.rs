//! The worktrees of a context, one per repository.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::Author;
use super::changes::Changes;
use super::error::Error;
use super::guard::{Guard, Guards};
use super::lock::Lock;
use super::recovery::{self, UndoResult};
use super::working_copy::WorkingCopy;
use super::{setup, submodules, turn_change};
use crate::git::{SubmoduleWork, TreeId};
use pleach_core::event::Snapshot;
use pleach_core::ids::{CommitId, NodeId, RepoName};

/// The trailer by which a commit names those of the same turn in other repositories.
const WITH: &str = "Pleach-With";

/// The worktrees of a context.
#[derive(Debug)]
pub struct Workspace {
    copies: BTreeMap<RepoName, WorkingCopy>,
    /// Others work in them as well: nothing is undone in them, and HEAD stays.
    is_shared: bool,
    /// The only repository the running node works in; it must not write in the others.
    focus: Option<RepoName>,
}

impl Workspace {
    /// The worktrees of some repositories.
    pub fn new(copies: impl IntoIterator<Item = WorkingCopy>) -> Self {
        Self {
            copies: copies.into_iter().map(|copy| (copy.name.clone(), copy)).collect(),
            is_shared: false,
            focus: None,
        }
    }

    /// The worktree of a repository.
    pub fn copy(&self, repo: &RepoName) -> Option<&WorkingCopy> {
        self.copies.get(repo)
    }

    /// The same, to change it.
    pub fn copy_mut(&mut self, repo: &RepoName) -> Option<&mut WorkingCopy> {
        self.copies.get_mut(repo)
    }

    /// All worktrees, by the names of their repositories.
    pub fn copies(&self) -> impl Iterator<Item = &WorkingCopy> {
        self.copies.values()
    }

    /// Takes the worktree of a repository out of it.
    pub fn take_copy(&mut self, repo: &RepoName) -> Option<WorkingCopy> {
        self.copies.remove(repo)
    }

    /// Limits the next node to one repository; with `None` it works in all of them.
    pub fn focus(&mut self, repo: Option<RepoName>) {
        self.focus = repo.filter(|_| self.copies.len() > 1);
    }

    /// Whether the running node may write in a repository.
    pub fn is_writable(&self, repo: &RepoName) -> bool {
        self.focus.as_ref().is_none_or(|focus| focus == repo)
    }

    /// Whether the running node may write in some of the repositories only.
    pub fn is_focused(&self) -> bool {
        self.focus.is_some()
    }

    /// The directory the running node starts in: the worktree of its repository, or the root.
    pub fn directory(&self) -> &Path {
        let focused = self.focus.as_ref().and_then(|repo| self.copies.get(repo));
        focused.map_or_else(|| self.root(), WorkingCopy::path)
    }

    /// The worktree, or the directory that holds all of them.
    pub fn root(&self) -> &Path {
        let mut paths = self.copies.values().map(WorkingCopy::path);
        match (paths.next(), paths.next()) {
            (Some(only), None) => only,
            (Some(one), Some(_)) => one.parent().unwrap_or(one),
            (None, _) => Path::new("/"),
        }
    }

    /// The locks that are held as long as anything runs in it.
    pub fn locks(&self) -> Vec<Arc<File>> {
        self.copies.values().map(|copy| Lock::file(copy.lock())).collect()
    }

    /// What changed since the newest recorded commits, without commits of it yet. `candidates` are the only paths that can
    /// have changed, where that is known; none means a scan of everything.
    pub fn scan(&mut self, candidates: Option<&[PathBuf]>) -> Result<Changes, Error> {
        let several = self.copies.len() > 1;
        let focus = self.focus.clone();
        let mut by_repo = BTreeMap::new();
        for (repo, copy) in &mut self.copies {
            // What is written there nevertheless is undone at the node's end.
            if focus.as_ref().is_some_and(|focus| focus != repo) {
                by_repo.insert(repo.clone(), turn_change::unchanged(copy)?);
                continue;
            }
            let own: Option<Vec<PathBuf>> = candidates.map(|paths| {
                let is_own = |path: &&PathBuf| !several || path.starts_with(copy.path());
                paths.iter().filter(is_own).cloned().collect()
            });
            by_repo.insert(repo.clone(), turn_change::find_changes(copy, own.as_deref())?);
        }
        Ok(Changes { by_repo })
    }

    /// A change of nothing, for a turn of a node that must not write.
    pub fn unchanged(&self) -> Result<Changes, Error> {
        let by_repo = self.copies.iter().map(|(repo, copy)| Ok((repo.clone(), turn_change::unchanged(copy)?)));
        Ok(Changes { by_repo: by_repo.collect::<Result<_, Error>>()? })
    }

    /// The change that consists of commits which are on disk already.
    pub fn commit_trees(&self, commits: &Snapshot) -> Result<Changes, Error> {
        let mut changes = self.unchanged()?;
        for (repo, change) in &mut changes.by_repo {
            if let (Some(commit), Some(copy)) = (commits.get(repo), self.copies.get(repo)) {
                (change.commit, change.tree) = (Some(*commit), copy.repo.tree_of(*commit)?);
            }
        }
        Ok(changes)
    }

    /// The same worktrees once more, for a context that must not write and shares them with others.
    pub fn share(&self) -> Result<Self, Error> {
        let copies = self.copies.values().map(WorkingCopy::share).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { is_shared: true, ..Self::new(copies) })
    }

    /// Makes the commits of a change, in the order of the names, each naming those before it.
    pub fn commit(&self, author: &Author<'_>, changes: &mut Changes) -> Result<(), Error> {
        let mut before: Vec<(String, String)> = Vec::new();
        for (repo, change) in &mut changes.by_repo {
            let Some(copy) = self.copies.get(repo) else { continue };
            let trailers = author.trailers.iter().chain(&before).cloned().collect();
            let author = Author { facts: author.facts.clone(), trailers, at: author.at, message: author.message };
            turn_change::commit_change(copy, &author, change)?;
            before.extend(change.commit.map(|commit| (WITH.to_owned(), format!("{repo}@{commit}"))));
        }
        Ok(())
    }

    /// The change as a patch, if there is anything in it. Its objects are on disk then.
    pub fn patch(&self, changes: &mut Changes) -> Result<Option<String>, Error> {
        let mut patches = Vec::new();
        for (repo, change) in &mut changes.by_repo {
            if let Some(copy) = self.copies.get(repo) {
                patches.extend(turn_change::patch(copy, change)?);
            }
        }
        Ok((!patches.is_empty()).then(|| patches.concat()))
    }

    /// Takes a change as recorded: what comes next is compared with it.
    pub fn accept(&mut self, changes: &Changes) -> Result<(), Error> {
        for (repo, change) in &changes.by_repo {
            if let Some(copy) = self.copies.get_mut(repo) {
                copy.accept(change)?;
            }
        }
        Ok(())
    }

    /// The user's checkouts of these repositories have followed the branch.
    pub fn checkouts_followed(&mut self, repos: &[RepoName]) {
        for repo in repos {
            if let Some(copy) = self.copies.get_mut(repo) {
                copy.checkout_followed();
            }
        }
    }

    /// What agents must leave alone, as it is before a node that may write.
    pub fn look_before(&mut self, own: &BTreeMap<RepoName, String>, kept: &str) -> Result<Guards, Error> {
        self.looks(|copy| copy.look_before(own_of(own, &copy.name), kept))
    }

    /// The same now.
    pub fn look(&mut self, own: &BTreeMap<RepoName, String>, kept: &str) -> Result<Guards, Error> {
        self.looks(|copy| copy.look(own_of(own, &copy.name), kept))
    }

    /// The part of it that also a bound agent can change.
    pub fn look_near(&mut self) -> Result<Guards, Error> {
        self.looks(|copy| copy.look_near())
    }

    fn looks(&mut self, look: impl Fn(&mut WorkingCopy) -> Result<Guard, Error>) -> Result<Guards, Error> {
        let looks = self.copies.iter_mut().map(|(repo, copy)| Ok((repo.clone(), look(copy)?)));
        looks.collect::<Result<_, Error>>().map(Guards)
    }

    /// Keeps a look for the node that comes next.
    pub fn keep_look(&mut self, look: Guards) {
        for (repo, look) in look.0 {
            if let Some(copy) = self.copies.get_mut(&repo) {
                copy.keep_look(look);
            }
        }
    }

    /// What was seen last is no longer so.
    pub fn forget_look(&mut self) {
        self.copies.values_mut().for_each(WorkingCopy::forget_look);
    }

    /// Restores removed refs of saved work. Returns their names.
    pub fn put_back(&self, before: &Guards, after: &Guards, kept: &str) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for copy in self.copies.values() {
            let (Some(before), Some(after)) = (before.0.get(&copy.name), after.0.get(&copy.name)) else { continue };
            for (name, id) in before.lost(after, kept) {
                let now = copy.repo.refs().find(&name)?;
                copy.repo.refs().swap(&name, now, id, "pleach: put back").map_err(crate::git::Error::from)?;
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Lets others work in it from now on: programs of a node, or the user.
    pub fn release(&mut self) {
        self.copies.values_mut().for_each(WorkingCopy::release);
    }

    /// The programs of a node have ended: only pleach writes there.
    pub fn acquire(&mut self) {
        self.copies.values_mut().for_each(WorkingCopy::acquire);
    }

    /// Ties the worktrees to their repositories again. Returns where things are that had to make way.
    pub fn tie(&mut self) -> Result<Vec<PathBuf>, Error> {
        let tied = self.copies.values_mut().map(WorkingCopy::tie);
        Ok(tied.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Notes what is no more of the setup where a node must not write: in all repositories, or in all but its own.
    pub fn note_setup(&mut self, writes: bool) -> Result<(), Error> {
        self.read_only(writes).try_for_each(setup::note_undone_setup)
    }

    /// Undoes what a node has written where it must not write, after saving it.
    pub fn undo(&mut self, node: &NodeId, writes: bool) -> Result<Vec<UndoResult>, Error> {
        self.read_only(writes).map(|copy| recovery::undo(copy, node)).collect()
    }

    /// Lays the files the running node began with, for an agent that repeats its recorded work.
    pub fn lay_base(&mut self) -> Result<(), Error> {
        self.copies.values_mut().try_for_each(recovery::lay_base)
    }

    /// Brings the recorded files back once that is repeated. Returns the refs under which is kept what it made otherwise.
    pub fn end_redrive(&mut self) -> Result<Vec<String>, Error> {
        let ended = self.copies.values_mut().map(recovery::end_redrive).collect::<Result<Vec<_>, _>>()?;
        Ok(ended.into_iter().flatten().collect())
    }

    /// Whether others work in the same worktrees.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The worktrees a node must not write in: all, or with `writes` those of other repositories than its own.
    fn read_only(&mut self, writes: bool) -> impl Iterator<Item = &mut WorkingCopy> {
        let (is_shared, focus) = (self.is_shared, self.focus.as_ref());
        let is_own = move |repo: &RepoName| writes && focus.is_none_or(|focus| focus == repo);
        self.copies.iter_mut().filter(move |(repo, _)| !is_shared && !is_own(repo)).map(|(_, copy)| copy)
    }

    /// Whether the running node has changed anything that is recorded.
    pub fn has_changed(&self) -> Result<bool, Error> {
        for copy in self.copies.values() {
            if copy.has_changed()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many files of it are not committed, though they are new or changed.
    pub fn held_back(&self) -> usize {
        self.copies.values().map(WorkingCopy::held_back).sum()
    }

    /// What of it is not committed and not ignored either as it is now, in words.
    pub fn left_out(&mut self) -> Result<Vec<String>, Error> {
        let left_out = self.copies.values_mut().map(turn_change::uncommitted_in_words);
        Ok(left_out.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// What lies in submodules and nowhere else, by worktree.
    pub fn submodule_work(&mut self) -> Result<Vec<SubmoduleWork>, Error> {
        self.copies.values_mut().map(submodules::submodule_work).collect()
    }

    /// Whether the commits of turns are on the session's branch, where people see them.
    pub fn carries_turns(&self) -> bool {
        self.copies.values().all(WorkingCopy::carries_turns)
    }

    /// The trees of the newest recorded commits.
    pub fn trees(&self) -> Result<BTreeMap<RepoName, TreeId>, Error> {
        self.copies.iter().map(|(repo, copy)| Ok((repo.clone(), copy.tree()?))).collect()
    }

    /// Ends a node: HEAD and index follow to the newest recorded commits.
    pub fn follow(&mut self) -> Result<(), Error> {
        if self.is_shared { Ok(()) } else { self.copies.values_mut().try_for_each(WorkingCopy::follow) }
    }

    /// Takes a commit that was prepared here and is recorded by now.
    pub fn take(&mut self, repo: &RepoName, commit: CommitId, tree: TreeId) -> Result<(), Error> {
        match self.copies.get_mut(repo) {
            Some(copy) => copy.take(commit, tree),
            None => Ok(()),
        }
    }
}

fn own_of<'a>(own: &'a BTreeMap<RepoName, String>, repo: &RepoName) -> &'a str {
    own.get(repo).map_or("", String::as_str)
}
