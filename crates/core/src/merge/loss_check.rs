//! Whether a merge result has all that both sides changed, and nothing else. It knows the three trees and the result, and
//! nothing of what merged them: a merge that is wrong is not asked whether it is right.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::line_check::{Texts, check_lines};
use super::loss_exemptions::{LossExemptions, without_hunks};
use super::loss_finding::{LossFinding, MergeFault, MergeSides};
use crate::ids::RepoPath;

/// What a tree has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    pub mode: FileMode,
    pub blob: BlobKey,
}

/// The id of a content, whatever it is the content of.
pub(crate) type BlobKey = [u8; 20];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    Plain,
    Executable,
    Link,
    Submodule,
}

/// How a tree differs from the base at a path; none where there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub old: Option<FileVersion>,
    pub new: Option<FileVersion>,
}

pub type FileChanges = BTreeMap<RepoPath, FileChange>;

/// What a side changed: a renamed file is one removed and one added, and has its new name by its old one.
#[derive(Debug, Clone, Default)]
pub struct SideChanges {
    pub files: FileChanges,
    pub renames: BTreeMap<RepoPath, RepoPath>,
}

/// A merge and its result, each as what differs from the base.
#[derive(Debug, Clone, Default)]
pub struct MergeChanges {
    pub ours: SideChanges,
    pub theirs: SideChanges,
    pub merged: FileChanges,
}

/// What is wrong with a merge result, sorted by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossFindings {
    pub wrong: Vec<LossFinding>,
    /// What would be wrong, if the merge did not say how it came about.
    pub exempt: Vec<LossFinding>,
}

/// Everything that is wrong with a merge result. `content` reads the files that both sides changed, and no others.
pub fn find_losses<E>(
    changes: &MergeChanges,
    exemptions: &LossExemptions,
    content: impl Fn(BlobKey) -> Result<Vec<u8>, E>,
) -> Result<LossFindings, E> {
    let files = changes.merged_files();
    let mut wrong: BTreeMap<&RepoPath, Vec<MergeFault>> = BTreeMap::new();
    for (path, file) in &files {
        let faults = file.check(&exemptions.hunks(path), &content)?;
        if !faults.is_empty() {
            wrong.insert(path, faults);
        }
    }
    let suspects: Vec<&RepoPath> = wrong.keys().copied().collect();
    for path in suspects {
        let explained = match changes.unseen_source(path, &files, &content)? {
            Some(source) => Some(source),
            None => changes.moved_along(path, &files),
        };
        if let Some(other) = explained {
            wrong.remove(path);
            wrong.remove(&other);
        }
    }
    let findings = wrong
        .into_iter()
        .flat_map(|(path, faults)| faults.into_iter().map(move |fault| LossFinding { path: path.clone(), fault }));
    let is_exempt = |found: &LossFinding| match found.fault {
        MergeFault::MarkersLeft(_) => false,
        MergeFault::LinesInvented(_) | MergeFault::LinesRepeated(_) if exemptions.extended.contains(&found.path) => {
            true
        }
        _ => exemptions.is_whole(&found.path),
    };
    let (exempt, wrong) = findings.partition(is_exempt);
    Ok(LossFindings { wrong, exempt })
}

/// A file in all four trees. Where a side renamed it, under its names there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MergedFile {
    base: Option<FileVersion>,
    ours: Option<FileVersion>,
    theirs: Option<FileVersion>,
    merged: Option<FileVersion>,
}

type MergedFiles = BTreeMap<RepoPath, MergedFile>;

impl SideChanges {
    fn at(&self, path: &RepoPath, base: Option<FileVersion>) -> Option<FileVersion> {
        self.files.get(path).map_or(base, |change| change.new)
    }

    fn has_removed(&self, path: &RepoPath) -> bool {
        self.files.get(path).is_some_and(|change| change.new.is_none())
    }

    /// What this side has of a file that the other renamed; none where it did not touch it, or there is nothing the two can
    /// be merged to.
    fn of_renamed(&self, from: &RepoPath, to: &RepoPath) -> Option<FileVersion> {
        match self.renames.get(from) {
            Some(same) if same == to => self.files.get(to)?.new,
            Some(_) => None,
            None if self.files.contains_key(to) => None,
            None => self.files.get(from)?.new,
        }
    }
}

impl MergeChanges {
    /// Every path that any of the trees changed, with renamed files put together.
    fn merged_files(&self) -> MergedFiles {
        let trees = [&self.ours.files, &self.theirs.files, &self.merged];
        let old = trees.iter().flat_map(|tree| tree.iter()).map(|(path, change)| (path.clone(), change.old));
        let mut files: MergedFiles = old.map(|(path, base)| (path.clone(), self.merged_file(&path, base))).collect();
        for (from, to) in &self.ours.renames {
            if let Some(theirs) = self.theirs.of_renamed(from, to) {
                self.join(&mut files, from, to, self.ours.at(to, None), Some(theirs));
            }
        }
        for (from, to) in &self.theirs.renames {
            if let Some(ours) = self.ours.of_renamed(from, to) {
                self.join(&mut files, from, to, Some(ours), self.theirs.at(to, None));
            }
        }
        files
    }

    fn merged_file(&self, path: &RepoPath, base: Option<FileVersion>) -> MergedFile {
        let merged = self.merged.get(path).map_or(base, |change| change.new);
        MergedFile { base, ours: self.ours.at(path, base), theirs: self.theirs.at(path, base), merged }
    }

    /// Takes a file that was renamed for one that both sides touched at its new name. At its old name it was only removed.
    fn join(
        &self,
        files: &mut MergedFiles,
        from: &RepoPath,
        to: &RepoPath,
        ours: Option<FileVersion>,
        theirs: Option<FileVersion>,
    ) {
        let Some(base) = files.get(from).and_then(|file| file.base) else { return };
        if let Some(file) = files.get_mut(to) {
            *file = MergedFile { base: Some(base), ours, theirs, merged: file.merged };
        }
        if let Some(file) = files.get_mut(from) {
            let kept = |side: &SideChanges| (!side.has_removed(from)).then_some(base);
            *file = MergedFile { ours: kept(&self.ours), theirs: kept(&self.theirs), ..*file };
        }
    }

    /// The old name of a file that one side renamed although that was not seen as a rename: which of several files another
    /// became is a guess. It was renamed if the result has what the other side changed at the old name.
    fn unseen_source<E>(
        &self,
        path: &RepoPath,
        files: &MergedFiles,
        content: &impl Fn(BlobKey) -> Result<Vec<u8>, E>,
    ) -> Result<Option<RepoPath>, E> {
        let Some(file @ MergedFile { base: None, merged: Some(_), .. }) = files.get(path) else { return Ok(None) };
        let renamer = match (file.ours, file.theirs) {
            (Some(_), None) => &self.ours,
            (None, Some(_)) => &self.theirs,
            _ => return Ok(None),
        };
        for (from, source) in files.iter().filter(|(from, _)| renamer.has_removed(from)) {
            let MergedFile { base: Some(_), merged: None, .. } = source else { continue };
            let joined = MergedFile {
                base: source.base,
                ours: file.ours.or(source.ours),
                theirs: file.theirs.or(source.theirs),
                merged: file.merged,
            };
            let is_touched_by_both = joined.ours.is_some() && joined.theirs.is_some();
            if is_touched_by_both && joined.check(&BTreeSet::new(), content)?.is_empty() {
                return Ok(Some(from.clone()));
            }
        }
        Ok(None)
    }

    /// Where a file is that one side added in a directory the other side renamed: git may put it into the new one.
    fn moved_along(&self, path: &RepoPath, files: &MergedFiles) -> Option<RepoPath> {
        let file = files.get(path).filter(|file| file.base.is_none() && file.merged.is_none())?;
        let (added, renames) = match (file.ours, file.theirs) {
            (Some(added), None) => (added, &self.theirs.renames),
            (None, Some(added)) => (added, &self.ours.renames),
            _ => return None,
        };
        let expected = MergedFile { base: None, ours: None, theirs: None, merged: Some(added) };
        let places = renames.iter().flat_map(|(from, to)| moved_places(path, from, to));
        places.into_iter().find(|place| files.get(place) == Some(&expected))
    }
}

/// Where a path would be if the directories that renamed one file moved it as well.
fn moved_places(path: &RepoPath, from: &RepoPath, to: &RepoPath) -> Vec<RepoPath> {
    let (mut old, mut new) = (parent(from.as_bytes()), parent(to.as_bytes()));
    let mut places = Vec::new();
    while !old.is_empty() {
        let rest = path.as_bytes().strip_prefix(old).and_then(|rest| rest.strip_prefix(b"/"));
        let joint: &[u8] = if new.is_empty() { b"" } else { b"/" };
        places.extend(rest.map(|rest| RepoPath::new([new, joint, rest].concat())));
        if old.rsplit(is_slash).next() != new.rsplit(is_slash).next() {
            break;
        }
        (old, new) = (parent(old), parent(new));
    }
    places
}

/// The directory a path is in, empty at the top.
fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(is_slash).map_or(&[], |at| &path[..at])
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

/// What there has to be, and whose change it is; none where no side changed it.
type Expected<T> = (Option<T>, Option<MergeSides>);

/// What a merge has to have where at most one side, or both the same way, changed something. None where it has to be merged.
fn expected<T: PartialEq + Copy>(base: Option<T>, ours: Option<T>, theirs: Option<T>) -> Option<Expected<T>> {
    match (ours == base, theirs == base) {
        (true, true) => Some((base, None)),
        (true, false) => Some((theirs, Some(MergeSides::Branch))),
        (false, true) => Some((ours, Some(MergeSides::Target))),
        (false, false) => (ours == theirs).then_some((ours, Some(MergeSides::Both))),
    }
}

impl MergedFile {
    fn check<E>(
        &self,
        exempt: &BTreeSet<usize>,
        content: &impl Fn(BlobKey) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<MergeFault>, E> {
        if let Some((file, sides)) = expected(self.base, self.ours, self.theirs) {
            return Ok(mismatch(file, self.merged, sides).into_iter().collect());
        }
        if self.ours.is_some() && self.theirs.is_some() && self.merged.is_none() {
            return Ok(vec![MergeFault::FileMissing(MergeSides::Both)]);
        }
        let versions = [self.base, self.ours, self.theirs, self.merged];
        if versions.iter().flatten().any(|version| matches!(version.mode, FileMode::Link | FileMode::Submodule)) {
            return Ok(check_one_side(versions).into_iter().collect());
        }
        let blobs = versions.map(|version| version.map(|version| version.blob));
        let mut faults = match expected(blobs[0], blobs[1], blobs[2]) {
            Some((blob, sides)) => content_mismatch(blob, blobs[3], sides).into_iter().collect(),
            None => Self::check_content(blobs, exempt, content)?,
        };
        faults.extend(self.check_mode());
        Ok(faults)
    }

    fn check_content<E>(
        blobs: [Option<BlobKey>; 4],
        exempt: &BTreeSet<usize>,
        content: &impl Fn(BlobKey) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<MergeFault>, E> {
        let read = |blob: Option<BlobKey>| blob.map_or(Ok(Vec::new()), content);
        let [base, ours, theirs, merged] = blobs;
        let texts = [read(base)?, read(ours)?, read(theirs)?, read(merged)?];
        if texts.iter().any(|text| is_binary(text)) {
            return Ok(check_one_side(blobs).into_iter().collect());
        }
        let texts = if exempt.is_empty() { texts } else { without_hunks(texts.each_ref().map(Vec::as_slice), exempt) };
        let [base, ours, theirs, merged] = texts.each_ref().map(Vec::as_slice);
        Ok(check_lines(&Texts { base, ours, theirs, merged }))
    }

    /// Two new files may be of two modes, and the result of either.
    fn check_mode(&self) -> Option<MergeFault> {
        let mode = |version: Option<FileVersion>| version.map(|version| version.mode);
        let (ours, theirs, merged) = (mode(self.ours)?, mode(self.theirs)?, mode(self.merged)?);
        let (mode, sides) = expected(mode(self.base), Some(ours), Some(theirs))?;
        (mode != Some(merged)).then_some(MergeFault::ModeLost(sides))
    }
}

/// What cannot be merged must be what one side has.
fn check_one_side<T: PartialEq>([_, ours, theirs, merged]: [T; 4]) -> Option<MergeFault> {
    (merged != ours && merged != theirs).then_some(MergeFault::NeitherSide)
}

/// What is wrong with a file that has to be this one.
fn mismatch(
    expected: Option<FileVersion>,
    merged: Option<FileVersion>,
    sides: Option<MergeSides>,
) -> Option<MergeFault> {
    let blob = |version: Option<FileVersion>| version.map(|version| version.blob);
    let wrong_content = content_mismatch(blob(expected), blob(merged), sides);
    wrong_content.or_else(|| (expected != merged).then_some(MergeFault::ModeLost(sides)))
}

fn content_mismatch(
    expected: Option<BlobKey>,
    merged: Option<BlobKey>,
    sides: Option<MergeSides>,
) -> Option<MergeFault> {
    match (expected, merged) {
        _ if expected == merged => None,
        (_, None) => Some(sides.map_or(MergeFault::FileDropped, MergeFault::FileMissing)),
        (None, _) => Some(sides.map_or(MergeFault::FileInvented, MergeFault::FileRestored)),
        _ => Some(sides.map_or(MergeFault::ContentChanged, MergeFault::ContentLost)),
    }
}

/// As git tells binary files.
fn is_binary(content: &[u8]) -> bool {
    content.iter().take(8000).any(|byte| *byte == 0)
}
