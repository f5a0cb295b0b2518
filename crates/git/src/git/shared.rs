//! What all clones of a [`Repo`](super::Repo) share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use gix::bstr::BString;

use super::connected_commits::ConnectedCommits;
use super::own_landings::OwnLandings;
use super::pack_index::PackIndexes;
use super::program::Program;
use super::progress::ProgressListener;
use super::promisor::Promisor;
use super::remote::RemoteUrl;
use super::repo_pool::RepoPool;
use super::unpacked::Unpacked;

/// What decides whether there is a main checkout: the settings, by when they were written.
pub(super) type ConfigTimes = [Option<SystemTime>; 2];

/// What all handles of one repository share.
pub(super) struct RepoShared {
    pub pool: Arc<RepoPool>,
    /// The git directory all worktrees share, without links and detours.
    pub common_dir: PathBuf,
    pub program: Program,
    pub version: String,
    /// The configuration all handles are opened with, as `key=value`.
    pub config: Vec<BString>,
    /// Whether the repository is bare, and by which settings.
    pub is_bare: Mutex<Option<(ConfigTimes, bool)>>,
    /// The commits that need not be looked into again.
    pub whole: ConnectedCommits,
    /// What was written and is not packed yet.
    pub unpacked: Unpacked,
    /// Which objects are in packs.
    pub packs: PackIndexes,
    /// Where a partial clone fetches what it lacks; none where all objects are there.
    pub promisor: Option<Promisor>,
    /// Who wants to know how far long work has come.
    pub listening: Mutex<Option<ProgressListener>>,
    /// The branches this process has landed on.
    pub own_landings: OwnLandings,
    /// git was seen to work in the directory worktrees are made from.
    pub is_trusted: OnceLock<()>,
    /// At most so long is waited for what is in the way of a landing, for tests. A repository has no say in it.
    pub patience: Option<Duration>,
    /// Where a shallow clone gets the history it lacks.
    pub deepening: OnceLock<RemoteUrl>,
}
