//! Landing, decided: work moves the branches it belongs on, or waits and says why. Values come in, the next thing to do
//! goes out; the caller does it and returns the result. Nothing here reads, writes or waits.
//!
//! Every isolation mode lands through [`land`], and so does what brings no code: the start of a run, what people decide
//! about tasks, the steps of a task that was given up. One task on one branch is a list of one.
//!
//! What git does not merge is tried in tiers ([`Tier`]): a text is merged line by line and word by word (`text_merge`,
//! `word_merge`, `three_way`), unless it is `generated`, by what was chosen before (`resolution`, learned by `alignment`), or
//! made again by a command; what is left is shown between `conflict_markers`, and `merge_origin` says in the commit what came
//! from where.
//!
//! `line_map` says which lines of a text are those of another. A merge result is checked by [`loss_check`], which compares it with both sides and does not know what merged them.

mod alignment;
pub mod branch;
mod conflict_markers;
mod generated;
pub mod interrupted;
mod landing;
mod line_check;
mod line_map;
pub mod loss_check;
mod loss_exemptions;
mod loss_finding;
mod merge_origin;
pub mod overlap;
mod resolution;
#[cfg(test)]
mod tests;
mod text_merge;
mod three_way;
mod tier;
mod word_merge;
mod work;

pub use alignment::learn;
pub use conflict_markers::has_conflict_markers;
pub use conflict_markers::{ConflictLabels, marked_hunk, marked_text};
pub use generated::{has_records, is_generated};
pub use landing::{
    BranchMove, BuildAsk, CloseAsk, LandedBranch, LandingAsk, LandingEnd, LandingRefusal, LandingTarget,
    LandingVerdict, LookAsk, MoveAsk, RecordAsk, RefusalReason, RewindAsk, TargetState, VerifyAsk, has_landed, land,
};
pub use line_check::{keeps_lines, keeps_words};
pub use line_map::LineMap;
pub use loss_exemptions::LossExemptions;
pub use loss_finding::{LossFinding, MergeFault, MergeSides};
pub use merge_origin::{MergeOrigin, ResolvedHunk};
pub use resolution::{Resolution, ResolutionSource};
pub use text_merge::with_resolved;
pub use text_merge::{ConflictHunk, TextMerge, TextPart};
pub use tier::{Tier, UnknownTier};
pub use work::{LandingWork, Proof};
