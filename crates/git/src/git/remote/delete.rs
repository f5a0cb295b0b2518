//! Deleting refs of a remote, each only if it is still where it was seen.

use std::ffi::OsString;

use super::push::PushRef;
use super::push_report::{PushReport, parse};
use super::transport::{Direction, RemoteError, call, failed, words};
use super::url::RemoteUrl;
use crate::git::repo::Repo;
use os::process::Cancel;

/// Deletes refs of a remote that are at these commits. One that has moved, or that the remote wants to keep, stays, and the
/// others go. An error is one that no ref had a say in.
pub fn delete_refs(
    repo: &Repo,
    remote: &RemoteUrl,
    refs: &[PushRef],
    cancel: &Cancel,
) -> Result<PushReport, RemoteError> {
    let mut args: Vec<OsString> =
        ["push", "--porcelain", "--no-verify", "--no-follow-tags"].map(OsString::from).to_vec();
    args.push("--recurse-submodules=no".into());
    let leases = refs.iter().map(|gone| format!("--force-with-lease={}:{}", gone.name, gone.commit));
    args.extend(leases.map(OsString::from));
    args.extend(["--".into(), remote.as_git().into()]);
    args.extend(refs.iter().map(|gone| OsString::from(format!(":{}", gone.name))));
    let finished = call(&repo.shared.program, repo.common_dir(), args, remote, Direction::Send, cancel)?;
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
