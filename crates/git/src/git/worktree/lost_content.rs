//! Files whose content the repository has lost: the worktree may hold the only copy.

use std::collections::BTreeSet;

use gix::bstr::BString;
use gix::index::entry::{Flags, Mode};

use super::add_failure::AddCause;
use super::filters::Filters;
use super::read_file::{self, FileState};
use super::{CommitLimits, Worktree};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::repo::Repo;
use crate::git::verify;
use crate::git::writer::Writer;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::text::listed;

/// How many paths a message names.
const NAMED: usize = 5;

/// Files of the recorded tree whose content the repository cannot read.
#[derive(Debug, Default)]
pub struct LostContent {
    /// Those the worktree has as they were recorded: a writer has collected them.
    pub found: Vec<RepoPath>,
    /// Those that are other files there, or none.
    pub lost: Vec<RepoPath>,
}

/// Collects the content that the repository cannot read from the files of the worktree, where they still fit its ids. What
/// is left out of the checkout is not looked at.
pub fn collect_lost_content(worktree: &mut Worktree, writer: &mut Writer) -> Result<LostContent, Error> {
    let unreadable = unreadable_files(&worktree.repo, worktree.cache.index())?;
    let mut content = LostContent::default();
    if unreadable.is_empty() {
        return Ok(content);
    }
    let (mut filters, mut found) = (Filters::new(worktree)?, BTreeSet::new());
    let mut lost = Vec::new();
    for (path, id) in unreadable {
        let (state, bytes) = read_file::content(worktree, path.as_ref(), &mut filters, &CommitLimits::NONE)?;
        let is_same = matches!(state, FileState::File(file) if file.id == id);
        if is_same && bytes.write(&id, writer)? {
            found.insert(id);
            content.found.push(RepoPath::new(path));
        } else {
            lost.push((path, id));
        }
    }
    lost.retain(|(_, id)| !found.contains(id));
    content.lost = lost.into_iter().map(|(path, _)| RepoPath::new(path)).collect();
    Ok(content)
}

impl LostContent {
    /// Refuses to go on without the files of a commit.
    pub(crate) fn refuse_lost(&self, commit: CommitId) -> Result<(), Error> {
        if self.lost.is_empty() {
            Ok(())
        } else {
            let paths = listed(self.lost.iter().map(|path| format!("`{path}`")), NAMED);
            Err(Error::FilesUnreadable { paths, commit })
        }
    }
}

/// What is behind a worktree that could not be made: which files of the commit cannot be read, if that is it.
pub(super) fn name_unreadable(repo: &Repo, commit: CommitId, error: Error) -> Error {
    let is_missing = matches!(&error, Error::NoWorktree(failure) if failure.cause == AddCause::MissingObjects);
    let found = || {
        let tree = repo.tree_of(commit)?.to_gix();
        let index = repo.local().index_from_tree(&tree).doing("read the tree of a commit")?;
        unreadable_files(repo, &index)
    };
    match is_missing.then(found) {
        Some(Ok(files)) => {
            let lost = files.into_iter().map(|(path, _)| RepoPath::new(path)).collect();
            LostContent { lost, ..LostContent::default() }.refuse_lost(commit).err().unwrap_or(error)
        }
        _ => error,
    }
}

/// The files of an index that are to be checked out and cannot be read.
fn unreadable_files(repo: &Repo, index: &gix::index::State) -> Result<Vec<(BString, gix::ObjectId)>, Error> {
    let is_file =
        |entry: &&gix::index::Entry| entry.mode != Mode::COMMIT && !entry.flags.contains(Flags::SKIP_WORKTREE);
    let files = || index.entries().iter().filter(is_file);
    let unreadable = verify::unreadable_blobs(repo, files().map(|entry| entry.id))?;
    let files = files().filter(|entry| unreadable.contains(&entry.id));
    Ok(files.map(|entry| (entry.path(index).to_owned(), entry.id)).collect())
}
