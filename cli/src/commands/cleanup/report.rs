//! What a cleanup tells: a line for everything, or one event.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use git::workspace::KEEP;
use pleach_core::clock;
use pleach_core::event::{CleanedItem, CleanupCompleted, KeptItem, Notification, Recorded, StayingItem};
use pleach_core::text::counted;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::place::Place;
use crate::render::stream::Stream;
use crate::render::{Out, bytes, style};

/// What is told while things are removed, and at the end.
pub struct Report {
    out: Out,
    json: bool,
    /// There is only one repository, so it is not named.
    is_single: bool,
    exit: Exit,
    done: CleanupCompleted,
}

impl Report {
    pub fn new(json: bool, dry_run: bool, is_single: bool) -> Self {
        let done = CleanupCompleted { dry_run, ..CleanupCompleted::default() };
        Self { out: Out::new(), json, is_single, exit: Exit::Done, done }
    }

    pub fn is_dry_run(&self) -> bool {
        self.done.dry_run
    }

    /// Something that was removed, or would be.
    pub fn removed(&mut self, what: &str, item: CleanedItem) -> Result<(), Failure> {
        let remove = if self.done.dry_run { "would remove" } else { "removed" };
        let was = if self.done.dry_run { "is" } else { "was" };
        let size = item.bytes.map(|count| format!(" ({})", bytes(count))).unwrap_or_default();
        let commit = item.commit.map(|commit| format!(" ({was} {})", commit.short())).unwrap_or_default();
        let remote = item.remote.as_ref().map(|remote| format!(" from {remote}")).unwrap_or_default();
        let at = self.at(&item.repo);
        self.done.bytes += item.bytes.unwrap_or_default();
        self.done.removed.push(item);
        self.line(&format!("{at}{remove} {what}{size}{commit}{remote}"))
    }

    /// Work that nothing else had. A dry run does not know where it would be.
    pub fn kept(&mut self, what: &str, place: &Place, reference: Option<&str>) -> Result<(), Failure> {
        let at = self.at(&place.name);
        let line = match reference {
            Some(reference) => format!("{at}kept the work of {what} that nothing else has at {reference}"),
            None => format!("{at}would keep the work of {what} that nothing else has below {KEEP}"),
        };
        let reference = reference.unwrap_or(KEEP).to_owned();
        self.done.kept.push(KeptItem { reference, repo: place.name.clone() });
        self.line(&line)
    }

    /// Something that is not old enough.
    pub fn recent(&mut self) {
        self.done.recent += 1;
    }

    /// Whether something was said to stay before.
    pub fn is_left(&self, what: &str, place: &Place) -> bool {
        self.done.stays.iter().any(|left| left.name == what && left.repo == place.name)
    }

    /// Something old that stays, as it should.
    pub fn stays_by_rule(&mut self, what: &str, place: &Place, why: impl Display) -> Result<(), Failure> {
        let (at, why) = (self.at(&place.name), why.to_string());
        let line = format!("{at}{what} stays: {why}");
        self.left(what, place, why);
        self.line(&line)
    }

    /// Something that could not be removed. The machine is in the way, or it should not go.
    pub fn stays(&mut self, what: &str, place: &Place, why: &Failure) -> Result<(), Failure> {
        if why.exit() != Exit::Environment {
            return self.stays_by_rule(what, place, why.sentence());
        }
        self.exit = Exit::Environment;
        let why = why.sentence();
        warning!(NotRemoved, "{}{what} stays: {why}", self.at(&place.name));
        self.left(what, place, why);
        Ok(())
    }

    /// Something stays, as a warning has said.
    pub fn left(&mut self, what: &str, place: &Place, why: String) {
        self.done.stays.push(StayingItem { name: what.to_owned(), repo: place.name.clone(), why });
    }

    /// Tells all of it.
    pub fn end(mut self, age: Duration) -> Result<Exit, Failure> {
        if self.json {
            let recorded = Arc::new(Recorded { at: clock::now(), event: self.done.into() });
            Stream::default().print(&Notification { by: None, recorded });
            return Ok(self.exit);
        }
        if self.done.recent > 0 {
            let stay = if self.done.recent == 1 { "stays" } else { "stay" };
            let left = counted(self.done.recent as u64, "thing");
            self.line(&format!("{left} used in the last {} {stay}", days(age)))?;
        }
        let total = match (self.done.removed.len() as u64, self.done.dry_run) {
            (0, _) => "nothing to remove".to_owned(),
            (count, true) => format!("would remove {}, {}", counted(count, "thing"), bytes(self.done.bytes)),
            (count, false) => format!("removed {}, {}", counted(count, "thing"), bytes(self.done.bytes)),
        };
        self.line(&style::head(&total))?;
        Ok(self.exit)
    }

    fn at(&self, repo: &pleach_core::ids::RepoName) -> String {
        if self.is_single { String::new() } else { format!("{repo}: ") }
    }

    fn line(&mut self, line: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.out.line(line) }
    }
}

/// `7 days`, `12 hours`, `90 seconds`.
fn days(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        _ if seconds.is_multiple_of(86_400) => counted(seconds / 86_400, "day"),
        _ if seconds.is_multiple_of(3600) => counted(seconds / 3600, "hour"),
        _ => counted(seconds, "second"),
    }
}
