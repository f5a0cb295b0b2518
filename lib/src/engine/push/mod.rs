//! Pushes sessions to the remotes of their repositories, in the background.
//!
//! `settings` says what is pushed where and when, `schedule` decides which refs are due, and `queue` owns the pushes of a
//! session: the loop only notes where refs are. One push at a time for each remote, all its refs or none, never forced.
//! A failed push is a warning; only a remote on which another machine has continued the session stops it.

mod attempt;
mod queue;
mod schedule;
mod settings;

pub(in crate::engine) use queue::{PushQueue, PushSource};
pub(in crate::engine) use schedule::PushOccasion;
pub use settings::{PushSettings, RepoPush};
