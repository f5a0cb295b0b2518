//! Content the repository already has: a file that was moved, copied, or part of an earlier commit is not new. Such
//! files are never held back, whatever their size and number. Looked up only when something is about to be held back.

use std::collections::{BTreeSet, HashSet};

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::State;
use gix::index::entry::Mode;

use super::filters::Filters;
use super::held_back::HoldReason;
use super::new_content::NewContent;
use super::past_content::PastContent;
use super::read_file::{self, FileState};
use super::{CommitLimits, Past, Worktree};
use crate::git::error::Error;
use crate::git::writer::Writer;

/// The files of the recorded tree and of commits before it, by their content.
struct KnownContent {
    ids: HashSet<gix::ObjectId>,
    past: Option<PastContent>,
    /// How long they are, sorted; asked for the first large file alone.
    sizes: Option<Vec<u64>>,
}

impl KnownContent {
    fn has(&mut self, id: &gix::oid) -> Result<bool, Error> {
        while !self.ids.contains(id) {
            if !self.read_on()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_on(&mut self) -> Result<bool, Error> {
        match &mut self.past {
            Some(past) => past.read_on(&mut self.ids),
            None => Ok(false),
        }
    }

    /// Whether a file of this size on disk can have such content. Line ends are all that git takes off by itself, at most
    /// half of a file.
    fn has_size_of(&mut self, size: u64, handle: &gix::Repository) -> Result<bool, Error> {
        while self.read_on()? {}
        let ids = &self.ids;
        let sizes = self.sizes.get_or_insert_with(|| {
            let size = |id: &gix::ObjectId| handle.find_header(*id).ok().map(|header| header.size());
            let mut sizes: Vec<u64> = ids.iter().filter_map(size).collect();
            sizes.sort_unstable();
            sizes
        });
        let first = sizes.partition_point(|known| *known < size / 2);
        Ok(sizes.get(first).is_some_and(|known| *known <= size))
    }
}

/// Reads the files of one tree. Filters and known content are set up when the first file needs them.
pub(super) struct FileReader<'a> {
    limits: &'a CommitLimits,
    new: NewContent,
    filters: Option<Filters>,
    known: Option<KnownContent>,
}

impl<'a> FileReader<'a> {
    pub fn new(limits: &'a CommitLimits, new: NewContent) -> Self {
        Self { limits, new, filters: None, known: None }
    }

    /// What is known of new content, and the files whose filter is not configured.
    pub fn end(self) -> (NewContent, Vec<(BString, BString)>) {
        (self.new, self.filters.map(|filters| filters.unfiltered).unwrap_or_default())
    }

    fn filters(&mut self, worktree: &Worktree) -> Result<&mut Filters, Error> {
        match &mut self.filters {
            Some(filters) => Ok(filters),
            none => Ok(none.insert(Filters::new(worktree)?)),
        }
    }

    fn known(&mut self, worktree: &mut Worktree) -> Result<&mut KnownContent, Error> {
        match &mut self.known {
            Some(known) => Ok(known),
            none => Ok(none.insert(known_content(worktree, self.limits.past.as_ref())?)),
        }
    }
}

/// What the recorded tree has, and what is found in `past`.
fn known_content(worktree: &mut Worktree, past: Option<&Past>) -> Result<KnownContent, Error> {
    let content = |index: &State| -> HashSet<gix::ObjectId> {
        let files = index.entries().iter().filter(|entry| entry.mode != Mode::COMMIT);
        files.map(|entry| entry.id).collect()
    };
    let past = past.map(|past| PastContent::new(&worktree.repo, worktree.handle.clone(), past)).transpose()?;
    Ok(KnownContent { ids: content(worktree.cache.index()), past, sizes: None })
}

/// Of files the recorded tree does not have, those with content that is new as well, if they are too many.
pub(super) fn too_many(
    worktree: &mut Worktree,
    paths: &BTreeSet<&BString>,
    reading: &mut FileReader<'_>,
) -> Result<Option<BTreeSet<BString>>, Error> {
    let most = reading.limits.max_new_paths;
    if paths.len() <= most {
        return Ok(None);
    }
    let mut new = BTreeSet::new();
    for path in paths {
        if is_new(worktree, path.as_bstr(), reading)? {
            new.insert((*path).clone());
        }
    }
    Ok(Some(new).filter(|new| new.len() > most))
}

/// Whether a file has content, and none that is known.
fn is_new(worktree: &mut Worktree, path: &BStr, reading: &mut FileReader<'_>) -> Result<bool, Error> {
    let place = worktree.disk_path(path);
    if reading.new.has(path, &place) {
        return Ok(true);
    }
    let limits = reading.limits;
    let is_new = match read_file::content(worktree, path, reading.filters(worktree)?, limits)?.0 {
        FileState::File(file) => !reading.known(worktree)?.has(&file.id)?,
        _ => false,
    };
    if is_new {
        reading.new.take(path, &place);
    }
    Ok(is_new)
}

/// Reads a file for a tree; one over the size limit only if its content is known.
pub(super) fn read_within(
    worktree: &mut Worktree,
    path: &BStr,
    reading: &mut FileReader<'_>,
    writer: &mut Writer,
) -> Result<FileState, Error> {
    let limits = reading.limits;
    match read_file::read(worktree, path, reading.filters(worktree)?, writer, limits)? {
        FileState::Held(HoldReason::TooLarge(size)) => {
            let known = known_large(worktree, path, size, reading)?;
            Ok(known.unwrap_or(FileState::Held(HoldReason::TooLarge(size))))
        }
        found => Ok(found),
    }
}

fn known_large(
    worktree: &mut Worktree,
    path: &BStr,
    size: u64,
    reading: &mut FileReader<'_>,
) -> Result<Option<FileState>, Error> {
    let place = worktree.disk_path(path);
    if reading.new.has(path, &place) {
        return Ok(None);
    }
    let mut found = FileState::Gone;
    let known = reading.known(worktree)?;
    if known.has_size_of(size, &worktree.handle)? {
        let limits = CommitLimits { max_file: size, ..reading.limits.clone() };
        found = read_file::content(worktree, path, reading.filters(worktree)?, &limits)?.0;
    }
    match found {
        FileState::File(file) if reading.known(worktree)?.has(&file.id)? => Ok(Some(FileState::File(file))),
        _ => {
            reading.new.take(path, &place);
            Ok(None)
        }
    }
}
