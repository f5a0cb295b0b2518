//! Crash points: places where a test can have the process die, to show that what is left behind can be resumed.
//!
//! They are compiled in always and switched on at run time, so that what is tested is the program people run:
//! `PLEACH_CRASH=ref-swap:after:3` dies after the third ref swap, `PLEACH_CRASH=any:17` at the seventeenth point of
//! any kind, and `PLEACH_CRASH_TRACE=FILE` appends a line per point passed, by which a sweep knows how many there are.
//! Switched off, a point costs one atomic load.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use pleach_core::config::Environment;

/// What is about to be, or has just been, written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// One object put into the object store.
    ObjectWrite,
    /// A ref moved.
    RefSwap,
    /// A worktree's HEAD moved.
    HeadUpdate,
    /// A worktree's index written.
    IndexUpdate,
    /// A target moved to what was built for it: its ref, and the files of the checkout that has it.
    Landing,
    /// Refs pushed to a remote.
    Push,
}

/// On which side of the write a point lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashSide {
    /// Nothing is written yet.
    Before,
    /// It is written.
    After,
}

const KINDS: [CrashKind; 6] = [
    CrashKind::ObjectWrite,
    CrashKind::RefSwap,
    CrashKind::HeadUpdate,
    CrashKind::IndexUpdate,
    CrashKind::Landing,
    CrashKind::Push,
];

impl fmt::Display for CrashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ObjectWrite => "object-write",
            Self::RefSwap => "ref-swap",
            Self::HeadUpdate => "head-update",
            Self::IndexUpdate => "index-update",
            Self::Landing => "landing",
            Self::Push => "push",
        })
    }
}

impl fmt::Display for CrashSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

/// Where to die: the n-th point of a kind and side, or the n-th of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashTarget {
    /// `KIND:WHEN:N`
    Point(CrashKind, CrashSide, u64),
    /// `any:N`
    Any(u64),
}

/// A crash point that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a crash point; write `any:N`, or KIND:WHEN:N with object-write, ref-swap, head-update, index-update or landing, before or after, and N from 1"
)]
pub struct InvalidTarget(String);

impl FromStr for CrashTarget {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let invalid = || InvalidTarget(text.into());
        let parts: Vec<&str> = text.split(':').collect();
        let number = |text: &str| text.parse().ok().filter(|n| *n > 0).ok_or_else(invalid);
        match parts.as_slice() {
            ["any", n] => Ok(Self::Any(number(n)?)),
            [kind, when, n] => {
                let kind = KINDS.into_iter().find(|k| k.to_string() == *kind).ok_or_else(invalid)?;
                let when = [CrashSide::Before, CrashSide::After].into_iter().find(|w| w.to_string() == *when);
                Ok(Self::Point(kind, when.ok_or_else(invalid)?, number(n)?))
            }
            _ => Err(invalid()),
        }
    }
}

struct CrashPlan {
    target: Option<CrashTarget>,
    trace: Option<PathBuf>,
    /// Points passed, per kind and side.
    passed: [AtomicU64; KINDS.len() * 2],
    /// Orders the points of several threads, so that their numbers and the trace agree.
    turnstile: Mutex<u64>,
}

static ON: AtomicBool = AtomicBool::new(false);
static PLAN: OnceLock<CrashPlan> = OnceLock::new();

/// Reads `PLEACH_CRASH` and `PLEACH_CRASH_TRACE` and switches the points on if either is set. Called once, at start.
pub fn install(environment: &Environment) -> Result<(), InvalidTarget> {
    let target = environment.get("PLEACH_CRASH").filter(|text| !text.is_empty()).map(str::parse).transpose()?;
    let trace = environment.get("PLEACH_CRASH_TRACE").filter(|text| !text.is_empty()).map(PathBuf::from);
    if target.is_some() || trace.is_some() {
        PLAN.get_or_init(|| CrashPlan { target, trace, passed: Default::default(), turnstile: Mutex::new(0) });
        ON.store(true, Ordering::Release);
    }
    Ok(())
}

/// A place where the process may be told to die.
#[inline]
pub fn point(kind: CrashKind, when: CrashSide) {
    if ON.load(Ordering::Relaxed) {
        pass(kind, when);
    }
}

#[cold]
fn pass(kind: CrashKind, when: CrashSide) {
    let Some(plan) = PLAN.get() else { return };
    let Ok(mut total) = plan.turnstile.lock() else { return };
    *total += 1;
    let count = plan.passed[kind as usize * 2 + when as usize].fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(path) = &plan.trace {
        // A trace that cannot be written only spoils the sweep that asked for it.
        let _ = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(format!("{} {kind}:{when}:{count}\n", *total).as_bytes()));
    }
    let dies = match plan.target {
        Some(CrashTarget::Any(n)) => n == *total,
        Some(CrashTarget::Point(k, w, n)) => k == kind && w == when && n == count,
        None => false,
    };
    if dies {
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        assert_eq!(
            "ref-swap:after:3".parse::<CrashTarget>().unwrap(),
            CrashTarget::Point(CrashKind::RefSwap, CrashSide::After, 3)
        );
        assert_eq!("any:17".parse::<CrashTarget>().unwrap(), CrashTarget::Any(17));
        for kind in KINDS {
            assert_eq!(
                format!("{kind}:before:1").parse::<CrashTarget>().unwrap(),
                CrashTarget::Point(kind, CrashSide::Before, 1)
            );
        }
        for bad in ["", "any", "any:0", "any:x", "ref-swap:3", "ref-swap:during:3", "swap:after:1", "any:1:2"] {
            assert!(bad.parse::<CrashTarget>().is_err(), "{bad}");
        }
    }
}
