//! Branches of sessions, tasks and phases that no session on record uses any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;

use super::sessions::readable_tasks;
use crate::env::{Error, lock_name};
use crate::keep::{KeptWork, RemoveError, delete};
use crate::landing::{MergeQueue, QueueError, queue_targets};
use crate::tree::progress::{self, ProgressReader};
use crate::view::run_worktrees;
use git::Repo;
use git::record::History;
use git::workspace::{
    KeepOwner, Lock, LockError, branch_ref, context_of_branch, phase_branches, target_lock, target_of,
};
use pleach_core::ids::{BranchName, CommitId, SessionId, TaskId};
use pleach_core::trailer::CommitMessage;

/// The reason given in the commit of the kept work.
const REASON: &str = "the branch was removed";

/// A branch that no session on record uses.
#[derive(Debug)]
pub struct LeftBranch {
    /// Its name.
    pub branch: BranchName,
    /// Its tip.
    pub tip: CommitId,
    owner: BranchOwner,
    /// The target has its work, if only as a copy.
    has_landed: bool,
    /// Why it stays; none if it may go.
    pub stays: Option<BranchStays>,
}

/// Whom a branch was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BranchOwner {
    Session(SessionId),
    Task(BranchName, TaskId),
    Phase(BranchName),
}

/// Why a branch is not removed for its age.
#[derive(Debug, thiserror::Error)]
pub enum BranchStays {
    /// Its newest commit is not old enough.
    #[error("its newest commit is recent")]
    Recent,
    /// Removing it would leave a checkout without a branch.
    #[error("it is checked out at `{}`", .0.display())]
    CheckedOut(PathBuf),
    /// The merge queue is to merge it.
    #[error("{0} is in the merge queue")]
    Queued(String),
    /// The task has neither landed nor been cancelled.
    #[error("its task has not landed")]
    OpenTask,
    /// The target does not have the phase.
    #[error("its phase is not merged")]
    NotMerged,
    /// A worktree of its session is there, whose record is in a repository that is not known here.
    #[error("its session has a worktree at `{}`", .0.display())]
    HasWorktree(PathBuf),
    /// Somebody else has committed to it.
    #[error("its newest commit is not of its session")]
    Foreign,
    /// A process works with it.
    #[error(transparent)]
    Used(#[from] LockError),
    /// It could not be read or removed.
    #[error(transparent)]
    Refused(#[from] RemoveError),
}

impl From<git::Error> for BranchStays {
    fn from(error: git::Error) -> Self {
        Self::Refused(error.into())
    }
}

/// A removed branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedBranch {
    /// No other branch has its commits.
    pub is_unmerged: bool,
    /// Where they are kept then; none before they are.
    pub kept: Option<String>,
}

/// The branches below `prefix` that no session uses which is on record in one of `records`. One whose newest commit is not
/// from before `before` stays.
pub fn left_branches(
    repo: &Repo,
    records: &[&Repo],
    prefix: &str,
    base: Option<&BranchName>,
    before: Timestamp,
) -> Result<Vec<LeftBranch>, QueueError> {
    let known = KnownBranches::read(repo, records)?;
    let mut readers: BTreeMap<BranchName, ProgressReader> = BTreeMap::new();
    let mut left = Vec::new();
    for (name, tip) in repo.refs().list_unpeeled(&format!("refs/heads/{prefix}"))? {
        let branch = name.strip_prefix("refs/heads/").and_then(|name| BranchName::new(name).ok());
        let (Some(branch), Some(tip)) = (branch, tip) else { continue };
        let Some(owner) = owner(prefix, &branch).filter(|owner| !known.is_used(&branch, owner)) else { continue };
        let landed = match &owner {
            BranchOwner::Task(target, _) => {
                let new = || ProgressReader::new(repo, target, prefix, base);
                has_completed(readers.entry(target.clone()).or_insert_with(new), tip)
            }
            BranchOwner::Phase(target) => is_on(repo, target, tip),
            BranchOwner::Session(_) => Ok(false),
        };
        let (has_landed, stays) = match landed {
            Ok(landed) => (landed, known.stays(repo, &branch, tip, &owner, landed, before)?),
            Err(error) => (false, Some(BranchStays::from(error))),
        };
        left.push(LeftBranch { branch, tip, owner, has_landed, stays });
    }
    Ok(left)
}

/// What is read once for all branches.
struct KnownBranches {
    sessions: BTreeSet<SessionId>,
    /// The branches sessions of tasks are recorded with.
    used: BTreeSet<BranchName>,
    cancelled: BTreeSet<(BranchName, TaskId)>,
    queued: BTreeMap<BranchName, String>,
}

impl KnownBranches {
    fn read(repo: &Repo, records: &[&Repo]) -> Result<Self, QueueError> {
        let (mut sessions, mut used, mut queued) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        for record in records {
            for id in History::sessions(record).map_err(Error::from)? {
                // One that cannot be read has the branch that is named after it.
                let branches = History::newest(record, &id).map(|history| history.started.branches).unwrap_or_default();
                used.extend(branches.into_values());
                sessions.insert(id);
            }
        }
        for target in queue_targets(repo)? {
            let open = MergeQueue::read(repo, &target)?.open.into_iter();
            queued.extend(open.filter_map(|stored| Some((stored.entry.branch.clone()?, stored.entry.name()))));
        }
        let cancelled = readable_tasks(repo).into_iter().map(|stored| stored.task);
        let cancelled = cancelled.filter(|task| task.cancelled.is_some());
        let cancelled = cancelled.map(|task| (task.target, task.id)).collect();
        Ok(Self { sessions, used, cancelled, queued })
    }

    fn is_used(&self, branch: &BranchName, owner: &BranchOwner) -> bool {
        let is_named = matches!(owner, BranchOwner::Session(session) if self.sessions.contains(session));
        is_named || self.used.contains(branch)
    }

    fn stays(
        &self,
        repo: &Repo,
        branch: &BranchName,
        tip: CommitId,
        owner: &BranchOwner,
        landed: bool,
        before: Timestamp,
    ) -> Result<Option<BranchStays>, git::Error> {
        // One that cannot be read may be needed to repair it.
        match repo.commit(tip) {
            Ok(commit) if commit.at >= before => return Ok(Some(BranchStays::Recent)),
            Ok(_) => {}
            Err(error) => return Ok(Some(error.into())),
        }
        if let Some(entry) = self.queued.get(branch) {
            return Ok(Some(BranchStays::Queued(entry.clone())));
        }
        if let Some(checkout) = git::checkouts_of(repo, branch)?.into_iter().next() {
            return Ok(Some(BranchStays::CheckedOut(checkout)));
        }
        Ok(match owner {
            BranchOwner::Session(session) => {
                let worktree = run_worktrees(repo, &session.into())?.into_iter().next();
                match worktree {
                    Some(worktree) => Some(BranchStays::HasWorktree(worktree.path)),
                    None if is_made_by(repo, session, tip)? || is_elsewhere(repo, &branch_ref(branch), tip)? => None,
                    None => Some(BranchStays::Foreign),
                }
            }
            BranchOwner::Task(target, task) => {
                let is_cancelled = self.cancelled.contains(&(target.clone(), task.clone()));
                (!landed && !is_cancelled).then_some(BranchStays::OpenTask)
            }
            BranchOwner::Phase(_) => (!landed).then_some(BranchStays::NotMerged),
        })
    }
}

fn owner(prefix: &str, branch: &BranchName) -> Option<BranchOwner> {
    if let Some(target) = target_of(prefix, branch) {
        let id = branch.as_str().rsplit('/').next()?.parse().ok()?;
        let is_phase = branch.as_str().starts_with(&phase_branches(prefix, &target));
        return Some(if is_phase { BranchOwner::Phase(target) } else { BranchOwner::Task(target, id) });
    }
    let named = || branch.as_str().rsplit('/').next()?.parse().ok();
    let session = context_of_branch(branch).map(|(session, _)| session).or_else(named)?;
    // A pipeline's name stands between the prefix and the session.
    let between = branch.as_str().strip_prefix(prefix)?.split('/').count();
    (between == 2).then_some(BranchOwner::Session(session))
}

fn has_completed(reader: &mut ProgressReader, tip: CommitId) -> Result<bool, git::Error> {
    match reader.has_completed(tip) {
        Ok(landed) => Ok(landed),
        // Without the branch it was to land on, it has not landed; nor is that known of a history that is cut off.
        Err(progress::Error::NoTarget(_) | progress::Error::NoBase(_) | progress::Error::CutOff(_)) => Ok(false),
        Err(progress::Error::Git(error)) => Err(error),
    }
}

fn is_on(repo: &Repo, target: &BranchName, tip: CommitId) -> Result<bool, git::Error> {
    match repo.refs().find(&branch_ref(target))? {
        Some(at) => repo.history().is_ancestor(tip, at),
        None => Ok(false),
    }
}

/// Whether a commit says that a turn of this session made it.
fn is_made_by(repo: &Repo, session: &SessionId, tip: CommitId) -> Result<bool, git::Error> {
    let message = repo.history().message_of(tip)?.message;
    let message = CommitMessage::read(&String::from_utf8_lossy(&message));
    Ok(message.trailer("Orchestra-Session") == Some(session.as_str()))
}

/// Removes a branch, after keeping its commits where no other branch has them. With `dry_run`, only says so.
pub fn remove_branch(repo: &Repo, left: &LeftBranch, dry_run: bool) -> Result<RemovedBranch, BranchStays> {
    let held = match &left.owner {
        _ if dry_run => None,
        // One that starts has its lock before it has a record.
        BranchOwner::Session(session) => Some(Lock::take(repo.common_dir(), &lock_name(session), "the session")?),
        BranchOwner::Task(target, _) | BranchOwner::Phase(target) => {
            Some(Lock::take(repo.common_dir(), &target_lock(target), &format!("the tasks on `{target}`"))?)
        }
    };
    let name = branch_ref(&left.branch);
    let is_unmerged = !left.has_landed && !is_elsewhere(repo, &name, left.tip)?;
    let mut kept = None;
    if is_unmerged && !dry_run {
        let (writer, tree) = (repo.writer(), repo.tree_of(left.tip)?);
        let work = KeptWork { writer, tree, parents: vec![left.tip], unmerged: true, uncommitted: Vec::new() };
        let owner = match &left.owner {
            BranchOwner::Session(session) => KeepOwner::Session(session),
            BranchOwner::Task(target, _) | BranchOwner::Phase(target) => KeepOwner::Tasks(target),
        };
        kept = Some(work.save(repo, owner, REASON)?);
    }
    if !dry_run {
        delete(repo, vec![(name, Some(left.tip))])?;
    }
    if let (Some(held), BranchOwner::Session(_)) = (held, &left.owner) {
        held.remove()?;
    }
    Ok(RemovedBranch { is_unmerged, kept })
}

/// Whether a commit is on another branch, or on HEAD.
fn is_elsewhere(repo: &Repo, name: &str, tip: CommitId) -> Result<bool, git::Error> {
    let head = repo.head().ok().filter(|head| head.branch.is_none()).map(|head| head.commit);
    let branches = repo.refs().list_unpeeled("refs/heads/")?;
    let mut others = branches.into_iter().filter(|(other, _)| other != name).filter_map(|(_, at)| at).chain(head);
    // An unreadable branch contains nothing.
    Ok(others.any(|at| repo.history().is_ancestor(tip, at).unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_tell_whose_they_are() {
        let owner_of = |branch: &str| owner("pleach/", &BranchName::new(branch).unwrap());
        let session = Some(BranchOwner::Session("abcdefgh".parse().unwrap()));
        assert_eq!(owner_of("pleach/one/abcdefgh"), session);
        assert_eq!(owner_of("pleach/one/abcdefgh--api"), session);
        let (main, task) = (BranchName::new("main").unwrap(), TaskId::new("T001").unwrap());
        assert_eq!(owner_of("pleach/tasks/main/T001"), Some(BranchOwner::Task(main.clone(), task)));
        assert_eq!(owner_of("pleach/phase/main/phase1"), Some(BranchOwner::Phase(main)));
        for other in ["pleach/abcdefgh", "pleach/a/b/abcdefgh", "pleach/one/mine", "main", "feature/abcdefgh"] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
