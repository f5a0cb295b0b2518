//! The one clock. What decides takes `now` as an argument; only the shell asks here.

use jiff::Timestamp;

/// The time, to the millisecond, which is what records hold.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
