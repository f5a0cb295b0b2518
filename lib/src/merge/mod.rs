//! Landing, decided: work moves the branches it belongs on, or waits and says why. Values come in, the next thing to do
//! goes out; the caller does it and returns the result. Nothing here reads, writes or waits.
//!
//! Every isolation mode lands through [`land`], and so does what brings no code: the start of a run, what people decide
//! about tasks, the steps of a task that was given up. One task on one branch is a list of one.
//!
//! A merge result is checked by [`loss_check`], which compares it with both sides and does not know what merged them.

pub mod branch;
pub mod interrupted;
mod landing;
mod line_check;
pub(crate) mod loss_check;
mod loss_finding;
pub mod overlap;
#[cfg(test)]
mod tests;
mod text_merge;
mod three_way;
mod work;

pub use landing::{
    BranchMove, BuildAsk, CloseAsk, LandedBranch, LandingAsk, LandingEnd, LandingRefusal, LandingTarget,
    LandingVerdict, LookAsk, MoveAsk, RecordAsk, RefusalReason, RewindAsk, TargetState, VerifyAsk, has_landed, land,
};
pub use loss_finding::{LossFinding, MergeFault, MergeSides};
pub use text_merge::{ConflictHunk, TextMerge, TextPart};
pub use work::{LandingWork, Proof};
