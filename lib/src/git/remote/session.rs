//! Bringing a session from a remote: its chains of records, and the commits they speak of.

use std::collections::BTreeMap;

use super::list::{list_from, list_refs};
use super::transport::{Direction, RemoteError, call, success};
use super::url::RemoteUrl;
use crate::config::Environment;
use crate::git::error::Error;
use crate::git::ref_update::SwapError;
use crate::git::repo::Repo;
use crate::ids::{CommitId, ContextId, SessionId};
use crate::process::Cancel;

/// Where records are, here and at a remote.
const RECORDS: &str = "refs/pleach/sessions/";

/// Where they are at a remote that refuses that namespace.
const RECORD_BRANCHES: &str = "refs/heads/pleach/records/";

/// Where they are fetched to before it is known whether they fit those here.
const FETCHED_RECORDS: &str = "refs/pleach/remote/sessions/";

/// The chains of records a remote has of a session, by context: the ref there, and its newest record.
pub type RemoteRecords = BTreeMap<ContextId, (String, CommitId)>;

/// What came of bringing records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroughtRecords {
    /// What is here is what the remote has, or goes on from it.
    Known,
    /// What the remote has is here now.
    Brought,
    /// Both have records the other lacks: the session was continued here and elsewhere.
    Diverged,
}

/// The sessions a remote has records of.
pub fn remote_sessions(
    remote: &RemoteUrl,
    environment: &Environment,
    cancel: &Cancel,
) -> Result<BTreeMap<SessionId, RemoteRecords>, RemoteError> {
    let patterns = [format!("{RECORDS}*"), format!("{RECORD_BRANCHES}*")];
    let listed = list_refs(remote, &patterns.each_ref().map(String::as_str), environment, cancel)?;
    Ok(by_session(listed))
}

/// The records a remote has of one session.
pub(crate) fn remote_records(
    repo: &Repo,
    remote: &RemoteUrl,
    session: &SessionId,
    cancel: &Cancel,
) -> Result<RemoteRecords, RemoteError> {
    let patterns = [format!("{RECORDS}{session}/*"), format!("{RECORD_BRANCHES}{session}--*")];
    let patterns = patterns.each_ref().map(String::as_str);
    let listed = list_from(&repo.shared.program, repo.common_dir(), remote, &patterns, cancel)?;
    Ok(by_session(listed).remove(session).unwrap_or_default())
}

fn by_session(listed: BTreeMap<String, CommitId>) -> BTreeMap<SessionId, RemoteRecords> {
    let mut sessions: BTreeMap<SessionId, RemoteRecords> = BTreeMap::new();
    for (name, at) in listed {
        let own = name.strip_prefix(RECORDS).and_then(|rest| rest.split_once('/'));
        let as_branch = || name.strip_prefix(RECORD_BRANCHES)?.split_once("--");
        let Some((session, context)) = own.or_else(as_branch) else { continue };
        if let (Ok(session), Ok(context)) = (session.parse(), context.parse::<ContextId>()) {
            let known = sessions.entry(session).or_default();
            // Branches are only there for want of anything better, and more people may push them.
            if name.starts_with(RECORDS) || !known.contains_key(&context) {
                known.insert(context, (name, at));
            }
        }
    }
    sessions
}

/// Whether the remote has nothing of a session that is not here.
pub fn is_known(repo: &Repo, session: &SessionId, records: &RemoteRecords) -> Result<bool, Error> {
    for (context, (_, at)) in records {
        let here = repo.refs().find(&local(session, context))?;
        let is_known = match here {
            Some(here) if repo.commit(*at).is_ok() => repo.history().is_ancestor(*at, here)?,
            _ => false,
        };
        if !is_known {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings the records of a session, and with them the commits of the repository they speak of. A chain that goes on here
/// stays.
pub fn bring_records(
    repo: &Repo,
    remote: &RemoteUrl,
    session: &SessionId,
    records: &RemoteRecords,
    cancel: &Cancel,
) -> Result<BroughtRecords, RemoteError> {
    let mut args: Vec<String> =
        ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"]
            .map(str::to_owned)
            .to_vec();
    args.extend(["--no-auto-maintenance".to_owned(), "--".to_owned(), remote.as_git().to_owned()]);
    args.extend(records.iter().map(|(context, (name, _))| format!("+{name}:{FETCHED_RECORDS}{session}/{context}")));
    let finished = call(&repo.shared.program, repo.common_dir(), args, (remote, Direction::Receive), cancel)?;
    success(finished, remote)?;
    let mut brought = BroughtRecords::Known;
    let mut moves = Vec::new();
    for context in records.keys() {
        let fetched = format!("{FETCHED_RECORDS}{session}/{context}");
        let Some(theirs) = repo.refs().find(&fetched)? else { continue };
        let here = repo.refs().find(&local(session, context))?;
        match here {
            Some(here) if repo.history().is_ancestor(theirs, here)? => {}
            Some(here) if !repo.history().is_ancestor(here, theirs)? => return Ok(BroughtRecords::Diverged),
            here => moves.push((local(session, context), here, theirs)),
        }
    }
    for (name, here, theirs) in moves {
        repo.refs().swap(&name, here, theirs, "pleach: resume from a remote").map_err(of_swap)?;
        brought = BroughtRecords::Brought;
    }
    Ok(brought)
}

fn of_swap(error: SwapError) -> Error {
    error.into()
}

fn local(session: &SessionId, context: &ContextId) -> String {
    format!("{RECORDS}{session}/{context}")
}
