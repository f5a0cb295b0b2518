//! Processor time, as the kernel counts it.

use std::error::Error;
use std::time::Duration;

/// The kernel counts in hundredths of a second towards programs, whatever its own clock is.
const TICKS_PER_SECOND: u32 = 100;

/// What a process and all its children that have ended took so far. `process` is an id, or `self`.
pub fn of(process: &str) -> Result<Duration, Box<dyn Error>> {
    ticks(process, 0..4)
}

/// What the children of this process took that have ended.
pub fn of_children() -> Result<Duration, Box<dyn Error>> {
    ticks("self", 2..4)
}

/// The sum of some of the four times of a process: its own in user and system mode, and those of its children.
fn ticks(process: &str, which: std::ops::Range<usize>) -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in brackets, may hold anything; the fields after it are numbers.
    let (_, fields) = stat.rsplit_once(')').ok_or("unreadable stat")?;
    let times = fields.split_whitespace().skip(11 + which.start).take(which.len());
    let ticks: u32 = times.map(|field| field.parse::<u32>().unwrap_or(0)).sum();
    Ok(Duration::from_secs(1) * ticks / TICKS_PER_SECOND)
}
