//! Finds the processes below a process in `/proc`.
//!
//! A process may end and its pid be reused between listing and signalling. Pids are assigned in a cycle, so that would
//! take a whole cycle within microseconds; children of the supervisor itself keep their pids until it reaps them.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// One entry of the process table.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    zombie: bool,
}

/// All live processes below `root`, excluding `root`; `None` if the process table is unreadable.
#[cfg(target_os = "linux")]
pub(super) fn below(root: Pid) -> Option<BTreeSet<i32>> {
    let table = Some(table()).filter(|table| !table.is_empty())?;
    let mut found = with_descendants(&table, BTreeSet::from([root.as_raw_pid()]));
    found.remove(&root.as_raw_pid());
    Some(alive(&table, found))
}

/// All processes left by a supervisor that is gone: its session, those with its mark in the environment, and everything
/// below those.
#[cfg(target_os = "linux")]
pub(super) fn strays(supervisor: i32, mark: &[u8]) -> BTreeSet<i32> {
    let table = table();
    let marked = |process: &Process| {
        std::fs::read(format!("/proc/{}/environ", process.pid))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == mark))
    };
    let roots = table.iter().filter(|process| process.session == supervisor || marked(process));
    let roots = roots.map(|process| process.pid).collect();
    alive(&table, with_descendants(&table, roots))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn below(_root: Pid) -> Option<BTreeSet<i32>> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn strays(_supervisor: i32, _mark: &[u8]) -> BTreeSet<i32> {
    BTreeSet::new()
}

/// Signals each of them; a negative number is a group. Processes that are gone are ignored.
pub(super) fn signal_each(pids: &BTreeSet<i32>, signal: Signal) {
    for number in pids {
        let _ = match Pid::from_raw(number.abs()) {
            Some(pid) if *number > 0 => kill_process(pid, signal),
            Some(group) => kill_process_group(group, signal),
            None => Ok(()),
        };
    }
}

#[cfg(target_os = "linux")]
fn with_descendants(table: &[Process], mut found: BTreeSet<i32>) -> BTreeSet<i32> {
    loop {
        let before = found.len();
        found.extend(
            table
                .iter()
                .filter(|process| found.contains(&process.parent))
                .map(|process| process.pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(target_os = "linux")]
fn alive(table: &[Process], found: BTreeSet<i32>) -> BTreeSet<i32> {
    table.iter().filter(|process| !process.zombie && found.contains(&process.pid)).map(|process| process.pid).collect()
}

#[cfg(target_os = "linux")]
fn table() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Parses `pid (name) state parent group session …`; the name may contain anything, even brackets and spaces.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let name_begin = stat.iter().position(|byte| *byte == b' ')?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&stat[..name_begin]).ok()?.parse().ok()?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, zombie })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let process = parse_stat(b"42 (a) b) S \xff) R 7 8 9 0 -1").expect("parsed");
        assert_eq!(process, Process { pid: 42, parent: 7, session: 9, zombie: false });
        assert!(parse_stat(b"43 (x) Z 7 8 9 0").expect("parsed").zombie);
        assert_eq!(parse_stat(b"gone"), None);
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |pid, parent, zombie| Process { pid, parent, session: 1, zombie };
        let table = [
            process(9, 5, false),
            process(5, 3, false),
            process(3, 2, false),
            process(4, 1, false),
            process(6, 9, true),
        ];
        let found = with_descendants(&table, BTreeSet::from([3]));
        assert_eq!(found, BTreeSet::from([3, 5, 6, 9]));
        assert_eq!(alive(&table, found), BTreeSet::from([3, 5, 9]));
    }

    #[test]
    fn this_process_is_in_the_table() {
        let me = rustix::process::getpid().as_raw_pid();
        assert!(table().iter().any(|process| process.pid == me && !process.zombie));
    }
}
