//! How two sides of a merge become one: the one place that decides it, for fan-ins and for the merge queue.
//!
//! Sees none of the other rooms. Begin with `clean_merge`.
//!
//! - `clean_merge` has git merge two commits and checks the result.
//! - `tiers` resolves what git could not merge without an agent, with the help of `resolutions`, which are recorded for
//!   the repository, and of `structural`, a program; `learning` finds out what others have made of a conflict.
//! - `conflict_data` tells of conflicts in events; `marked_files` shows them in files, and finds those that are left.

mod clean_merge;
mod conflict_data;
mod learning;
mod marked_files;
mod resolutions;
mod structural;
mod tiers;

pub(crate) use clean_merge::{
    MergeProgress, MergeResult, MergeSide, base_tree, check_merge, merge_commit, merge_from, merge_resolved,
    merge_side, merge_spec,
};
pub(crate) use conflict_data::{conflicted_paths, conflicts_value};
pub use learning::{learn_resolutions, resolved_hunks};
pub use marked_files::ConflictSides;
pub(crate) use marked_files::{left_words, marked_tree, unresolved};
pub use resolutions::{RESOLUTIONS, RecordedResolutions, merge_resolutions, record_resolutions};
pub use structural::StructuralMerge;
pub use tiers::{DerivedRun, TierOptions, TierResult, resolve_conflict};
