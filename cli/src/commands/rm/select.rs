//! Which sessions `pleach rm` removes by options: those that match all of them.

use std::time::Duration;

use clap::Args;
use engine::view::{SessionStatus, Summary, View};
use jiff::Timestamp;
use pleach_core::clock;
use pleach_core::ids::SessionId;
use pleach_core::plan::dot::read_duration;

use crate::failure::Failure;
use crate::lib_errors::of_engine;
use crate::sessions::SessionGround;

/// The options that choose sessions. Several narrow the choice.
#[derive(Debug, Args)]
#[group(id = "selectors", multiple = true)]
pub struct Selectors {
    /// Remove the sessions of tasks that have landed.
    #[arg(long)]
    landed: bool,
    /// Remove the sessions that have ended and whose commits are on the branch they were started on.
    #[arg(long)]
    merged: bool,
    /// Remove the sessions that are done.
    #[arg(long)]
    done: bool,
    /// Remove the sessions that have ended and were not used for this long: 30d, 12h.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older: Option<Duration>,
    /// Remove refs under refs/pleach/keep/ instead of sessions; with --older only older ones. What an unfinished
    /// session may need stays.
    #[arg(long, conflicts_with_all = ["landed", "merged", "done"])]
    pub keeps: bool,
}

/// One thing sessions are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// Its task is complete and the target has it.
    Landed,
    /// It has ended, and the branch it was started on has its commits.
    Merged,
    /// It has reached its exit.
    Done,
    /// It has ended, and its newest record was made before this time.
    Before(Timestamp),
}

impl Selectors {
    /// The options that were given; none when sessions are named instead.
    pub fn given(&self) -> Vec<Selector> {
        let flags = [(self.landed, Selector::Landed), (self.merged, Selector::Merged), (self.done, Selector::Done)];
        let given = flags.into_iter().filter(|(given, _)| *given).map(|(_, selector)| selector);
        given.chain(self.before().map(Selector::Before)).collect()
    }

    /// The time before which something was made that is old.
    pub fn before(&self) -> Option<Timestamp> {
        self.older.map(|age| clock::now().checked_sub(age).unwrap_or(Timestamp::MIN))
    }
}

impl Selector {
    /// Whether a session matches.
    fn fits(self, ground: &SessionGround, summary: &Summary) -> Result<bool, Failure> {
        let found = match self {
            Self::Landed => summary.is_on_target(&ground.place.repo),
            Self::Merged if !has_ended(summary) => Ok(false),
            Self::Merged => summary.is_merged(&ground.repos(&summary.started)),
            Self::Done => Ok(has_ended(summary) && summary.standing() == SessionStatus::Done),
            Self::Before(time) => Ok(has_ended(summary) && summary.updated_at < time),
        };
        found.map_err(|error| of_engine(&error))
    }
}

/// Whether nothing is to be done for a session any more. A failed one can be resumed, and one of a task that was not landed
/// may continue with it.
fn has_ended(summary: &Summary) -> bool {
    match (&summary.state.task, summary.standing()) {
        (_, SessionStatus::Cancelled) => true,
        (Some(task), _) => task.landed.is_some(),
        (None, standing) => standing == SessionStatus::Done,
    }
}

/// `30d`, `12h`.
fn age(text: &str) -> Result<Duration, &'static str> {
    read_duration(text).ok_or("write a number and d, h, m or s, such as 30d")
}

/// The sessions all of these fit, oldest first. One whose record cannot be read, or that runs, is not among them.
pub fn select(ground: &SessionGround, selectors: &[Selector]) -> Result<Vec<SessionId>, Failure> {
    let mut chosen = Vec::new();
    for (id, summary) in View::all(&ground.place.repo).map_err(|error| of_engine(&error))? {
        let Ok(summary) = summary else { continue };
        let mut fits = !summary.in_use;
        for selector in selectors {
            fits = fits && selector.fits(ground, &summary)?;
        }
        chosen.extend(fits.then_some(id));
    }
    chosen.reverse();
    Ok(chosen)
}
