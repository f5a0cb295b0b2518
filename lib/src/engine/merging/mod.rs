//! How two sides of a merge become one: the one place that decides it, for fan-ins and for the merge queue.
//!
//! - `clean_merge` has git merge two commits and checks the result.
//! - `conflict_data` tells of conflicts in events; `marked_files` shows them in files, and finds those that are left.

mod clean_merge;
mod conflict_data;
mod marked_files;

pub(super) use clean_merge::{MergeResult, MergeSide, merge_side, merge_spec};
pub(super) use conflict_data::{conflicted_paths, conflicts_value};
pub use marked_files::ConflictSides;
pub(super) use marked_files::{left_words, marked_tree, unresolved};
