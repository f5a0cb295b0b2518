//! Files that stand in the way of a landing with the very content that lands: what a power cut leaves of one, or what
//! the user has taken over by hand. git refuses to touch them; told that they are meant, it goes on.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::error::Error;
use super::id::{BlobId, TreeId};
use super::object::{EntryKind, TreeEntry};
use super::repo::Repo;
use crate::ids::RepoPath;

impl Repo {
    /// Puts those of `paths` into the checkout's index that hold what `tree` has there, if all do, so that nothing
    /// is left in the way of `tree`. Otherwise names those that do not, and touches nothing.
    pub(super) fn adopt(&self, checkout: &Path, paths: &[RepoPath], tree: TreeId) -> Result<Vec<RepoPath>, Error> {
        let mut entries = Vec::new();
        let mut others = Vec::new();
        for path in paths {
            match self.tree_entry(tree, path)? {
                Some(entry) if has_kind(checkout, &entry) => entries.push(entry),
                _ => others.push(path.clone()),
            }
        }
        let found = self.hash_files(checkout, &entries)?;
        let differing = entries.iter().zip(&found).filter(|(entry, found)| entry.id != **found);
        others.extend(differing.map(|(entry, _)| entry.path.clone()));
        if others.is_empty() && !entries.is_empty() {
            let lines: Vec<u8> = entries.iter().flat_map(index_line).collect();
            let args = ["update-index", "-z", "--index-info"];
            self.shared.program.run_with_stdin(checkout, args, &lines)?.success()?;
        }
        others.sort();
        Ok(others)
    }

    /// The blobs the files of a checkout would become, through git's own filters.
    fn hash_files(&self, checkout: &Path, entries: &[TreeEntry]) -> Result<Vec<BlobId>, Error> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<u8> = entries.iter().flat_map(|entry| [entry.path.as_bytes(), b"\n"].concat()).collect();
        let finished = self.shared.program.run_with_stdin(checkout, ["hash-object", "--stdin-paths"], &names)?;
        let output = finished.success()?;
        let ids = String::from_utf8_lossy(&output).lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>();
        match ids.len() == entries.len() {
            true => Ok(ids),
            false => Err(Error::Library { doing: "compare files".into(), detail: "git left some out".into() }),
        }
    }
}

/// Whether a checkout has a plain file where a tree has one, and both can be run or neither.
fn has_kind(checkout: &Path, entry: &TreeEntry) -> bool {
    let path = checkout.join(std::ffi::OsStr::from_bytes(entry.path.as_bytes()));
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    let kind = if is_executable { EntryKind::Executable } else { EntryKind::File };
    metadata.is_file() && entry.kind == kind
}

/// `MODE SPACE ID TAB PATH NUL`
fn index_line(entry: &TreeEntry) -> Vec<u8> {
    let mode = if entry.kind == EntryKind::Executable { "100755" } else { "100644" };
    [format!("{mode} {}\t", entry.id).as_bytes(), entry.path.as_bytes(), b"\0"].concat()
}
