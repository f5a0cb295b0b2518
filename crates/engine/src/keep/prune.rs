//! Removing worktrees nobody needs any more. What only such a worktree has is kept first; one with something that
//! cannot be kept stays.

use std::path::Path;

use super::inventory::{OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState, unused_worktrees};
use super::kept_work::{KeptWork, RUN_DIR, WORKTREE_REASON, copied_in, remove_directory, uncommitted};
use super::remove_error::{Obstacle, RemoveError};
use crate::env::{Error, Locks};
use crate::view::{SessionStatus, Summary, View, recorded_state};
use git::Repo;
use git::record::entries::is_conflict_of;
use git::record::{self, EntryError, History, read_entry};
use git::workspace::{self, KeepOwner, Lock, LockError, queue_lock, queue_slot_lock, target_lock, task_slot_lock};
use pleach_core::ids::{BranchName, CommitId, ContextId, EntryId, RepoName, RepoPath, RunId, SessionId};

/// Why a worktree is not removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeStays {
    /// Somebody works in it.
    #[error("it is in use{}", by(holder.as_deref()))]
    Used {
        /// The process, by its own words.
        holder: Option<String>,
    },
    /// It is locked with `git worktree lock`.
    #[error("it is locked{}", because(why))]
    Locked {
        /// The reason given for the lock.
        why: String,
    },
    /// Its session, or one that works on a task in it, is not over.
    #[error("session {session} is {status} and can be resumed")]
    Resumable {
        /// The session.
        session: SessionId,
        /// Its status.
        status: &'static str,
    },
    /// A person resolves a conflict in it.
    #[error(
        "the conflict of {entry} is resolved there; `pleach merge resolve {entry} --done` takes it, `pleach merge abort {entry}` ends that"
    )]
    Resolving {
        /// The entry of the merge queue.
        entry: EntryId,
    },
    /// It is not what it was when it was found.
    #[error("it has changed meanwhile")]
    Changed,
    /// Something else is where its directory should be.
    #[error("something else is in its place")]
    Replaced,
    /// It cannot be compared with any commit.
    #[error("no commit is known that its files could be compared with")]
    NoCommit,
    /// It could not be removed, or something would be lost with it.
    #[error(transparent)]
    Refused(#[from] RemoveError),
}

fn by(holder: Option<&str>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

impl From<Error> for WorktreeStays {
    fn from(error: Error) -> Self {
        match error {
            Error::Lock(LockError::Held { holder, .. }) => Self::Used { holder: Some(holder) },
            error => Self::Refused(error.into()),
        }
    }
}

impl From<LockError> for WorktreeStays {
    fn from(error: LockError) -> Self {
        Error::from(error).into()
    }
}

impl From<git::Error> for WorktreeStays {
    fn from(error: git::Error) -> Self {
        Self::Refused(error.into())
    }
}

impl From<workspace::Error> for WorktreeStays {
    fn from(error: workspace::Error) -> Self {
        Self::Refused(error.into())
    }
}

/// What only a removed worktree had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedWork {
    /// Where it is kept; none before it is.
    pub reference: Option<String>,
    /// The files with uncommitted work. Without any, it is commits on no branch.
    pub uncommitted: Vec<RepoPath>,
}

/// What removing a worktree would keep, or why it would stay. Changes nothing. `force`: also if it is locked.
pub fn to_prune(
    repo: &Repo,
    places: &WorktreePlaces,
    worktree: &OwnWorktree,
    force: bool,
) -> Result<Option<PrunedWork>, WorktreeStays> {
    let known = decide(repo, places, worktree, force)?;
    let kept = only_there(repo, worktree, &known)?;
    Ok(kept.map(|kept| PrunedWork { reference: None, uncommitted: kept.uncommitted }))
}

/// Removes a worktree that nobody needs any more: one that is orphaned, half made or missing, that of a session that has
/// ended, and that of tasks. Returns what was kept of it.
pub fn prune_worktree(
    repo: &Repo,
    places: &WorktreePlaces,
    worktree: &OwnWorktree,
    force: bool,
) -> Result<Option<PrunedWork>, WorktreeStays> {
    // Before the locks are taken, which would make files for a session that is only looked at.
    decide(repo, places, worktree, force)?;
    let record = places.record_of(repo, &worktree.owner);
    let held = HeldLocks::take(record, &worktree.owner)?;
    let worktree = &again(repo, places, worktree)?;
    let known = decide(repo, places, worktree, force)?;
    let work = keep(repo, worktree, &known)?;
    match worktree.state {
        WorktreeState::HalfMade => git::worktree::remove_half_made(repo, &worktree.path)?,
        _ => git::worktree::remove(repo, &worktree.path)?,
    }
    remove_empty_directory(&worktree.path)?;
    if let (WorktreeOwner::Session { repo: Some(_), .. }, Some(of_context)) = (&worktree.owner, worktree.path.parent())
        && !of_context.exists()
    {
        remove_empty_directory(of_context)?;
    }
    held.release(is_forgotten(record, &worktree.owner)?)?;
    Ok(work)
}

/// Removes the worktree in which a person resolves a conflict, for that person. Returns what was kept of it.
pub(crate) fn remove_conflict(
    repo: &Repo,
    places: &WorktreePlaces,
    worktree: &OwnWorktree,
) -> Result<Option<PrunedWork>, WorktreeStays> {
    let work = keep(repo, worktree, &of_both_sides(repo, places, worktree))?;
    git::worktree::remove(repo, &worktree.path)?;
    remove_empty_directory(&worktree.path)?;
    Ok(work)
}

/// Keeps what only a worktree has.
fn keep(repo: &Repo, worktree: &OwnWorktree, known: &ComparedWith) -> Result<Option<PrunedWork>, WorktreeStays> {
    let Some(kept) = only_there(repo, worktree, known)? else { return Ok(None) };
    let uncommitted = kept.uncommitted.clone();
    let reference = kept.save(repo, keep_owner(&worktree.owner), WORKTREE_REASON)?;
    Ok(Some(PrunedWork { reference: Some(reference), uncommitted }))
}

/// What the worktree of a conflict is compared with. The commit of the conflict is made of both sides, so nothing of it is
/// lost; commits of a person upon it are nowhere else.
fn of_both_sides(repo: &Repo, places: &WorktreePlaces, worktree: &OwnWorktree) -> ComparedWith {
    let is_conflict = |head: CommitId| match &worktree.owner {
        WorktreeOwner::Conflict { entry, .. } => {
            repo.history().message_of(head).is_ok_and(|text| is_conflict_of(&text.message, entry))
        }
        _ => false,
    };
    let is_recorded = worktree.head.is_some_and(is_conflict);
    ComparedWith { commit: worktree.head, copied_in: places.copied_in.clone(), is_recorded, is_scratch: false }
}

/// Removes a slot of tasks that holds nothing but what a branch has, for who holds its locks. Returns whether it did.
pub(crate) fn remove_idle_slot(
    repo: &Repo,
    places: &WorktreePlaces,
    worktree: &OwnWorktree,
) -> Result<bool, WorktreeStays> {
    let known = decide(repo, places, worktree, false)?;
    if only_there(repo, worktree, &known)?.is_some() {
        return Ok(false);
    }
    git::worktree::remove(repo, &worktree.path)?;
    remove_empty_directory(&worktree.path)?;
    Ok(true)
}

/// The locks that keep everybody else away.
enum HeldLocks {
    Session(Locks),
    /// That of a run over a tree, and that of the worktree.
    Tasks([Lock; 2]),
    /// That of a queue, and that of the worktree.
    Queue([Lock; 2]),
    /// Nobody but a person works there.
    None,
}

impl HeldLocks {
    fn take(repo: &Repo, owner: &WorktreeOwner) -> Result<Self, Error> {
        Ok(match owner {
            WorktreeOwner::Session { session, context, .. } => {
                Self::Session(Locks::take(repo, RunId::of_context(session, context))?)
            }
            WorktreeOwner::Tasks { target, slot } => {
                let what = format!("the worktrees of the tasks on `{target}`");
                let take = |name: &str| Lock::take(repo.common_dir(), name, &what);
                Self::Tasks([take(&target_lock(target))?, take(&task_slot_lock(target, *slot))?])
            }
            WorktreeOwner::Queue { target, slot } => {
                let what = format!("the merge queue of `{target}`");
                let take = |name: &str| Lock::take(repo.common_dir(), name, &what);
                Self::Queue([take(&queue_lock(target))?, take(&queue_slot_lock(target, *slot))?])
            }
            WorktreeOwner::Conflict { .. } => Self::None,
        })
    }

    /// Releases them. Nobody needs the files of a session that is gone.
    fn release(self, is_forgotten: bool) -> Result<(), LockError> {
        match self {
            Self::Session(locks) if is_forgotten => return locks.remove(),
            Self::Session(locks) => drop(locks),
            Self::Tasks(locks) | Self::Queue(locks) => drop(locks),
            Self::None => {}
        }
        Ok(())
    }
}

/// Whether the record of a worktree's session is gone.
fn is_forgotten(repo: &Repo, owner: &WorktreeOwner) -> Result<bool, git::Error> {
    let WorktreeOwner::Session { session, context, .. } = owner else { return Ok(false) };
    let root = record::root_ref(RunId::of_context(session, context));
    Ok(!repo.refs().names(&root)?.contains(&root))
}

/// The worktree as it is now that the locks are held: a session may have used it since it was found.
fn again(repo: &Repo, places: &WorktreePlaces, found: &OwnWorktree) -> Result<OwnWorktree, WorktreeStays> {
    let now = unused_worktrees(repo, places)?.into_iter().find(|now| now.path == found.path);
    now.filter(|now| (&now.owner, now.state) == (&found.owner, found.state)).ok_or(WorktreeStays::Changed)
}

/// What a worktree is compared with.
struct ComparedWith {
    commit: Option<CommitId>,
    copied_in: Vec<RepoPath>,
    /// A record has the commit, so it is not lost with the worktree.
    is_recorded: bool,
    /// Nobody works there: what is not in the commit was left by tests.
    is_scratch: bool,
}

/// Whether a worktree can go, and what is known of its files then.
fn decide(
    repo: &Repo,
    places: &WorktreePlaces,
    worktree: &OwnWorktree,
    force: bool,
) -> Result<ComparedWith, WorktreeStays> {
    if worktree.state == WorktreeState::Used {
        return Err(WorktreeStays::Used { holder: None });
    }
    if let Some(why) = worktree.locked.clone().filter(|_| !force) {
        return Err(WorktreeStays::Locked { why });
    }
    if !matches!(worktree.state, WorktreeState::Missing | WorktreeState::HalfMade) {
        match worktree.path.symlink_metadata() {
            Ok(found) if !found.is_dir() => return Err(WorktreeStays::Replaced),
            // Somebody else has removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(WorktreeStays::Changed),
            _ => {}
        }
    }
    match (&worktree.owner, worktree.state) {
        (WorktreeOwner::Session { session, context, repo: in_repo }, WorktreeState::Idle) => {
            let record = places.record_of(repo, &worktree.owner);
            let summary = Summary::newest(record, RunId::of_context(session, context))?;
            refuse_open(&summary)?;
            let in_repo = in_repo.as_ref().unwrap_or(summary.started.record_repo());
            let commit = recorded_work(record, &summary, context, in_repo)?.or(worktree.head);
            Ok(ComparedWith { commit, copied_in: copied_in(&summary), is_recorded: true, is_scratch: false })
        }
        (WorktreeOwner::Queue { .. }, _) => Ok(ComparedWith {
            commit: worktree.head,
            copied_in: places.copied_in.clone(),
            is_recorded: true,
            is_scratch: true,
        }),
        (WorktreeOwner::Conflict { target, entry }, _) => {
            refuse_open_entry(repo, target, entry)?;
            Ok(of_both_sides(repo, places, worktree))
        }
        (owner, _) => {
            if let (WorktreeOwner::Tasks { target, .. }, WorktreeState::Idle) = (owner, worktree.state) {
                refuse_open_task(repo, target)?;
            }
            // The files of a worktree without a HEAD are compared with those of the checkout.
            let commit = worktree.head.or_else(|| repo.head().ok().map(|head| head.commit));
            let copied_in = places.copied_in.clone();
            Ok(ComparedWith { commit, copied_in, is_recorded: false, is_scratch: false })
        }
    }
}

fn refuse_open(summary: &Summary) -> Result<(), WorktreeStays> {
    let status = summary.standing();
    match status {
        SessionStatus::Done | SessionStatus::Failed { .. } | SessionStatus::Cancelled => Ok(()),
        SessionStatus::Running => Err(WorktreeStays::Used { holder: None }),
        SessionStatus::Dead | SessionStatus::Paused { .. } => {
            Err(WorktreeStays::Resumable { session: summary.session.clone(), status: status.word() })
        }
    }
}

/// The tasks of a branch share its worktrees: they are needed as long as one of them can be resumed.
fn refuse_open_task(repo: &Repo, target: &BranchName) -> Result<(), WorktreeStays> {
    let (open, _) = View::open(repo)?;
    let of_target = |summary: &Summary| summary.started.task.as_ref().is_some_and(|task| task.target == *target);
    open.iter()
        .filter_map(|(_, summary)| summary.as_ref().ok())
        .filter(|summary| of_target(summary))
        .try_for_each(refuse_open)
}

/// Somebody resolves the conflict of an entry until that is closed.
fn refuse_open_entry(repo: &Repo, target: &BranchName, entry: &EntryId) -> Result<(), WorktreeStays> {
    let stored = read_entry(repo, target, entry).map_err(|error| match error {
        EntryError::Git(error) => WorktreeStays::from(error),
        // What cannot be read may be open.
        _ => WorktreeStays::Resolving { entry: entry.clone() },
    })?;
    if stored.is_some_and(|stored| !stored.entry.state.is_closed()) {
        Err(WorktreeStays::Resolving { entry: entry.clone() })
    } else {
        Ok(())
    }
}

/// The newest commit a context has on record in a repository.
fn recorded_work(
    repo: &Repo,
    summary: &Summary,
    context: &ContextId,
    name: &RepoName,
) -> Result<Option<CommitId>, Error> {
    if *context == summary.run.root {
        return Ok(summary.state.work.get(name).copied());
    }
    match History::newest_in(repo, &summary.session, context) {
        Ok(history) => {
            let state = recorded_state(&history, &summary.pipeline)?;
            Ok(state.work.get(name).copied())
        }
        // It was forked and never started.
        Err(record::Error::Missing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What nothing but a worktree has: uncommitted files, and commits on no branch.
fn only_there(repo: &Repo, worktree: &OwnWorktree, with: &ComparedWith) -> Result<Option<KeptWork>, WorktreeStays> {
    let commit = match worktree.state {
        _ if with.is_scratch => return Ok(None),
        WorktreeState::HalfMade => return Ok(None),
        // git does not collect what the HEAD of a worktree leads to, also where the files are gone.
        WorktreeState::Missing => worktree.head.filter(|head| repo.commit(*head).is_ok()),
        _ => Some(with.commit.ok_or(WorktreeStays::NoCommit)?),
    };
    let Some(commit) = commit else { return Ok(None) };
    if worktree.state != WorktreeState::Missing {
        let mut obstacles = Vec::new();
        let kept = uncommitted(repo, Some(commit), &with.copied_in, &worktree.path, &mut obstacles)?;
        if let Some(obstacle) = obstacles.into_iter().find(|found| matches!(found, Obstacle::Unsaved { .. })) {
            return Err(RemoveError::Obstacle(obstacle).into());
        }
        if kept.is_some() {
            return Ok(kept);
        }
    }
    if with.is_recorded || is_on_a_ref(repo, commit)? {
        return Ok(None);
    }
    let (writer, tree) = (repo.writer(), repo.tree_of(commit)?);
    Ok(Some(KeptWork { writer, tree, parents: vec![commit], unmerged: true, uncommitted: Vec::new() }))
}

fn is_on_a_ref(repo: &Repo, commit: CommitId) -> Result<bool, git::Error> {
    let all = repo.refs().list_unpeeled("refs/heads/")?.into_iter().chain(repo.refs().list_unpeeled("refs/pleach/")?);
    // An unreadable ref keeps nothing reachable.
    Ok(all.filter_map(|(_, at)| at).any(|at| repo.history().is_ancestor(commit, at).unwrap_or(false)))
}

fn keep_owner(owner: &WorktreeOwner) -> KeepOwner<'_> {
    match owner {
        WorktreeOwner::Session { session, .. } => KeepOwner::Session(session),
        WorktreeOwner::Tasks { target, .. }
        | WorktreeOwner::Queue { target, .. }
        | WorktreeOwner::Conflict { target, .. } => KeepOwner::Tasks(target),
    }
}

/// Removes the directory above a worktree when nothing but what its runs wrote is left in it.
fn remove_empty_directory(worktree: &Path) -> Result<(), workspace::Error> {
    let Some(above) = worktree.parent() else { return Ok(()) };
    let Ok(mut entries) = std::fs::read_dir(above) else { return Ok(()) };
    if entries.any(|entry| entry.map_or(true, |entry| entry.file_name() != RUN_DIR)) {
        return Ok(());
    }
    remove_directory(&above.join(RUN_DIR))?;
    let _ = std::fs::remove_dir(above);
    Ok(())
}
