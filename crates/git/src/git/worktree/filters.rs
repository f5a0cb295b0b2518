//! What git does to a file's content on its way into the repository: line ends, encodings, `ident`, filter programs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::sync::atomic::AtomicBool;

use gix::bstr::{BStr, BString};
use gix::filter::plumbing::pipeline::convert::ToGitOutcome;
use gix::index::entry::Mode;
use gix::objs::Find as _;

use super::Worktree;
use super::held_back::HoldReason;
use super::limits::{CommitLimits, MIB};
use crate::git::error::{Error, LibraryContext as _, explain};
use crate::git::writer::Writer;
use os::confined_fs::ConfinedDir;

/// The largest content that is kept in memory, where a file can be read again instead.
const MOST_IN_MEMORY: u64 = 32 * MIB;

/// A file's content as git stores it.
pub(super) enum FileContent {
    Bytes(Vec<u8>),
    /// It is that of a large file, which no filter changes.
    Large(File, u64),
}

impl FileContent {
    pub fn id(&mut self, hash: gix::hash::Kind) -> Result<gix::ObjectId, Error> {
        let (kind, doing) = (gix::objs::Kind::Blob, "hash a file");
        match self {
            Self::Bytes(bytes) => gix::objs::compute_hash(hash, kind, bytes).doing(doing),
            Self::Large(file, size) => {
                let (mut progress, never) = (gix::progress::Discard, AtomicBool::new(false));
                gix::objs::compute_stream_hash(hash, kind, file, *size, &mut progress, &never).doing(doing)
            }
        }
    }

    /// Collects it as the blob of this id. Returns whether it still is.
    pub fn write(self, id: &gix::oid, writer: &mut Writer) -> Result<bool, Error> {
        match self {
            Self::Bytes(bytes) => writer.blob(&bytes).map(|_| true),
            Self::Large(mut file, size) => match file.rewind() {
                Ok(()) => writer.large_blob(id, size, &mut file),
                Err(_) => Ok(false),
            },
        }
    }
}

/// Git's filters, set up from the held configuration and the attribute files as they are now.
pub(super) struct Filters {
    pipeline: gix::filter::plumbing::Pipeline,
    attributes: gix::worktree::Stack,
    capabilities: gix::fs::Capabilities,
    /// The names of the filters that are configured.
    drivers: BTreeSet<BString>,
    /// Files whose filter is not configured, with its name.
    pub unfiltered: Vec<(BString, BString)>,
}

impl Filters {
    pub fn new(worktree: &Worktree) -> Result<Self, Error> {
        let handle = &worktree.handle;
        let source = gix::worktree::stack::state::attributes::Source::WorktreeThenIdMapping;
        let attributes = match worktree.cache.sparse_index() {
            Some(index) => handle.attributes_only(index, source),
            // Reading attribute files out of the index costs as much as it is large, and all are on disk.
            None => handle.attributes_only(&gix::index::State::new(handle.object_hash()), source),
        };
        let attributes = attributes.doing("read git attributes")?.detach();
        let options = gix::filter::Pipeline::options(handle).doing("set up git filters")?;
        let drivers = options.drivers.iter().map(|driver| driver.name.clone()).collect();
        let context = handle.command_context().doing("set up git filters")?;
        let pipeline = gix::filter::plumbing::Pipeline::new(context, handle.object_hash(), options);
        let capabilities = handle.filesystem_options().doing("read git settings")?;
        Ok(Self { pipeline, attributes, capabilities, drivers, unfiltered: Vec::new() })
    }

    /// A file's content as git stores it.
    pub fn clean(
        &mut self,
        worktree: &Worktree,
        path: &BStr,
        size: u64,
        limits: &CommitLimits,
    ) -> Result<FileContent, HoldReason> {
        let unreadable = |error: std::io::Error| HoldReason::Unreadable(error.to_string());
        let objects = &worktree.handle.objects;
        let platform = self.attributes.at_entry(path, Some(Mode::FILE), objects).map_err(unreadable)?;
        let filter = filter_named(&platform);
        let is_filtered = filter.as_ref().is_some_and(|name| self.drivers.contains(name));
        if size > limits.max_file && !is_filtered {
            return Err(HoldReason::TooLarge(size));
        }
        let relative = gix::path::from_bstr(path).map_err(|error| HoldReason::Unreadable(explain(&error)))?;
        let file = ConfinedDir::at(&worktree.root).and_then(|root| root.open(&relative)).map_err(unreadable)?;
        let file = file.ok_or_else(|| unreadable(std::io::ErrorKind::NotFound.into()))?;
        let recorded = worktree.cache.known(path).map(|known| known.id);
        let outcome = self
            .pipeline
            .convert_to_git(
                file,
                &relative,
                &mut |_, attributes| {
                    platform.matching_attributes(attributes);
                },
                &mut |buffer| match &recorded {
                    Some(id) => Ok(objects.try_find(id, buffer)?.map(|_| ())),
                    None => Ok(None),
                },
            )
            .map_err(|error| HoldReason::Filter(explain(&error)))?;
        let mut bytes = Vec::new();
        match outcome {
            ToGitOutcome::Unchanged(file) if (MOST_IN_MEMORY..=limits.max_file).contains(&size) => {
                self.unfiltered.extend(filter.map(|name| (path.to_owned(), name)));
                return Ok(FileContent::Large(file, size));
            }
            ToGitOutcome::Unchanged(file) => {
                file.take(limits.max_file.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
            }
            ToGitOutcome::Process(mut output) => {
                output.read_to_end(&mut bytes).map_err(|error| HoldReason::Filter(error.to_string()))?;
            }
            ToGitOutcome::Buffer(buffer) => bytes.extend_from_slice(buffer),
        }
        if bytes.len() as u64 > limits.max_file {
            return Err(HoldReason::TooLarge(size.max(bytes.len() as u64)));
        }
        if let Some(name) = filter.filter(|_| !is_filtered) {
            self.unfiltered.push((path.to_owned(), name));
        }
        Ok(FileContent::Bytes(bytes))
    }

    /// The mode git gives the file; what the file system cannot express stays as it was recorded.
    pub fn mode(&self, metadata: &gix::index::fs::Metadata, recorded: Option<Mode>) -> Mode {
        let links_are_files = !self.capabilities.symlink && recorded == Some(Mode::SYMLINK);
        if metadata.is_symlink() || links_are_files {
            return Mode::SYMLINK;
        }
        let is_executable = if self.capabilities.executable_bit {
            metadata.is_executable()
        } else {
            recorded == Some(Mode::FILE_EXECUTABLE)
        };
        if is_executable { Mode::FILE_EXECUTABLE } else { Mode::FILE }
    }
}

/// The filter git's attributes ask for at a path.
fn filter_named(platform: &gix::worktree::stack::Platform<'_>) -> Option<BString> {
    let mut outcome = gix::attrs::search::Outcome::default();
    outcome.initialize_with_selection(&Default::default(), ["filter"]);
    platform.matching_attributes(&mut outcome);
    outcome.iter_selected().find_map(|found| match found.assignment.state {
        gix::attrs::StateRef::Value(name) => Some(name.as_bstr().to_owned()),
        _ => None,
    })
}
