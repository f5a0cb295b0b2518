//! Bringing a session from a remote: its chains of records, and the commits they speak of.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use super::list::{list_refs, list_refs_from};
use super::transport::{Direction, RemoteError, call, success};
use super::url::RemoteUrl;
use crate::git::error::Error;
use crate::git::open;
use crate::git::program::Program;
use crate::git::ref_update::SwapError;
use crate::git::repo::Repo;
use os::process::Cancel;
use pleach_core::config::Environment;
use pleach_core::ids::{CommitId, ContextId, SessionId};

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
pub fn remote_records(
    repo: &Repo,
    remote: &RemoteUrl,
    session: &SessionId,
    cancel: &Cancel,
) -> Result<RemoteRecords, RemoteError> {
    let patterns = [format!("{RECORDS}{session}/*"), format!("{RECORD_BRANCHES}{session}--*")];
    let patterns = patterns.each_ref().map(String::as_str);
    let listed = list_refs_from(repo, remote, &patterns, cancel)?;
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

/// Brings the records of a session, so many commits deep, into a bare repository of their own at `path`, for a look at them
/// before anything is cloned.
pub fn bring_records_apart(
    path: &Path,
    remote: &RemoteUrl,
    session: &SessionId,
    records: &RemoteRecords,
    depth: u32,
    environment: &Environment,
    cancel: &Cancel,
) -> Result<Repo, RemoteError> {
    let program = Program::new(environment);
    let run = |dir: &Path, args: &[&OsStr]| match program.run(dir, args)? {
        done if done.code == Some(0) => Ok(()),
        failed => Err(failed.failure()),
    };
    let (parent, word) = (path.parent().unwrap_or(path), OsStr::new);
    run(parent, &[word("init"), word("--quiet"), word("--bare"), path.as_os_str()])?;
    let refspecs = records.iter().map(|(context, (name, _))| format!("+{name}:{}", local(session, context)));
    fetch_records(&program, path, remote, refspecs, Some(depth), cancel)?;
    // No repository is opened whose HEAD is nowhere.
    if let Some((_, at)) = records.values().next() {
        run(path, &[word("update-ref"), word("--no-deref"), word("HEAD"), word(&at.to_string())])?;
    }
    Ok(open::discover(path, environment)?)
}

fn fetch_records(
    program: &Program,
    dir: &Path,
    remote: &RemoteUrl,
    refspecs: impl Iterator<Item = String>,
    depth: Option<u32>,
    cancel: &Cancel,
) -> Result<(), RemoteError> {
    let mut args: Vec<String> =
        ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"]
            .map(str::to_owned)
            .to_vec();
    args.extend(depth.map(|depth| format!("--depth={depth}")));
    args.extend(["--no-auto-maintenance".to_owned(), "--".to_owned(), remote.as_git().to_owned()]);
    args.extend(refspecs);
    let finished = call(program, dir, args, remote, Direction::Receive, cancel)?;
    success(finished, remote).map(drop)
}

/// Brings the records of a session, and with them the commits of the repository they speak of: all, or those that are so
/// many commits away at most. A chain that goes on here stays.
pub fn bring_records(
    repo: &Repo,
    remote: &RemoteUrl,
    session: &SessionId,
    records: &RemoteRecords,
    depth: Option<u32>,
    cancel: &Cancel,
) -> Result<BroughtRecords, RemoteError> {
    let fetched = |context: &ContextId| format!("{FETCHED_RECORDS}{session}/{context}");
    let refspecs = records.iter().map(|(context, (name, _))| format!("+{name}:{}", fetched(context)));
    fetch_records(&repo.shared.program, repo.common_dir(), remote, refspecs, depth, cancel)?;
    let mut brought = BroughtRecords::Known;
    let mut moves = Vec::new();
    for context in records.keys() {
        let Some(theirs) = repo.refs().find(&fetched(context))? else { continue };
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
