//! What the remotes of a session have, as this machine knows it. It only saves pushes and tells `status`: without it
//! everything is pushed again, and the remote says what it has already.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::ids::{CommitId, RepoName, SessionId};

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
}

impl PushState {
    /// What is known of a session, nothing if it was never pushed.
    pub fn read(common_dir: &Path, session: &SessionId) -> Self {
        let text = std::fs::read_to_string(place(common_dir, session)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Keeps it, in place of what was known before.
    pub fn write(&self, common_dir: &Path, session: &SessionId) -> io::Result<()> {
        let path = place(common_dir, session);
        let beside = path.with_extension(format!("json-{}", std::process::id()));
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(&beside, serde_json::to_string(self)?)?;
        std::fs::rename(&beside, &path)
    }

    /// Forgets it.
    pub fn forget(common_dir: &Path, session: &SessionId) -> Result<(), Error> {
        let path = place(common_dir, session);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Io { doing: "remove", path, source }),
            _ => Ok(()),
        }
    }
}

fn place(common_dir: &Path, session: &SessionId) -> PathBuf {
    common_dir.join("pleach/push").join(format!("{session}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let session: SessionId = "abcdefgh".parse().expect("an id");
        assert_eq!(PushState::read(dir.path(), &session), PushState::default());
        let failed = FailedPush { at: Timestamp::UNIX_EPOCH, why: "hook declined".into() };
        let remote = RemoteState { remote: "/srv/x".into(), failed: Some(failed), ..RemoteState::default() };
        let state = PushState { repos: [(RepoName::new("repo").expect("a name"), remote)].into() };
        state.write(dir.path(), &session).expect("it is kept");
        assert_eq!(PushState::read(dir.path(), &session), state);
        PushState::forget(dir.path(), &session).expect("it is forgotten");
        PushState::forget(dir.path(), &session).expect("twice is fine");
        assert_eq!(PushState::read(dir.path(), &session), PushState::default());
    }
}
