//! Checkouts agents work in. [`Worktree`] holds what is known of one; what is done with it is functions here.
//!
//! While a node runs, HEAD and index of the checkout stay where the node began, so the agent sees all its work as
//! uncommitted; [`follow`] brings them up at its end.
//!
//! How is a worktree made, opened, repaired and removed?
//! - `create` (`creation` marks one that is being made, `add_failure` tells why git could not), `open`, `repair`,
//!   `remove`; `lock` lets one process at a time do so, `move_aside` keeps what was in the way.
//! - `git_dir` finds the git directory of a worktree, `list` all worktrees, `registration` those that are pleach's own;
//!   `metadata` keeps notes where no agent can write.
//!
//! What did an agent change?
//! - `scan` compares the files with the recorded tree (`tree_paths`): `walk` by their stats (`file_stamp`), `untracked`
//!   what the index does not know, `submodules` what lies in the place of one; `scan_result` is what it finds. `cache` knows the recorded files.
//! - `agent_commits` adds what an agent committed itself; `submodule_changes` and `submodule_commits` find work in
//!   submodules.
//!
//! How do files become a tree?
//! - `commit_tree`, by `read_file` and `filters`, within `limits`: `held_back` is what is not committed, `known_content`
//!   and `past_content` what is not new, `new_content` what is known to be.
//!
//! How do files, HEAD and index come to a given state?
//! - `restore`, `head`, `index_file`; `spared_files` keeps files as they are, `sparse` and `sparse_rules` leave files out;
//!   `lost_content` finds files whose content the repository has lost.
//!
//! What does a setup leave?
//! - `set_up` records it, `setup_snapshot` is what is recorded, `setup_changes` what has become of it.
//!
//! What if an agent tampers with its worktree?
//! - `sanitize` removes what has no place in the git directory, `valid_head` a HEAD that names no commit, `special_files`
//!   what cannot be read (`rule_files` are the files git reads by name); `relink` ties files and repository together again.

mod add_failure;
mod agent_commits;
mod cache;
mod commit_tree;
mod create;
mod creation;
mod file_stamp;
mod filters;
mod git_dir;
mod head;
mod held_back;
mod index_file;
mod known_content;
mod limits;
mod list;
mod lock;
mod lost_content;
mod metadata;
mod move_aside;
mod new_content;
mod open;
mod past_content;
mod read_file;
mod registration;
mod relink;
mod remove;
mod repair;
mod restore;
mod rule_files;
mod sanitize;
mod scan;
mod scan_result;
mod set_up;
mod setup_changes;
mod setup_snapshot;
mod spared_files;
mod sparse;
mod sparse_rules;
mod special_files;
mod submodule_changes;
mod submodule_commits;
mod submodules;
mod tree_paths;
mod untracked;
mod valid_head;
mod walk;
mod worktree;

pub use add_failure::{AddCause, AddFailure};
pub use agent_commits::scan_after;
pub use commit_tree::{BuiltTree, commit_tree};
pub use create::{add, add_sparse};
pub use file_stamp::FileStamp;
pub(super) use git_dir::{git_dirs, linked_git_dir};
pub use head::{agent_head, detach, follow};
pub use held_back::{HeldBack, HoldReason};
pub use limits::CommitLimits;
pub use list::{ListedWorktree, list, list_linked};
pub(super) use list::{is_registered, list_on_branch};
pub use lost_content::collect_lost_content;
pub use metadata::Notes;
pub use open::open;
pub use past_content::Past;
pub use relink::restore_link;
pub(crate) use relink::restore_missing_link;
pub use remove::{prune, remove, remove_half_made};
pub use repair::{open_or_repair, relocate};
pub(crate) use restore::restore_sparing;
pub use restore::{Restored, reset_sparing, reset_to, restore};
pub use rule_files::are_ignore_rules;
pub use scan::{scan_all, scan_paths, uncommitted};
pub use scan_result::{ScanResult, Uncommitted};
pub use set_up::{snapshot_setup, snapshot_setup_again};
pub use setup_changes::has_lost_setup;
pub use setup_changes::{is_set_up, undone_setup};
pub(crate) use spared_files::spare_files;
pub use spared_files::untouched_files;
pub use sparse::apply_sparse_rules;
pub(crate) use sparse::{have_effect, inherited_sparse};
pub use submodule_changes::SubmoduleWork;
pub use submodule_changes::{CheckDepth, unpublished_work};
pub use submodule_commits::UnpublishedCommits;
pub use submodules::restore_submodule_dirs;
pub use worktree::Worktree;
