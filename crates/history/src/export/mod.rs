//! A run as one file, for people and for programs.
//!
//! `story` is the run as people are told it, which `markdown` and `html` write down (`html/` has its style and how text becomes
//! harmless); `lines` are its events for programs. `diffs` reads what the turns changed, all at once, and takes secrets out:
//! records have none, commits may.

mod diffs;
mod html;
mod lines;
mod markdown;
mod story;

pub use diffs::Diffs;
pub use html::html;
pub use lines::{ExportLine, lines};
pub use markdown::markdown;
pub use story::{RunStory, StoryItem, StoryTurn, StoryVisit};
