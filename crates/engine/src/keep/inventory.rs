//! The worktrees pleach made, whose they are, and what state they are in. Only names, locks and a few small files are
//! read, so that hundreds of them are listed at once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::env::{Engine, Error, lock_name, worktree_lock_name};
use git::record::History;
use git::workspace::{
    FIRST_SLOT, Lock, SESSION_NOTE, conflict_path, queue_lock, queue_slot_lock, queue_slot_path, target_lock,
    task_slot_lock, task_slot_path,
};
use git::{ListedWorktree, Notes, Repo};
use pleach_core::ids::{
    BranchName, CommitId, ContextId, EntryId, RepoName, RepoPath, RunId, SESSION_ID_LEN, SessionId, branch_of_key,
};

/// The directory of the worktrees tasks share, below the base of all worktrees.
const OF_TASKS: &str = "tasks";

/// Where worktrees and other files of sessions are.
#[derive(Debug, Clone)]
pub struct WorktreePlaces {
    /// The directory of machine-local state.
    pub state_dir: PathBuf,
    /// The directories in which worktrees are created. One that lies elsewhere is pleach's own only if pleach has
    /// registered it.
    pub worktrees: Vec<PathBuf>,
    /// The files copied into worktrees from the user's checkout, if they still exist there.
    pub copied_in: Vec<RepoPath>,
    /// The repository that holds the records of sessions over several repositories, if it is known.
    pub record: Option<Repo>,
}

impl WorktreePlaces {
    /// Where an engine puts those of a repository.
    pub(crate) fn of(engine: &Engine, repo: &Repo, name: &RepoName) -> Self {
        Self {
            state_dir: engine.supervisor.state_dir.clone(),
            worktrees: vec![engine.worktree_base(repo, name)],
            copied_in: engine.worktrees.never_commit(),
            record: None,
        }
    }

    /// The repository that holds record and locks of an owner.
    pub(super) fn record_of<'a>(&'a self, repo: &'a Repo, owner: &WorktreeOwner) -> &'a Repo {
        match owner {
            WorktreeOwner::Session { repo: Some(_), .. } => self.record.as_ref().unwrap_or(repo),
            _ => repo,
        }
    }
}

/// Whom a worktree was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeOwner {
    /// A context of a session.
    Session {
        /// The session.
        session: SessionId,
        /// Its context: `main`, or that of a parallel branch.
        context: ContextId,
        /// The repository, where the session works in several.
        repo: Option<RepoName>,
    },
    /// The tasks of a branch, which share a few worktrees.
    Tasks {
        /// The branch they land on.
        target: BranchName,
        /// The number of the worktree, from 1.
        slot: u32,
    },
    /// The merge queue of a branch, which tests merges there.
    Queue {
        /// The branch they land on.
        target: BranchName,
        /// The number of the worktree, from 1.
        slot: u32,
    },
    /// A person who resolves the conflict of an entry of the merge queue.
    Conflict {
        /// The branch it is to land on.
        target: BranchName,
        /// The entry.
        entry: EntryId,
    },
}

/// What a worktree is doing, or what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeState {
    /// A process holds its lock.
    Used,
    /// Nobody works in it.
    Idle,
    /// The record of its session is gone.
    Orphaned,
    /// It was not completed: a kill or a full disk came between. No agent has worked in it.
    HalfMade,
    /// git has it registered, but its directory is gone.
    Missing,
}

/// A worktree pleach made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnWorktree {
    /// Whom it was made for.
    pub owner: WorktreeOwner,
    /// Where its files are, or belong.
    pub path: PathBuf,
    /// The branch it is for, if that exists.
    pub branch: Option<BranchName>,
    /// When it was made, as far as the file system knows.
    pub created: Option<Timestamp>,
    /// What it is doing, or what is wrong with it.
    pub state: WorktreeState,
    /// The reason of its `git worktree lock`, if it has one.
    pub locked: Option<String>,
    /// The commit its HEAD is at.
    pub head: Option<CommitId>,
    /// The session that worked there last, as far as that is noted.
    pub session: Option<SessionId>,
}

impl OwnWorktree {
    /// The state in one word. What is locked stays as it is, so nothing else counts, unless it is in use.
    pub fn word(&self) -> &'static str {
        match self.state {
            WorktreeState::Used => "used",
            _ if self.locked.is_some() => "locked",
            WorktreeState::Idle => "idle",
            WorktreeState::Orphaned | WorktreeState::HalfMade => "orphaned",
            WorktreeState::Missing => "missing",
        }
    }
}

/// The worktrees pleach made in a repository, oldest first.
pub fn own_worktrees(repo: &Repo, places: &WorktreePlaces) -> Result<Vec<OwnWorktree>, Error> {
    let mut found = unused_worktrees(repo, places)?;
    let is_used = |found: &OwnWorktree| is_used(places.record_of(repo, &found.owner), &found.owner);
    for worktree in found.iter_mut().filter(|found| is_used(found)) {
        worktree.state = WorktreeState::Used;
    }
    Ok(found)
}

/// The same, as they would be if nobody held their locks: for who holds them.
pub(super) fn unused_worktrees(repo: &Repo, places: &WorktreePlaces) -> Result<Vec<OwnWorktree>, Error> {
    let listed = git::worktree::list_linked(repo)?;
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    let known = OwnerIndex::read(repo, places)?;
    let mut found: Vec<OwnWorktree> = listed.into_iter().filter_map(|listed| known.own(listed)).collect();
    found.sort_by(|a, b| (a.created, &a.path).cmp(&(b.created, &b.path)));
    Ok(found)
}

/// The slots of a target's tasks that nobody works in, by their numbers. Only for who holds the target.
pub(crate) fn idle_slots(
    repo: &Repo,
    places: &WorktreePlaces,
    wanted_target: &BranchName,
) -> Result<BTreeMap<u32, OwnWorktree>, Error> {
    let slots = unused_worktrees(repo, places)?.into_iter().filter_map(|found| match found.owner {
        WorktreeOwner::Tasks { ref target, slot } if target == wanted_target && found.state == WorktreeState::Idle => {
            Some((slot, found))
        }
        _ => None,
    });
    Ok(slots.collect())
}

/// What is read once for all worktrees.
struct OwnerIndex {
    common_dir: PathBuf,
    bases: Vec<PathBuf>,
    sessions: BTreeSet<SessionId>,
    /// The sessions that may work in several repositories, and whether these are all of them.
    wide: (BTreeSet<SessionId>, bool),
    /// Branches by the last part of their names.
    branches: BTreeMap<String, BranchName>,
}

impl OwnerIndex {
    fn read(repo: &Repo, places: &WorktreePlaces) -> Result<Self, Error> {
        // As they are written and as they are: a part of a path may be a link.
        let resolved = places.worktrees.iter().filter_map(|base| base.canonicalize().ok());
        let bases = places.worktrees.iter().cloned().chain(resolved).collect();
        let names = repo.refs().names("refs/heads/")?.into_iter();
        let branches = names.filter_map(|name| {
            let last = name.rsplit('/').next()?.to_owned();
            Some((last, BranchName::new(name.strip_prefix("refs/heads/")?).ok()?))
        });
        let (common_dir, branches) = (repo.common_dir().to_owned(), branches.collect());
        let sessions: BTreeSet<SessionId> = History::sessions(repo)?.into_iter().collect();
        let wide = match &places.record {
            Some(record) => (History::sessions(record)?.into_iter().collect(), true),
            None => (sessions.clone(), false),
        };
        Ok(Self { common_dir, bases, sessions, wide, branches })
    }

    /// What is known of a worktree; none if it is not pleach's.
    fn own(&self, listed: ListedWorktree) -> Option<OwnWorktree> {
        let half_made = listed.half_made_at();
        let path = half_made.clone().unwrap_or_else(|| listed.path.clone());
        let (owner, is_in_base) = self.owner(&path)?;
        // A person may have checked a branch out there, or copied the repository with what it says of its worktrees.
        let is_tied = || half_made.is_some() || is_gone(&path) || listed.is_tied();
        let is_ours = listed.is_own || (is_in_base && listed.branch.is_none() && is_tied());
        if !is_ours {
            return None;
        }
        let state = match &owner {
            _ if half_made.is_some() => WorktreeState::HalfMade,
            _ if is_gone(&path) => WorktreeState::Missing,
            WorktreeOwner::Session { session, repo: None, .. } if !self.sessions.contains(session) => {
                WorktreeState::Orphaned
            }
            WorktreeOwner::Session { session, repo: Some(_), .. } if !self.wide.0.contains(session) => {
                // Its record may be in a repository that is not known here.
                Some(WorktreeState::Orphaned).filter(|_| self.wide.1)?
            }
            _ => WorktreeState::Idle,
        };
        let noted = Notes::of(&self.common_dir, &listed.git_dir).read(SESSION_NOTE, SESSION_ID_LEN as u64);
        let noted = noted.ok().flatten().and_then(|text| String::from_utf8(text).ok());
        Some(OwnWorktree {
            session: noted.and_then(|text| text.parse().ok()),
            branch: self.branch(&owner),
            created: listed.created().and_then(|time| Timestamp::try_from(time).ok()),
            locked: listed.locked,
            head: listed.head,
            owner,
            path,
            state,
        })
    }

    /// Whom a worktree at this path belongs to, and whether it lies where worktrees are created:
    /// `{base}/{session}/{context}`, with several repositories `{base}/{session}/{context}/{repo}`, `{base}/tasks/{target}/{slot}`, `{base}/merge/{target}/{slot}` or
    /// `{base}/resolve/{target}/{entry}`.
    fn owner(&self, path: &Path) -> Option<(WorktreeOwner, bool)> {
        let above = path.parent()?;
        let (name, group) = (path.file_name()?.to_str()?, above.file_name()?.to_str()?);
        let of_session = || {
            let (session, context) = (group.parse().ok()?, name.parse().ok()?);
            let is_in_base = self.bases.iter().any(|base| above.parent() == Some(base));
            Some((WorktreeOwner::Session { session, context, repo: None }, is_in_base))
        };
        let of_several = || {
            let of_session = above.parent()?;
            let (session, context) = (of_session.file_name()?.to_str()?.parse().ok()?, group.parse().ok()?);
            let is_in_base = self.bases.iter().any(|base| of_session.parent() == Some(base));
            // Anything could be named like that elsewhere.
            let repo = Some(RepoName::new(name).ok()?).filter(|_| is_in_base)?;
            Some((WorktreeOwner::Session { session, context, repo: Some(repo) }, is_in_base))
        };
        let of_tasks = || {
            let tasks = above.parent().filter(|tasks| tasks.ends_with(OF_TASKS))?;
            let target = branch_of_key(group)?;
            let slot = name.parse().unwrap_or(FIRST_SLOT);
            let place = tasks.parent()?.join(task_slot_path(&target, slot));
            let owner = Some(WorktreeOwner::Tasks { target, slot }).filter(|_| place == path)?;
            Some((owner, self.bases.iter().any(|base| tasks.parent() == Some(base))))
        };
        let of_queue = || {
            let target = branch_of_key(group)?;
            let base = above.parent()?.parent()?;
            let slot = name.parse().ok().map(|slot| WorktreeOwner::Queue { target: target.clone(), slot });
            let entry = EntryId::new(name).ok().map(|entry| WorktreeOwner::Conflict { target, entry });
            let is_there = |owner: &WorktreeOwner| match owner {
                WorktreeOwner::Queue { target, slot } => base.join(queue_slot_path(target, *slot)) == path,
                WorktreeOwner::Conflict { target, entry } => conflict_path(base, target, entry) == path,
                _ => false,
            };
            let owner = slot.filter(is_there).or(entry.filter(is_there))?;
            Some((owner, self.bases.iter().any(|known| known == base)))
        };
        // A branch can be named like a session, so the one counts that lies where it should.
        match (of_several().or_else(of_session), of_tasks().or_else(of_queue)) {
            (Some(session), Some(shared)) => Some(if shared.1 { shared } else { session }),
            (session, shared) => session.or(shared),
        }
    }

    fn branch(&self, owner: &WorktreeOwner) -> Option<BranchName> {
        match owner {
            WorktreeOwner::Tasks { target, .. }
            | WorktreeOwner::Queue { target, .. }
            | WorktreeOwner::Conflict { target, .. } => Some(target.clone()),
            WorktreeOwner::Session { session, context, .. } if *context == ContextId::main() => {
                self.branches.get(session.as_str()).cloned()
            }
            WorktreeOwner::Session { session, context, .. } => {
                self.branches.get(&format!("{session}--{context}")).cloned()
            }
        }
    }
}

/// Whether nothing is where the files of a worktree should be.
fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Whether a process holds a lock of the owner. A session that starts has its lock before it has a record.
fn is_used(repo: &Repo, owner: &WorktreeOwner) -> bool {
    let is_held = |name: &str| Lock::is_held(repo.common_dir(), name);
    match owner {
        WorktreeOwner::Session { session, context, .. } => {
            is_held(&lock_name(RunId::of_context(session, context))) || is_held(&worktree_lock_name(session, context))
        }
        // A run over a tree takes further slots when it needs them.
        WorktreeOwner::Tasks { target, slot } => {
            is_held(&target_lock(target)) || is_held(&task_slot_lock(target, *slot))
        }
        WorktreeOwner::Queue { target, slot } => {
            is_held(&queue_lock(target)) || is_held(&queue_slot_lock(target, *slot))
        }
        WorktreeOwner::Conflict { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(path: &str) -> Option<(String, bool)> {
        let (sessions, branches, wide) = (BTreeSet::new(), BTreeMap::new(), Default::default());
        let known = OwnerIndex { common_dir: "/".into(), bases: vec!["/base".into()], sessions, wide, branches };
        let (owner, is_in_base) = known.owner(Path::new(path))?;
        let words = match owner {
            WorktreeOwner::Session { session, context, repo: None } => format!("{session}/{context}"),
            WorktreeOwner::Session { session, context, repo: Some(repo) } => format!("{session}/{context} in {repo}"),
            WorktreeOwner::Tasks { target, slot } => format!("{target} {slot}"),
            WorktreeOwner::Queue { target, slot } => format!("queue of {target} {slot}"),
            WorktreeOwner::Conflict { target, entry } => format!("conflict {entry} with {target}"),
        };
        Some((words, is_in_base))
    }

    #[test]
    fn a_path_tells_whose_a_worktree_is() {
        let found = |words: &str, is_in_base| Some((words.to_owned(), is_in_base));
        assert_eq!(owner("/base/abcdefgh/main"), found("abcdefgh/main", true));
        assert_eq!(owner("/base/abcdefgh/api-2"), found("abcdefgh/api-2", true));
        assert_eq!(owner("/elsewhere/abcdefgh/main"), found("abcdefgh/main", false));
        assert_eq!(owner("/base/abcdefgh/api/backend"), found("abcdefgh/api in backend", true));
        assert_eq!(owner("/elsewhere/abcdefgh/main/backend"), None);
        assert_eq!(owner("/base/tasks/feature%2Fx/main"), found("feature/x 1", true));
        assert_eq!(owner("/base/tasks/main/3"), found("main 3", true));
        assert_eq!(owner("/base/tasks/abcdefgh/main"), found("abcdefgh 1", true), "a branch named like a session");
        assert_eq!(owner("/base/merge/main/2"), found("queue of main 2", true));
        let conflict = "conflict 01J00000000000000000000001 with a/b";
        assert_eq!(owner("/base/resolve/a%2Fb/01J00000000000000000000001"), found(conflict, true));
        for path in [
            "/base/x/main",
            "/base/merge/main/x",
            "/base/resolve/main/2",
            "/base/tasks/main/other",
            "/base/tasks/main/1",
            "/base/other/main/main",
            "/main",
        ] {
            assert_eq!(owner(path), None, "{path}");
        }
    }
}
