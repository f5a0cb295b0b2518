//! The one door to git. Objects and refs are read and written in process; checkouts, merges and transport go through
//! the git program. Types hold what is open; what is done with them is functions in a module named after it.
//!
//! Where is a repository found, and what is held of it?
//! - [`Repo`], made by [`discover`] (`open`), is opened once: its configuration is a snapshot, so that what an agent
//!   writes into git config later never runs a command here. `shared` is what its clones have in common, `repo_pool` its
//!   handles of the library, `program` the git program, `promisor` fetches what a partial clone lacks.
//!
//! Where are objects read and written?
//! - [`Repo`] reads commits, trees and blobs (`object` what these are, `id` their ids, `head` where HEAD is); `objects`
//!   checks that they are what their ids say, `checksum` computes it.
//! - [`Writer`] collects the objects of one transition and puts them on disk (`loose`, `disk`), durable (`durability`),
//!   before any ref names them. [`pack`] packs them later (`unpacked`); `pack_index` knows what is in packs.
//! - `verify` reads what is about to land once more from disk (`inflate`); `connectivity` finds what commits of agents
//!   lack (`connected_commits`).
//!
//! How does a ref move?
//! - [`Refs::swap`] moves a ref if and only if it still is where the caller thinks it is; `ref_update` says what moves and
//!   why it did not, `loose_ref` is the short way for refs with a file of their own. `stale_lock` removes locks that killed
//!   processes left.
//!
//! What does history say?
//! - [`CommitHistory`] walks it (`newest_first` as far as somebody asks), [`blame`] asks git who wrote a line, `joins` finds
//!   commits by their place and merges by their messages, `notes` reads and adds notes on commits, [`diff`] compares trees,
//!   [`merge`] merges without a checkout, `conflict` is what git could not merge, and `merge_check` checks what came of it;
//!   `attributes` is what `.gitattributes` say of its files.
//!
//! How do agents work on files?
//! - [`worktree`] makes and repairs the checkouts agents work in, finds what changed there, and brings HEAD, index and
//!   files to a given state.
//!
//! What of the user's is moved?
//! - [`land`] moves a branch people may have checked out, as `pleach_core::merge` decides: `checkouts` finds who has it,
//!   `landing_conflicts` what is in the way, `interrupted_merge` reports what a failed git has left, and `landing_note` undoes
//!   it before the next landing; `own_landings` remembers what this process has moved.
//! - `skipped_hooks` tells which of the user's hooks do not run for pleach's commits.
//!
//! What do other machines have?
//! - [`remote`] clones, fetches, lists and pushes by address, and fetches what a shallow clone lacks.
//!
//! For tests: [`crash`] has the points at which they let the process die. For whoever waits: `progress`.

mod attributes;
pub mod blame;
mod checkouts;
mod checksum;
mod conflict;
mod connected_commits;
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
mod joins;
pub mod land;
mod landing_conflicts;
mod landing_note;
mod loose;
mod loose_ref;
pub mod merge;
mod merge_check;
mod newest_first;
mod notes;
mod object;
mod objects;
mod open;
mod own_landings;
pub mod pack;
mod pack_index;
mod program;
mod progress;
mod promisor;
mod ref_update;
mod refs;
pub mod remote;
mod repo;
mod repo_pool;
mod shared;
mod skipped_hooks;
mod stale_lock;
mod stale_ref_locks;
mod unpacked;
mod verify;
pub mod worktree;
mod writer;

pub use attributes::attribute;
pub use checkouts::checkouts_of;
pub use checksum::{HashCollision, checksum};
pub use conflict::{Conflict, ConflictSide, ConflictedFile};
pub use diff::{ChangeKind, FileStat, TreeChange};
pub(crate) use disk::remove_directory;
pub use durability::Durability;
pub use error::{Error, OLDEST_GIT, Unsupported};
pub use head::Head;
pub use history::{CommitHistory, CommitText, HistoryCommit, HistoryParent};
pub use id::{BlobId, TreeId};
pub use joins::{commits_above, merges_since};
pub use land::LandError;
pub use merge::MergeError;
pub use merge_check::{LossyMerge, MergeCheckError, check_merge_result};
pub use newest_first::NewestFirst;
pub use notes::{add_notes, note_of};
pub use object::{Commit, EntryKind, Person, TreeEntry};
pub use open::discover;
pub use pleach_core::merge::interrupted::BrokenOff;
pub use program::{pager, version};
pub use progress::{FileOperation, FileProgress};
pub use ref_update::{RefUpdate, SwapError};
pub use refs::Refs;
pub use repo::Repo;
pub use skipped_hooks::{SkippedHooks, skipped};
pub use stale_ref_locks::stale_ref_locks;
pub use verify::diagnose_corruption;
pub use worktree::{
    AddCause, AddFailure, BuiltTree, CommitLimits, FileStamp, HeldBack, HoldReason, ListedWorktree, Notes, Past,
    Restored, ScanResult, SubmoduleWork, UnpublishedCommits, Worktree,
};
pub use worktree::{CheckDepth, are_ignore_rules};
pub use writer::{CommitSpec, TreeEdit, Writer};
