//! Checking the result of a merge by another way than it was made: by what differs between the trees. It costs what differs.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::attribute;
use super::diff::{self, ChangeKind, TreeChange};
use super::error::Error;
use super::id::{BlobId, TreeId};
use super::object::EntryKind;
use super::repo::Repo;
use pleach_core::ids::RepoPath;
use pleach_core::merge::loss_check::{
    FileChange, FileChanges, FileMode, FileVersion, MergeChanges, SideChanges, find_losses,
};
use pleach_core::merge::{LossExemptions, LossFinding};
use pleach_core::text::listed;

/// Changes that a merge result lacks or has of nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the merge result is wrong: {}", listed(findings, 10))]
pub struct LossyMerge {
    /// What is wrong, sorted by path; never empty.
    pub findings: Vec<LossFinding>,
}

/// Why a merge result does not pass.
#[derive(Debug, thiserror::Error)]
pub enum MergeCheckError {
    /// It is wrong.
    #[error(transparent)]
    Loss(#[from] LossyMerge),
    /// It could not be checked.
    #[error(transparent)]
    Git(#[from] Error),
}

/// Checks that `merged` has what `ours` and `theirs` changed of `base`, and nothing else. All four must be in the
/// repository, not only in a writer. Files with a `merge` attribute, as `ours` has them, are held to what that leaves.
/// Returns what would be wrong, were it not exempt.
pub fn check_merge_result(
    repo: &Repo,
    base: TreeId,
    ours: TreeId,
    theirs: TreeId,
    merged: TreeId,
    exemptions: &LossExemptions,
) -> Result<Vec<LossFinding>, MergeCheckError> {
    let is_plain = |from, to| from == base && merged == to;
    if is_plain(theirs, ours) || is_plain(ours, theirs) || ours == theirs && ours == merged {
        return Ok(Vec::new());
    }
    let mut changes = MergeChanges {
        ours: SideChanges { files: file_changes(repo, base, ours)?, ..SideChanges::default() },
        theirs: SideChanges { files: file_changes(repo, base, theirs)?, ..SideChanges::default() },
        merged: file_changes(repo, base, merged)?,
    };
    if is_rename_relevant(&changes.ours.files, &changes.theirs.files) {
        changes.ours.renames = diff::renames(repo, base, ours)?;
    }
    if is_rename_relevant(&changes.theirs.files, &changes.ours.files) {
        changes.theirs.renames = diff::renames(repo, base, theirs)?;
    }
    let found = find_losses(&changes, exemptions, |blob| repo.blob(BlobId::from_bytes(blob)))?;
    let findings = without_excused(repo, ours, found.wrong)?;
    if findings.is_empty() { Ok(found.exempt) } else { Err(LossyMerge { findings }.into()) }
}

fn file_changes(repo: &Repo, base: TreeId, tree: TreeId) -> Result<FileChanges, Error> {
    let changes = diff::changes(repo, base, tree)?;
    Ok(changes.into_iter().map(|TreeChange { path, kind }| (path, file_change(kind))).collect())
}

fn file_change(kind: ChangeKind) -> FileChange {
    match kind {
        ChangeKind::Added(kind, id) => FileChange { old: None, new: version(kind, id) },
        ChangeKind::Removed(kind, id) => FileChange { old: version(kind, id), new: None },
        ChangeKind::Modified(old, new) => FileChange { old: version(old.0, old.1), new: version(new.0, new.1) },
    }
}

/// A directory is what is in it.
fn version(kind: EntryKind, id: BlobId) -> Option<FileVersion> {
    let mode = match kind {
        EntryKind::File => FileMode::Plain,
        EntryKind::Executable => FileMode::Executable,
        EntryKind::Link => FileMode::Link,
        EntryKind::Submodule => FileMode::Submodule,
        EntryKind::Directory => return None,
    };
    Some(FileVersion { mode, blob: *id.as_bytes() })
}

/// Whether it makes a difference which files a side renamed: the other has touched one, or put another beside it. Finding
/// renames takes a process and the content of files, and mostly nobody needs to know.
fn is_rename_relevant(side: &FileChanges, other: &FileChanges) -> bool {
    let removed = || side.iter().filter(|(_, change)| change.new.is_none()).map(|(path, _)| path);
    if removed().next().is_none() || side.values().all(|change| change.old.is_some()) {
        return false;
    }
    let directories: BTreeSet<&[u8]> = removed().flat_map(above).collect();
    let added = other.iter().filter(|(_, change)| change.old.is_none()).map(|(path, _)| path);
    removed().any(|path| other.contains_key(path)) || added.flat_map(above).any(|dir| directories.contains(dir))
}

/// The directories a path is in.
fn above(path: &RepoPath) -> impl Iterator<Item = &[u8]> {
    let path = path.as_bytes();
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// The findings without those that a merge driver explains: a union keeps what a side removed, and a program of the user's
/// may do anything with lines.
fn without_excused(repo: &Repo, attributes: TreeId, findings: Vec<LossFinding>) -> Result<Vec<LossFinding>, Error> {
    let paths: BTreeSet<&RepoPath> =
        findings.iter().filter(|finding| finding.fault.depends_on_driver()).map(|finding| &finding.path).collect();
    let drivers = merge_drivers(repo, attributes, &paths)?;
    let is_excused = |LossFinding { path, fault }: &LossFinding| match drivers.get(path) {
        Some(MergeDriver::Union) => fault.is_of_more_lines(),
        Some(MergeDriver::Program) => fault.depends_on_driver(),
        None => false,
    };
    Ok(findings.into_iter().filter(|finding| !is_excused(finding)).collect())
}

/// How a file is merged other than by lines.
enum MergeDriver {
    Union,
    Program,
}

fn merge_drivers(
    repo: &Repo,
    attributes: TreeId,
    paths: &BTreeSet<&RepoPath>,
) -> Result<BTreeMap<RepoPath, MergeDriver>, Error> {
    let found = attribute(repo, attributes, "merge", paths)?;
    let local = repo.local();
    let settings = local.config_snapshot();
    let driver = |name: &[u8]| match name {
        b"union" => Some(MergeDriver::Union),
        b"unspecified" | b"set" | b"unset" | b"text" | b"binary" => None,
        // One without a program is merged by lines.
        name => {
            let program = settings.string(format!("merge.{}.driver", String::from_utf8_lossy(name)).as_str());
            program.map(|_| MergeDriver::Program)
        }
    };
    Ok(found.into_iter().filter_map(|(path, name)| Some((path, driver(&name)?))).collect())
}
