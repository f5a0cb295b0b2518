//! The events of a run as lines of JSON, recorded or not.

use std::io::Write as _;

use jiff::Timestamp;
use pleach_core::clock;
use pleach_core::event::{Event, Notification, to_the_millisecond};
use pleach_core::ids::{ContextId, SessionId};
use serde::Serialize;

/// Prints events on stdout, numbered.
#[derive(Debug, Default)]
pub struct Stream {
    seq: u64,
}

/// An event as `--json` prints it.
#[derive(Serialize)]
struct Line<'a, D> {
    v: u32,
    seq: u64,
    #[serde(serialize_with = "to_the_millisecond")]
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a ContextId>,
    #[serde(rename = "type")]
    kind: &'a str,
    data: &'a D,
}

impl Stream {
    /// Prints an event. What an agent says in a turn that is not over comes with the turn.
    pub fn print(&mut self, notification: &Notification) {
        let event = &notification.recorded.event;
        if matches!(event, Event::AgentSpoke(_) | Event::AgentWaits(_)) {
            return;
        }
        let (session, context) = notification.by.as_ref().map(|(session, context)| (session, context)).unzip();
        let (seq, at) = (self.next(), notification.recorded.at);
        write(&Line { v: 1, seq, at, session, context, kind: event.kind(), data: event });
    }

    /// Prints what is no event of a run, in their form.
    pub fn tell(&mut self, kind: &str, data: &impl Serialize) {
        let (seq, at) = (self.next(), clock::now());
        write(&Line { v: 1, seq, at, session: None, context: None, kind, data });
    }

    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
}

fn write<D: Serialize>(line: &Line<'_, D>) {
    let line = serde_json::to_string(line).expect("events are structs with text keys, which always serialise");
    // A reader that stops reading does not stop the run: its record is what counts.
    let _ = writeln!(std::io::stdout(), "{line}");
}
