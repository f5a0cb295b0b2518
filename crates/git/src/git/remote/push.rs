//! Pushing: plain fast-forwards of several refs at once, all or none, never forced.

use std::ffi::OsString;

use super::push_report::{PushReport, parse};
use super::transport::{Direction, RemoteError, call, failed, words};
use super::url::RemoteUrl;
use crate::git::crash::{self, CrashKind, CrashSide};
use crate::git::program::GitOutput;
use crate::git::repo::Repo;
use os::process::Cancel;
use pleach_core::ids::CommitId;

/// A ref to push.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PushRef {
    /// Its full name at the remote.
    pub name: String,
    /// The commit it is to be at.
    pub commit: CommitId,
}

/// git's delta search over records takes many times as long as sending them as they are.
const PACKING: [&str; 4] = ["-c", "pack.window=0", "-c", "pack.compression=1"];

/// What git says where the remote cannot take all refs or none.
const NOT_ATOMIC: &str = "does not support --atomic";

/// Pushes refs to a remote. An error is one that no ref had a say in: it cannot be reached, or does not answer.
pub fn push(repo: &Repo, remote: &RemoteUrl, refs: &[PushRef], cancel: &Cancel) -> Result<PushReport, RemoteError> {
    crash::point(CrashKind::Push, CrashSide::Before);
    let mut finished = push_once(repo, remote, refs, true, cancel)?;
    if finished.code != Some(0) && finished.stderr.contains(NOT_ATOMIC) {
        finished = push_once(repo, remote, refs, false, cancel)?;
    }
    crash::point(CrashKind::Push, CrashSide::After);
    let report = PushReport {
        refs: parse(&String::from_utf8_lossy(&finished.stdout)),
        words: remote.scrub(&words(&finished.stderr)),
    };
    match finished.code {
        Some(0) => Ok(report),
        _ if report.refs.is_empty() || report.is_done() => Err(failed(&finished, remote)),
        _ => Ok(report),
    }
}

fn push_once(
    repo: &Repo,
    remote: &RemoteUrl,
    refs: &[PushRef],
    is_atomic: bool,
    cancel: &Cancel,
) -> Result<GitOutput, RemoteError> {
    let mut args: Vec<OsString> = PACKING.map(OsString::from).to_vec();
    args.extend(["push", "--porcelain", "--progress", "--no-verify", "--no-follow-tags"].map(OsString::from));
    args.push("--recurse-submodules=no".into());
    args.extend(is_atomic.then(|| OsString::from("--atomic")));
    args.extend(["--".into(), remote.as_git().into()]);
    args.extend(refs.iter().map(|pushed| OsString::from(format!("{}:{}", pushed.commit, pushed.name))));
    call(&repo.shared.program, repo.common_dir(), args, remote, Direction::Send, cancel)
}
