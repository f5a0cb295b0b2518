//! Which file is asked about, as it is where.

use std::path::{Path, PathBuf};

use git::blame::takes_contents;
use git::record::contexts;
use git::{EntryKind, Repo};
use pleach_core::ids::{CommitId, ContextId, RepoPath, SessionId};
use pleach_core::text::counted;

use super::ground::WhyGround;

/// A larger file is not looked into.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Where a file with a NUL among its first bytes counts as binary, as it does for git.
const LOOKED_AT: usize = 8_000;

/// A file, and the commits its lines are looked for in.
#[derive(Debug, Clone)]
pub struct FileStart {
    /// The file, from the root of its repository.
    pub path: RepoPath,
    /// The commit it is read from; none where it is the file of the checkout.
    pub rev: Option<CommitId>,
    /// Whose history counts; without one that of the checkout.
    pub(super) tip: Option<CommitId>,
    /// The file to be laid over that commit.
    pub(super) contents: Option<PathBuf>,
    /// What the file holds.
    pub content: Vec<u8>,
}

/// Lines of a file, both ends included, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// Why a file cannot be looked into.
#[derive(Debug, thiserror::Error)]
pub enum StartFailure {
    /// There is nothing, or no file.
    #[error("`{path}` is {what}")]
    NotAFile {
        /// The path as it was given.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// A commit does not have it.
    #[error("{} has no file `{path}`", commit.short())]
    NotInCommit {
        /// The file.
        path: RepoPath,
        /// The commit.
        commit: CommitId,
    },
    /// It has no lines a person would ask about.
    #[error("`{path}` is {what}")]
    NoText {
        /// The file.
        path: RepoPath,
        /// Why not.
        what: &'static str,
    },
    /// It has fewer lines.
    #[error("`{path}` has {}", counted(*lines, "line"))]
    NoSuchLine {
        /// The file.
        path: RepoPath,
        /// How many it has.
        lines: usize,
    },
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Unreadable {
        /// The file.
        path: RepoPath,
        /// Why.
        source: std::io::Error,
    },
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
}

impl FileStart {
    /// The file of a checkout as it is, at a place below it. In a worktree of a run what the run has committed counts, which
    /// HEAD there does not have yet.
    pub fn in_checkout(ground: &WhyGround, file: &Path, path: RepoPath) -> Result<Self, StartFailure> {
        let not = |what| StartFailure::NotAFile { path: file.display().to_string(), what };
        let unreadable = |source| StartFailure::Unreadable { path: path.clone(), source };
        let found = match std::fs::symlink_metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(not("not there")),
            found => found.map_err(unreadable)?,
        };
        match found.file_type() {
            kind if kind.is_symlink() => return Err(not("a link")),
            kind if kind.is_dir() => return Err(not("a directory")),
            kind if !kind.is_file() => return Err(not("no regular file")),
            _ if found.len() > LARGEST => return Err(StartFailure::NoText { path, what: TOO_LARGE }),
            _ => {}
        }
        let content = std::fs::read(file).map_err(unreadable)?;
        let tip = newest_of_worktree(ground)?;
        let contents = tip.filter(|_| takes_contents(&ground.code)).map(|_| file.to_owned());
        let start = Self { path, rev: None, tip, contents, content };
        match (tip, &start.contents) {
            // This git can only say what is recorded.
            (Some(tip), None) => Self::at(&ground.code, tip, start.path),
            _ => start.checked(),
        }
    }

    /// A file as a commit has it.
    pub fn at(repo: &Repo, commit: CommitId, path: RepoPath) -> Result<Self, StartFailure> {
        let content = match repo.tree_entry(repo.tree_of(commit)?, &path)? {
            Some(entry) if matches!(entry.kind, EntryKind::File | EntryKind::Executable) => repo.blob(entry.id)?,
            Some(_) => return Err(StartFailure::NoText { path, what: "no file there" }),
            None => return Err(StartFailure::NotInCommit { path, commit }),
        };
        Self { path, rev: Some(commit), tip: Some(commit), contents: None, content }.checked()
    }

    fn checked(self) -> Result<Self, StartFailure> {
        let what = if self.content.len() as u64 > LARGEST { TOO_LARGE } else { "a binary file" };
        if is_text(&self.content) { Ok(self) } else { Err(StartFailure::NoText { path: self.path, what }) }
    }

    /// Refuses lines that the file does not have.
    pub fn check_lines(&self, lines: LineRange) -> Result<(), StartFailure> {
        let all = self.lines().count();
        let is_there = lines.first > 0 && lines.first <= lines.last && lines.last as usize <= all;
        if is_there { Ok(()) } else { Err(StartFailure::NoSuchLine { path: self.path.clone(), lines: all }) }
    }

    /// Its lines, without their ends.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.content.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }
}

/// Whether a file has lines to ask about.
pub fn is_text(content: &[u8]) -> bool {
    content.len() as u64 <= LARGEST && !content.iter().take(LOOKED_AT).any(|byte| *byte == 0)
}

const TOO_LARGE: &str = "larger than 16 MiB";

/// The newest commit of the run whose worktree this is: worktrees lie at `SESSION/CONTEXT`, with several repositories one
/// level below.
fn newest_of_worktree(ground: &WhyGround) -> Result<Option<CommitId>, git::Error> {
    if ground.code.git_dir() == ground.code.common_dir() {
        return Ok(None);
    }
    let Some(dir) = ground.code.workdir() else { return Ok(None) };
    let names: Vec<&str> = dir.iter().rev().take(3).filter_map(|name| name.to_str()).collect();
    for pair in names.windows(2) {
        let (Ok(context), Ok(session)) = (pair[0].parse::<ContextId>(), pair[1].parse::<SessionId>()) else { continue };
        if contexts(&ground.records, &session)?.contains(&context)
            && let Some(history) = ground.context(&session, &context)
        {
            return Ok(ground.newest_work(&history).filter(|work| ground.has(*work)));
        }
    }
    Ok(None)
}
