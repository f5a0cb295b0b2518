//! Orphans of sessions that no longer exist: unheld lock files, unused worktrees, agent homes, run directories. They appear when records
//! are deleted by hand, or when a removal is interrupted.

use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use crate::env::{Error, Locks};
use crate::keep::{
    OwnWorktree, RUN_DIR, WorktreePlaces, WorktreeState, WorktreeStays, own_worktrees, prune_worktree, remove_directory,
};
use git::Repo;
use git::record::History;
use git::workspace::{self, Lock, Scratch, agent_homes, is_default_worktree_base};
use pleach_core::ids::SessionId;

/// An orphan of a session that is no longer in this repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// An unheld lock file.
    Lock {
        /// Its name.
        name: String,
    },
    /// A worktree that is orphaned, half made or missing.
    Worktree(Box<OwnWorktree>),
    /// The home directory of the session's agents.
    Home {
        /// The session.
        session: SessionId,
        /// Where it is.
        path: PathBuf,
    },
    /// What the nodes of a session left beside its worktrees.
    RunDirectory {
        /// The session.
        session: SessionId,
        /// The directory of the session.
        path: PathBuf,
    },
    /// Temporary files of a killed run, of any repository.
    Scratch {
        /// Where they are.
        path: PathBuf,
    },
}

/// Finds the worktrees that are orphaned, half made or missing. They can go whatever else there is.
pub fn orphaned_worktrees(repo: &Repo, places: &WorktreePlaces) -> Result<Vec<OwnWorktree>, Error> {
    let is_orphan = |worktree: &OwnWorktree| match worktree.state {
        WorktreeState::Orphaned | WorktreeState::HalfMade | WorktreeState::Missing => true,
        WorktreeState::Used | WorktreeState::Idle => false,
    };
    Ok(own_worktrees(repo, places)?.into_iter().filter(is_orphan).collect())
}

/// Finds the orphans of this repository's deleted sessions.
pub fn orphans(repo: &Repo, places: &WorktreePlaces) -> Result<Vec<Orphan>, Error> {
    let known: BTreeSet<SessionId> = History::sessions(repo)?.into_iter().collect();
    let common = repo.common_dir();
    let locks = Lock::names(common).map_err(Error::from)?;
    // A starting session has its locks before it has a record.
    let is_held = |session: &SessionId| {
        let mut own = locks.iter().filter(|name| session_of_lock(name).as_ref() == Some(session));
        own.any(|name| Lock::is_held(common, name))
    };
    let gone = |session: &SessionId| !known.contains(session) && !is_held(session);
    let worktrees = orphaned_worktrees(repo, places)?.into_iter();
    let mut found: Vec<Orphan> = worktrees.map(|worktree| Orphan::Worktree(Box::new(worktree))).collect();
    let homes = agent_homes(&places.state_dir, common);
    let homes = homes.into_iter().filter(|(session, _)| gone(session));
    found.extend(homes.map(|(session, path)| Orphan::Home { session, path }));
    let directories = run_directories(repo, places);
    let directories = directories.into_iter().filter(|(session, _)| gone(session));
    found.extend(directories.map(|(session, path)| Orphan::RunDirectory { session, path }));
    let of_nobody = |name: &&String| session_of_lock(name).is_some_and(|session| gone(&session));
    found.extend(locks.iter().filter(of_nobody).map(|name| Orphan::Lock { name: name.clone() }));
    let scratch = Scratch::left(&places.state_dir).into_iter();
    found.extend(scratch.map(|left| Orphan::Scratch { path: left.path }));
    Ok(found)
}

impl Orphan {
    /// Removes the orphan. Work that exists only in a worktree is kept first, under the returned ref.
    pub fn remove(&self, repo: &Repo, places: &WorktreePlaces) -> Result<Option<String>, WorktreeStays> {
        match self {
            Self::Lock { name } => {
                Lock::take(repo.common_dir(), name, "a session that is gone")?.remove()?;
                Ok(None)
            }
            Self::Home { session, path } => {
                let locks = Locks::take(repo, session)?;
                remove_directory(path)?;
                locks.remove()?;
                Ok(None)
            }
            Self::RunDirectory { session, path } => {
                let locks = Locks::take(repo, session)?;
                if has_only_run_files(path) {
                    remove_directory(path)?;
                }
                locks.remove()?;
                Ok(None)
            }
            Self::Scratch { path } => {
                // Another process may have removed it since, and even have created a new one at the same path.
                let left = Scratch::left(&places.state_dir).into_iter().find(|left| left.path == *path);
                left.map_or(Ok(()), workspace::OrphanScratch::remove).map_err(|source| {
                    let path = path.clone();
                    workspace::Error::Io { doing: "remove", path, source }
                })?;
                Ok(None)
            }
            Self::Worktree(worktree) => {
                Ok(prune_worktree(repo, places, worktree, false)?.and_then(|kept| kept.reference))
            }
        }
    }
}

/// The directories of sessions that hold no worktree any more. Where worktrees of other repositories may be too, it is not
/// known whose they are.
fn run_directories(repo: &Repo, places: &WorktreePlaces) -> Vec<(SessionId, PathBuf)> {
    let is_own = |base: &&PathBuf| is_default_worktree_base(&places.state_dir, repo.common_dir(), base);
    let entries = places.worktrees.iter().filter(is_own).filter_map(|base| std::fs::read_dir(base).ok()).flatten();
    let session = |path: &Path| path.file_name()?.to_str()?.parse::<SessionId>().ok();
    let named = entries.flatten().map(|entry| entry.path()).filter_map(|path| Some((session(&path)?, path)));
    let mut found: Vec<_> = named.filter(|(_, path)| has_only_run_files(path)).collect();
    found.sort();
    // A base may be named in several ways.
    found.dedup();
    found
}

/// Whether the directory of a session has nothing but what its nodes left, and empty directories.
fn has_only_run_files(path: &Path) -> bool {
    let is_left = |entry: DirEntry| {
        let is_empty = || std::fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
        entry.file_name() == RUN_DIR || is_empty()
    };
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let entries = std::fs::read_dir(path).ok().filter(|_| is_directory);
    entries.is_some_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_left)))
}

fn session_of_lock(name: &str) -> Option<SessionId> {
    let of_session = name.strip_prefix("session-").and_then(|rest| rest.split('-').next());
    let of_worktree = || Some(name.strip_prefix("worktree-")?.split_once('-')?.0);
    of_session.or_else(of_worktree)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_tell_their_session() {
        let session = |name| session_of_lock(name).map(|session| session.to_string());
        assert_eq!(session("session-abcdefgh").as_deref(), Some("abcdefgh"));
        assert_eq!(session("session-abcdefgh-r1").as_deref(), Some("abcdefgh"));
        assert_eq!(session("worktree-abcdefgh-main").as_deref(), Some("abcdefgh"));
        for other in ["target-main", "worktree-tasks-main", "session-", "session-UPPER", "abcdefgh"] {
            assert_eq!(session(other), None, "{other}");
        }
    }
}
