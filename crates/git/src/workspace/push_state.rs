//! What the remotes of a session have, as this machine knows it. It only saves pushes and tells `status`: without it
//! everything is pushed again, and the remote says what it has already.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::git::Repo;
use crate::git::remote::fetched_branches;
use pleach_core::ids::{CommitId, RepoName, RunId};

/// What the remotes of a session have, by repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushState {
    /// Each repository that is pushed.
    pub repos: BTreeMap<RepoName, RemoteState>,
}

/// What the remote of a repository has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteState {
    /// The remote, without a password.
    pub remote: String,
    /// The refs it has, by their names here.
    #[serde(default)]
    pub refs: BTreeMap<String, CommitId>,
    /// It refuses refs of records, which are branches there.
    #[serde(default)]
    pub as_branches: bool,
    /// Branches whose names hold other commits there, by their names here: the names they have there instead.
    #[serde(default)]
    pub beside: BTreeMap<String, String>,
    /// The repositories whose remotes lack commits, so that the newest records wait.
    #[serde(default)]
    pub waits_for: Vec<RepoName>,
    /// The last push, if it failed.
    #[serde(default)]
    pub failed: Option<FailedPush>,
}

/// A push that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedPush {
    /// When.
    pub at: Timestamp,
    /// Why, in git's own words.
    pub why: String,
    /// The refs it was to bring, by their names here.
    #[serde(default)]
    pub refs: BTreeMap<String, CommitId>,
}

impl RemoteState {
    /// The last push, if it failed and the remote is not known to have by now what it was to bring.
    pub fn open_failure(&self, repo: Option<&Repo>, name: &RepoName) -> Option<&FailedPush> {
        let failed = self.failed.as_ref()?;
        let is_there = |repo| !failed.refs.is_empty() && self.has(repo, name, &failed.refs);
        (!repo.is_some_and(is_there)).then_some(failed)
    }

    /// Whether the remote is known to have these refs of a repository, by their names here: it was given them, or one of its
    /// branches had their commits when it was last cloned, fetched or pushed to.
    pub fn has(&self, repo: &Repo, name: &RepoName, refs: &BTreeMap<String, CommitId>) -> bool {
        let history = repo.history();
        let is_in = |commit: CommitId, tip: CommitId| history.is_ancestor(commit, tip).unwrap_or(false);
        let given = |(name, commit): &(&String, &CommitId)| self.refs.get(*name).is_some_and(|at| is_in(**commit, *at));
        let mut left = refs.iter().filter(|named| !given(named)).peekable();
        if left.peek().is_none() {
            return true;
        }
        let branches = fetched_branches(repo, name, &self.remote).unwrap_or_default();
        left.all(|(_, commit)| branches.iter().any(|(_, tip)| is_in(*commit, *tip)))
    }
}

impl PushState {
    /// What is known of a session, nothing if it was never pushed.
    pub fn read(common_dir: &Path, run: &RunId) -> Self {
        let text = std::fs::read_to_string(place(common_dir, run)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Keeps it, in place of what was known before.
    pub fn write(&self, common_dir: &Path, run: &RunId) -> io::Result<()> {
        let path = place(common_dir, run);
        let beside = path.with_extension(format!("json-{}", std::process::id()));
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&beside, serde_json::to_string(self)?)?;
        std::fs::rename(&beside, &path)
    }

    /// Notes refs that a remote was given otherwise, by their names here, if the session is pushed there.
    pub fn note_pushed(
        common_dir: &Path,
        run: &RunId,
        repo: &RepoName,
        remote: &str,
        refs: BTreeMap<String, CommitId>,
    ) -> io::Result<()> {
        let mut known = Self::read(common_dir, run);
        match known.repos.get_mut(repo).filter(|known| known.remote == remote) {
            Some(known) => known.refs.extend(refs),
            None => return Ok(()),
        }
        known.write(common_dir, run)
    }

    /// Forgets it.
    pub fn forget(common_dir: &Path, run: &RunId) -> Result<(), Error> {
        let path = place(common_dir, run);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Io { doing: "remove", path, source }),
            _ => Ok(()),
        }
    }
}

fn place(common_dir: &Path, run: &RunId) -> PathBuf {
    common_dir.join("pleach/push").join(format!("{run}.json").replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let session: RunId = "abcdefgh".parse().expect("an id");
        assert_eq!(PushState::read(dir.path(), &session), PushState::default());
        let failed = FailedPush { at: Timestamp::UNIX_EPOCH, why: "hook declined".into(), refs: BTreeMap::new() };
        let remote = RemoteState { remote: "/srv/x".into(), failed: Some(failed), ..RemoteState::default() };
        let state = PushState { repos: [(RepoName::new("repo").expect("a name"), remote)].into() };
        state.write(dir.path(), &session).expect("it is kept");
        assert_eq!(PushState::read(dir.path(), &session), state);
        PushState::forget(dir.path(), &session).expect("it is forgotten");
        PushState::forget(dir.path(), &session).expect("twice is fine");
        assert_eq!(PushState::read(dir.path(), &session), PushState::default());
    }

    #[test]
    fn what_is_pushed_otherwise_counts_for_its_remote_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let (session, repo): (RunId, _) = ("abcdefgh".parse().expect("an id"), RepoName::new("repo").expect("a name"));
        let note = |remote: &str, number| {
            let refs = [("refs/heads/x".to_owned(), CommitId::from_bytes([number; 20]))].into();
            PushState::note_pushed(dir.path(), &session, &repo, remote, refs).expect("it is noted");
            PushState::read(dir.path(), &session)
        };
        assert_eq!(note("/srv/x", 1), PushState::default(), "it is not pushed by itself");
        let remote = RemoteState { remote: "/srv/x".into(), ..RemoteState::default() };
        let state = PushState { repos: [(repo.clone(), remote)].into() };
        state.write(dir.path(), &session).expect("it is kept");
        assert_eq!(note("/srv/other", 1), state);
        assert_eq!(note("/srv/x", 2).repos[&repo].refs["refs/heads/x"], CommitId::from_bytes([2; 20]));
    }
}
