//! Orphans of sessions that no longer exist: unheld lock files, unused worktrees, agent homes. They appear when records
//! are deleted by hand, or when a removal is interrupted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Error;
use super::locks::Locks;
use super::remove::{KeptWork, Obstacle, RemoveError, remove_directory, remove_run_directory, uncommitted};
use crate::git::{self, ListedWorktree, Repo};
use crate::ids::{CommitId, RepoPath, SessionId};
use crate::record::History;
use crate::workspace::{self, Lock, Scratch, agent_homes};

/// An orphan of a session that is no longer in this repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// An unheld lock file.
    Lock {
        /// Its name.
        name: String,
    },
    /// A worktree.
    Worktree {
        /// The session.
        session: SessionId,
        /// Where it is.
        path: PathBuf,
    },
    /// A worktree still registered with git, whose files are gone.
    Forgotten {
        /// Where it was.
        path: PathBuf,
    },
    /// The home directory of the session's agents.
    Home {
        /// The session.
        session: SessionId,
        /// Where it is.
        path: PathBuf,
    },
    /// Temporary files of a killed run, of any repository.
    Scratch {
        /// Where they are.
        path: PathBuf,
    },
}

/// Where to look for orphans.
#[derive(Debug, Clone)]
pub struct OrphanPlaces {
    /// The directory of machine-local state.
    pub state_dir: PathBuf,
    /// The directories in which worktrees are created. Worktrees elsewhere do not belong to pleach.
    pub worktrees: Vec<PathBuf>,
    /// The files copied into worktrees from the user's checkout, if they still exist there.
    pub copied_in: Vec<RepoPath>,
}

/// Finds the orphans of this repository's deleted sessions.
pub fn orphans(repo: &Repo, places: &OrphanPlaces) -> Result<Vec<Orphan>, Error> {
    let known: BTreeSet<SessionId> = History::sessions(repo)?.into_iter().collect();
    let common = repo.common_dir();
    let locks = Lock::names(common).map_err(Error::from)?;
    // A starting session has its locks before it has a record.
    let is_held = |session: &SessionId| {
        let mut own = locks.iter().filter(|name| session_of_lock(name).as_ref() == Some(session));
        own.any(|name| Lock::is_held(common, name))
    };
    let gone = |session: &SessionId| !known.contains(session) && !is_held(session);
    let mut found = Vec::new();
    for listed in git::worktree::list_linked(repo)? {
        let Some(session) = session_of(&listed, places).filter(&gone) else { continue };
        let path = listed.path;
        found.push(match path.is_dir() {
            true => Orphan::Worktree { session, path },
            false => Orphan::Forgotten { path },
        });
    }
    let homes = agent_homes(&places.state_dir, common);
    let homes = homes.into_iter().filter(|(session, _)| gone(session));
    found.extend(homes.map(|(session, path)| Orphan::Home { session, path }));
    let of_nobody = |name: &&String| session_of_lock(name).is_some_and(|session| gone(&session));
    found.extend(locks.iter().filter(of_nobody).map(|name| Orphan::Lock { name: name.clone() }));
    let scratch = Scratch::left(&places.state_dir).into_iter();
    found.extend(scratch.map(|left| Orphan::Scratch { path: left.path }));
    Ok(found)
}

impl Orphan {
    /// Removes the orphan. Work that exists only in a worktree is kept first, under the returned ref.
    pub fn remove(&self, repo: &Repo, places: &OrphanPlaces) -> Result<Option<String>, RemoveError> {
        match self {
            Self::Lock { name } => {
                let lock = Lock::take(repo.common_dir(), name, "a session that is gone").map_err(Error::from)?;
                lock.remove().map_err(Error::from)?;
                Ok(None)
            }
            Self::Forgotten { path } => {
                git::worktree::remove(repo, path)?;
                Ok(None)
            }
            Self::Home { session, path } => {
                let locks = Locks::take(repo, session)?;
                remove_directory(path)?;
                locks.remove().map_err(Error::from)?;
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
            Self::Worktree { session, path } => {
                let locks = Locks::take(repo, session)?;
                let kept = remove_worktree(repo, session, path, &places.copied_in)?;
                locks.remove().map_err(Error::from)?;
                Ok(kept)
            }
        }
    }
}

fn remove_worktree(
    repo: &Repo,
    session: &SessionId,
    path: &Path,
    copied_in: &[RepoPath],
) -> Result<Option<String>, RemoveError> {
    let listed = git::worktree::list_linked(repo)?.into_iter().find(|listed| listed.path == path);
    if let Some(why) = listed.as_ref().and_then(|listed| listed.locked.clone()) {
        return Err(RemoveError::WorktreeLocked { path: path.to_owned(), why });
    }
    let head = listed.and_then(|listed| listed.head);
    let mut obstacles = Vec::new();
    let mut keep = uncommitted(repo, head, copied_in, path, &mut obstacles)?;
    if let Some(obstacle) = obstacles.into_iter().find(|found| matches!(found, Obstacle::Unsaved { .. })) {
        return Err(RemoveError::Obstacle(obstacle));
    }
    if let (None, Some(head)) = (&keep, head)
        && !is_on_a_ref(repo, head)?
    {
        let tree = repo.tree_of(head)?;
        keep = Some(KeptWork {
            writer: repo.writer(),
            tree,
            parents: vec![head],
            unmerged: true,
            uncommitted: Vec::new(),
        });
    }
    let kept = keep.map(|keep| keep.save(repo, session)).transpose()?;
    git::worktree::remove(repo, path)?;
    remove_run_directory(path)?;
    Ok(kept)
}

fn is_on_a_ref(repo: &Repo, commit: CommitId) -> Result<bool, RemoveError> {
    let all = repo.refs().list_unpeeled("refs/heads/")?.into_iter().chain(repo.refs().list_unpeeled("refs/pleach/")?);
    // An unreadable ref keeps nothing reachable.
    Ok(all.filter_map(|(_, at)| at).any(|at| repo.history().is_ancestor(commit, at).unwrap_or(false)))
}

/// The session a worktree was created for: `{base}/{session}/{name}`. Only pleach creates worktrees there, unless a
/// person checks a branch out.
fn session_of(listed: &ListedWorktree, places: &OrphanPlaces) -> Option<SessionId> {
    let above = listed.path.parent()?;
    let base = above.parent()?;
    let ours = places.worktrees.iter().any(|ours| same_place(ours, base));
    above.file_name()?.to_str()?.parse().ok().filter(|_| ours && (listed.is_own || listed.branch.is_none()))
}

fn same_place(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn session_of_lock(name: &str) -> Option<SessionId> {
    let of_session = name.strip_prefix("session-");
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
        assert_eq!(session("worktree-abcdefgh-main").as_deref(), Some("abcdefgh"));
        for other in ["target-main", "worktree-tasks-main", "session-", "session-UPPER", "abcdefgh"] {
            assert_eq!(session(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_lies_in_a_place_of_sessions_is_one() {
        let places = OrphanPlaces { state_dir: "/s".into(), worktrees: vec!["/base".into()], copied_in: Vec::new() };
        let listed = |path: &str, branch: Option<&str>| ListedWorktree {
            path: path.into(),
            git_dir: PathBuf::new(),
            head: None,
            branch: branch.map(str::to_owned),
            locked: None,
            is_own: false,
        };
        assert!(session_of(&listed("/base/abcdefgh/main", None), &places).is_some());
        for (path, branch) in
            [("/base/abcdefgh/main", Some("refs/heads/x")), ("/home/projects/main", None), ("/base/x/main", None)]
        {
            assert_eq!(session_of(&listed(path, branch), &places), None, "{path}");
        }
    }
}
