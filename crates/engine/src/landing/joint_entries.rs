//! The entries of landings of several repositories, which have an id in common, and the marks of landings under way.

use std::collections::BTreeMap;

use super::decide::withdraw_entry;
use super::enqueue::{Submission, enqueue};
use super::error::QueueError;
use super::landing::tip_of;
use super::store::{MergeQueue, queue_targets};
use crate::env::{SessionRepos, lock_name};
use crate::session::resume;
use git::Repo;
use git::record::{self, StoredEntry};
use git::workspace::{self, Lock, new_entry_id};
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, EntryId, RepoName, SessionId};
use pleach_core::queue::QueueEntry;
use pleach_core::redact::Redactor;

/// A landing's part in a repository.
#[derive(Debug, Clone)]
pub struct JointPart {
    /// The repository.
    pub name: RepoName,
    /// The session branch there.
    pub branch: BranchName,
    /// The newest commit of the session.
    pub head: CommitId,
    /// The branch it lands on.
    pub target: BranchName,
}

/// A landing that waits in the queues.
#[derive(Debug, Clone)]
pub struct QueuedLanding {
    /// The id its entries share.
    pub id: EntryId,
    /// The session that lands.
    pub session: SessionId,
    /// Its entries that are open.
    pub entries: Vec<QueueEntry>,
}

impl QueuedLanding {
    /// Whether it can continue without a person.
    pub fn is_workable(&self, auto_merge_clean: bool) -> bool {
        let waits = |entry: &QueueEntry| !auto_merge_clean && !entry.approved && entry.candidate.is_some();
        self.entries.iter().all(|entry| entry.state.is_workable() && !waits(entry))
    }
}

/// The landings that wait in the queues of these repositories, in the order they were queued.
pub fn queued_landings<'r>(repos: impl IntoIterator<Item = &'r Repo>) -> Result<Vec<QueuedLanding>, QueueError> {
    let mut found: BTreeMap<EntryId, QueuedLanding> = BTreeMap::new();
    for repo in repos {
        for target in queue_targets(repo)? {
            for entry in MergeQueue::read(repo, &target)?.entries() {
                let (Some(id), Some(session)) = (entry.together.clone(), entry.session.clone()) else { continue };
                let new = || QueuedLanding { id: id.clone(), session, entries: Vec::new() };
                found.entry(id.clone()).or_insert_with(new).entries.push(entry);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The entries of a landing in a repository, open or closed.
pub fn entries_of_landing(repo: &Repo, id: &EntryId) -> Result<Vec<StoredEntry>, QueueError> {
    let mut entries = Vec::new();
    for target in queue_targets(repo)? {
        let all = MergeQueue::read_all(repo, &target)?.into_iter();
        entries.extend(all.filter(|stored| stored.entry.together.as_ref() == Some(id)));
    }
    Ok(entries)
}

/// Where the entries of a landing go, by repository.
pub fn landing_targets(repos: &SessionRepos, id: &EntryId) -> Result<BTreeMap<RepoName, BranchName>, QueueError> {
    let mut targets = BTreeMap::new();
    for (name, repo) in repos.iter() {
        let entry = entries_of_landing(repo, id)?.pop();
        targets.extend(entry.map(|stored| (name.clone(), stored.entry.target)));
    }
    Ok(targets)
}

/// Puts the parts of a landing into the queues of their targets. Returns the id they share. Entries of the session for
/// other targets are taken out.
pub fn submit_together(
    repos: &SessionRepos,
    session: &SessionId,
    parts: &[JointPart],
    redactor: &Redactor,
) -> Result<EntryId, QueueError> {
    let mut known = None;
    // All are checked before the first one is queued.
    let (mut new, mut elsewhere) = (Vec::new(), Vec::new());
    for (name, repo) in repos.iter() {
        let part = parts.iter().find(|part| part.name == *name);
        for target in queue_targets(repo)? {
            let own = MergeQueue::read(repo, &target)?
                .open
                .into_iter()
                .filter(|stored| stored.entry.session.as_ref() == Some(session) && stored.entry.together.is_some());
            for stored in own {
                if part.is_some_and(|part| part.target == target) {
                    known = known.or(stored.entry.together)
                } else {
                    elsewhere.push((repo, stored))
                }
            }
        }
        if let Some(part) = part
            && !repo.history().is_ancestor(part.head, tip_of(repo, &part.target)?)?
        {
            let submission = Submission::branch(repo, part.name.clone(), part.branch.clone(), part.target.clone())?;
            new.push((repo, Submission { head: part.head, session: Some(session.clone()), ..submission }));
        }
    }
    let id = known.unwrap_or_else(|| new_entry_id(clock::now()));
    for (repo, stored) in elsewhere {
        withdraw_entry(repo, &stored, redactor, "its session lands on another branch")?;
    }
    for (repo, submission) in new {
        enqueue(repo, Submission { together: Some(id.clone()), ..submission }, redactor)?;
    }
    Ok(id)
}

/// The directory of the marks of landings that are under way, in the git directory.
const UNDER_WAY: &str = "pleach/landing";

/// Marks a landing that is under way, so that the next command finds it without reading every session.
pub(super) fn mark(repo: &Repo, session: &SessionId) -> Result<(), QueueError> {
    let path = repo.common_dir().join(UNDER_WAY).join(session.as_str());
    let io = |source| workspace::Error::Io { doing: "write", path: path.clone(), source };
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io)?;
    std::fs::write(&path, "").map_err(io)?;
    Ok(())
}

pub(super) fn unmark(repo: &Repo, session: &SessionId) {
    let _ = std::fs::remove_file(repo.common_dir().join(UNDER_WAY).join(session.as_str()));
}

/// The sessions whose landing was interrupted after it was decided. The marks of undecided and completed landings are
/// removed.
pub fn unfinished_landings(repo: &Repo) -> Vec<SessionId> {
    let Ok(marks) = std::fs::read_dir(repo.common_dir().join(UNDER_WAY)) else { return Vec::new() };
    let mut found: Vec<SessionId> =
        marks.flatten().filter_map(|mark| mark.file_name().to_str()?.parse().ok()).collect();
    found.sort();
    found.retain(|session| is_under_way(repo, session));
    found
}

fn is_under_way(repo: &Repo, session: &SessionId) -> bool {
    let is_open = match resume::read(repo, session) {
        Ok(recorded) => !recorded.state.landing.is_empty(),
        Err(crate::env::Error::Record(record::Error::Missing { .. })) => false,
        // The error is shown when finishing it.
        Err(_) => true,
    };
    // The session's holder may be about to decide.
    if !is_open && !Lock::is_held(repo.common_dir(), &lock_name(session)) {
        unmark(repo, session);
    }
    is_open
}
