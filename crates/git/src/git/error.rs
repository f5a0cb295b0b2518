//! What can go wrong with git, and what to do about it.

use std::path::{Path, PathBuf};

pub(super) use pleach_core::merge::branch::locked;

use super::worktree::AddFailure;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::interrupted::BrokenOff;
use pleach_core::text::{quoted_path, shell_word};

/// The oldest git that has everything pleach calls (`merge-tree --write-tree`).
pub const OLDEST_GIT: (u32, u32) = (2, 38);

/// A git operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no git program.
    #[error("the git program cannot be run ({detail}); install git {}.{} or newer", OLDEST_GIT.0, OLDEST_GIT.1)]
    GitMissing {
        /// What the system said.
        detail: String,
    },
    /// The git program lacks calls pleach needs.
    #[error("{found} is too old; install git {}.{} or newer", OLDEST_GIT.0, OLDEST_GIT.1)]
    GitTooOld {
        /// What `git --version` printed.
        found: String,
    },
    /// There is no repository at or above the directory.
    #[error("`{}` is not in a git repository; run `git init` there, or name a repository with `-C DIR`", path.display())]
    NotARepository {
        /// Where the search began.
        path: PathBuf,
    },
    /// git found a repository but does not want to work in it.
    #[error("git refuses to open the repository at `{}`: {detail}", path.display())]
    Refused {
        /// Where the search began.
        path: PathBuf,
        /// git's own words.
        detail: String,
    },
    /// The repository uses a format that is not supported.
    #[error("`{}` {feature}", path.display())]
    Unsupported {
        /// The repository.
        path: PathBuf,
        /// What it uses.
        feature: Unsupported,
    },
    /// A revision that names nothing.
    #[error("`{spec}` is not a commit of this repository; `git log` and `git branch` show what there is")]
    NoSuchRevision {
        /// What was asked for.
        spec: String,
    },
    /// An object that should be there is missing or of another kind.
    #[error("{kind} {id} is missing or damaged ({detail}); `git fsck` shows more")]
    Object {
        /// What it was read as.
        kind: &'static str,
        /// Its id.
        id: CommitId,
        /// What went wrong.
        detail: String,
    },
    /// An object that is not what its id says.
    #[error(
        "{place} ({id}) was overwritten in the object database: its content does not match its id; check what ran: an agent, a test or a tool"
    )]
    Overwritten {
        /// Its id.
        id: CommitId,
        /// What it is, and where.
        place: String,
    },
    /// Files of a commit whose content is nowhere.
    #[error(
        "{paths} of commit {commit} cannot be read: what the repository has of that is missing or damaged; restore it from another clone or with `git fetch --refetch` (`git fsck` shows what is missing), then run again"
    )]
    FilesUnreadable {
        /// The files.
        paths: String,
        /// The commit.
        commit: CommitId,
    },
    /// A name that cannot be a ref.
    #[error("`{name}` is not a valid ref name: {detail}")]
    RefName {
        /// The name.
        name: String,
        /// Which rule it breaks.
        detail: String,
    },
    /// A path that no tree may hold.
    #[error("`{path}` cannot be in a tree: parts that are empty, `.`, `..` or `.git` are git's own")]
    Path {
        /// The path.
        path: RepoPath,
    },
    /// The git program failed.
    #[error("`{command}` failed ({exit}): {stderr}")]
    Program {
        /// The command as it was run, without the settings every call gets.
        command: String,
        /// How it ended.
        exit: String,
        /// git's own words.
        stderr: String,
    },
    /// The git program could not make a worktree.
    #[error(transparent)]
    NoWorktree(#[from] Box<AddFailure>),
    /// The git program failed while it wrote the files of a checkout.
    #[error(transparent)]
    BrokenOff(#[from] Box<BrokenOff>),
    /// Files could not be read or written.
    #[error("cannot {doing} `{}`: {source}", quoted_path(path.as_os_str().as_encoded_bytes()))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A lock file of git's is there.
    #[error("{}, and run again", locked(lock))]
    Locked {
        /// The lock file.
        lock: PathBuf,
    },
    /// The `.git` of a worktree is no longer pleach's link to the repository.
    #[error("`{}` is no longer a worktree of this repository; move it away, then run again", path.display())]
    LinkReplaced {
        /// The worktree, or its `.git`.
        path: PathBuf,
    },
    /// There is no worktree where one is expected.
    #[error("there is no worktree of this repository at `{}`; `git worktree list` shows those there are", path.display())]
    NoSuchWorktree {
        /// Where it was expected.
        path: PathBuf,
    },
    /// There is something where a worktree is to be made.
    #[error("`{}` is in the way of a worktree; move it away, then run again", path.display())]
    PlaceTaken {
        /// Where the worktree was to be.
        path: PathBuf,
    },
    /// Everything else git's library reports.
    #[error("cannot {doing}: {detail}")]
    Library {
        /// What was tried.
        doing: String,
        /// What went wrong.
        detail: String,
    },
}

/// A format of repository that is refused until it is tested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Refs in a reftable.
    #[error(
        "keeps its refs in a reftable, which pleach does not support; `git refs migrate --ref-format=files` changes that"
    )]
    Reftable,
    /// Ids longer than SHA-1.
    #[error("uses SHA-256 object ids, which pleach does not support; use a repository with SHA-1 ids")]
    Sha256,
    /// No commit yet.
    #[error("has no commit yet; make the first one with `git commit --allow-empty -m start`")]
    UnbornHead,
    /// A branch without a commit, beside others.
    #[error("has no commit on `{branch}`, the branch HEAD names; switch to one that has some with `{switch}`")]
    UnbornBranch {
        /// What HEAD names.
        branch: String,
        /// The command that has it name another.
        switch: String,
    },
    /// Files in a place that does not lead back to the repository.
    #[error(
        "holds the files of this repository (`core.worktree`), but git does not find the repository from there, so nothing can land; create a file `.git` there with the line `gitdir: {}`, or unset `core.worktree`",
        git_dir.display()
    )]
    FilesApart {
        /// The repository.
        git_dir: PathBuf,
    },
    /// A symbolic ref to another branch.
    #[error(
        "has `{branch}` checked out, a symbolic ref to `{to}`; switch to that with `git switch {}`",
        shell_word(to)
    )]
    SymbolicBranch {
        /// What is checked out.
        branch: String,
        /// The branch it points to.
        to: String,
    },
}

impl Error {
    /// Whether an object is missing or damaged: another time it is read no better.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Object { .. } | Self::Overwritten { .. } | Self::FilesUnreadable { .. } | Self::Library { .. }
        )
    }

    pub(super) fn library(doing: impl Into<String>, error: gix::Error) -> Self {
        Self::Library { doing: doing.into(), detail: explain(&error) }
    }

    pub(super) fn object(kind: &'static str, id: &gix::oid, detail: impl ToString) -> Self {
        Self::Object { kind, id: super::id::from_gix(id), detail: detail.to_string() }
    }
}

/// The lock file that kept git's library from writing, of those it takes.
pub(super) fn held_lock(error: &gix::Error, locks: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    error.is_retryable().then(|| locks.into_iter().find(|lock| lock.exists())).flatten()
}

/// An error of git's library with its causes, each once.
pub(super) fn explain(error: &gix::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.iter_errors() {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

/// Attaches what was tried, and where, to an I/O error.
pub(super) trait IoContext<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing, path: path.to_owned(), source })
    }
}

/// Attaches what was tried to an error of git's library.
pub(super) trait LibraryContext<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> LibraryContext<T> for Result<T, gix::Error> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|error| Error::library(doing, error))
    }
}
