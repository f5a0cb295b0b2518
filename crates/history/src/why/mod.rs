//! Why a line is there: the turn, the prompt and the reason behind it, after merges, squashes and landings.
//!
//! git says which commit a line is of (`git::blame`), and [`origin`] what that commit is, by its message alone. Where it holds
//! work that was done elsewhere, [`sources`] says where ([`work_source`]), and [`trace`] goes on there, line by line; what was found once is in
//! [`memo`]. Nothing is guessed: a line that leads to no turn is of whoever made its commit.
//!
//! - [`document`]: the answer, as programs read it. [`at_once`]: several things at the same time.
//! - [`start`]: which file, as it is where. [`ground`]: the repositories, and the sessions recorded there.
//! - [`squash`]: the runs somebody has squashed. [`own_commits`]: commits an agent has made itself. [`ai_note`]: notes of git-ai.
//! - [`answer`]: a file, or some of its lines. [`commit`]: a commit; [`merge_words`]: what a merge is of.
//! - [`reason`]: what a turn was asked, and what it said. [`checks`]: what has passed since. [`past`]: what a line was before.

mod ai_note;
mod answer;
mod at_once;
mod checks;
mod commit;
mod document;
mod error;
mod ground;
mod memo;
mod merge_words;
mod origin;
mod own_commits;
mod past;
mod reason;
mod sources;
mod squash;
mod start;
mod trace;
mod work_source;

pub(crate) use ai_note::AI_NOTES;
#[cfg(test)]
pub(crate) use ai_note::read as read_ai_note;
pub use answer::{WhyOptions, why_file};
pub use commit::why_commit;
pub(crate) use commit::{joined, lines_of_its_own};
pub use document::{
    CommitKind, CommitLines, CommitWhy, Evidence, FileWhy, LineWhy, MergeWords, Origin, PastLine, ReasonSource,
    TurnCheck, TurnWhy, Via, WhyCommit,
};
pub use error::WhyError;
pub use ground::WhyGround;
pub use start::{FileStart, LineRange, StartFailure};
pub(crate) use trace::Trace;
