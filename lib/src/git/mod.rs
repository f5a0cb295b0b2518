//! The one door to git. Objects and refs are read and written in process; checkouts, merges and transport go through
//! the git program.
//!
//! - [`Repo`] is opened once and held: its configuration is a snapshot, so that what an agent writes into git config
//!   later never runs a command here.
//! - [`Writer`] collects the objects of one transition and puts them on disk, durable, before any ref names them.
//! - [`Repo::swap`] moves a ref if and only if it still is where the caller thinks it is.
//! - [`Worktree`] is a checkout an agent works in: what changed there, as a tree; and bringing HEAD, index and files
//!   to a given state.
//! - [`Repo::fast_forward`] moves a branch people may have checked out; [`Repo::merge_trees`] merges without a checkout.
//! - [`crash`] has the points at which tests let the process die.

mod checkouts;
mod checksum;
mod connected;
mod connectivity;
pub mod crash;
pub mod diff;
mod disk;
mod durability;
mod error;
mod head;
mod history;
mod id;
mod inflate;
mod interrupted_merge;
pub mod land;
mod landing_conflicts;
mod loose;
mod loose_ref;
pub mod merge;
mod object;
mod objects;
mod open;
pub mod pack;
mod pack_index;
mod program;
mod progress;
mod promisor;
mod ref_update;
mod refs;
mod repo;
mod repo_pool;
mod shared;
mod skipped;
mod unpacked;
mod verify;
pub mod worktree;
mod writer;

pub use crate::merge::interrupted::BrokenOff;
pub use checkouts::checkouts_of;
pub use checksum::{HashCollision, checksum};
pub use diff::{ChangeKind, FileStat, TreeChange};
pub(crate) use disk::remove_directory;
pub use durability::Durability;
pub use error::{Error, OLDEST_GIT, Unsupported};
pub use head::Head;
pub use history::{CommitHistory, CommitText, HistoryCommit, HistoryFilter, HistoryParent, MessagePredicate};
pub use id::{BlobId, TreeId};
pub use land::LandError;
pub use merge::{Conflict, MergeError};
pub use object::{Commit, EntryKind, Person, TreeEntry};
pub use open::discover;
pub use program::version;
pub use progress::{FileOperation, FileProgress};
pub use ref_update::{RefUpdate, SwapError};
pub use refs::Refs;
pub use repo::Repo;
pub use skipped::{SkippedHooks, skipped};
pub(crate) use verify::diagnose_corruption;
pub use worktree::{
    AddCause, AddFailure, BuiltTree, CheckDepth, CommitLimits, FileStamp, HeldBack, HoldReason, ListedWorktree, Notes,
    Past, Restored, ScanResult, SubmoduleWork, UnpublishedCommits, Worktree, are_ignore_rules,
};
pub use writer::{CommitSpec, TreeEdit, Writer};
