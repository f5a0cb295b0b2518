//! What goes between a session's repositories and their remotes. What is pushed is broadcast and not recorded: a record of
//! a push would have to be pushed itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Extra;
use crate::ids::{CommitId, RepoName};

/// See [`Event::RepoCloned`](super::Event::RepoCloned).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepoCloned {
    /// The repository.
    pub repo: RepoName,
    /// Where it was cloned from, without a password.
    pub remote: String,
    /// The commit the session starts at.
    pub commit: CommitId,
    /// How many commits of its history were cloned; all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::RepoFetched`](super::Event::RepoFetched).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepoFetched {
    /// The repository.
    pub repo: RepoName,
    /// Where it was fetched from, without a password.
    pub remote: String,
    /// The commit the session starts at.
    pub commit: CommitId,
    /// Why the session starts there.
    pub start: FetchedStart,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why a session starts where it does, once its repository was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FetchedStart {
    /// HEAD has everything of its upstream and nothing else.
    Same,
    /// The upstream has newer commits, and the session starts with them.
    Upstream,
    /// HEAD has commits its upstream lacks.
    Ahead,
    /// HEAD and its upstream have both gone on.
    Diverged,
    /// HEAD has no upstream at the remote.
    NoUpstream,
}

/// See [`Event::BranchPushed`](super::Event::BranchPushed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BranchPushed {
    /// The repository.
    pub repo: RepoName,
    /// Where to, without a password.
    pub remote: String,
    /// The refs, by their full names there, and where they are now.
    pub refs: BTreeMap<String, CommitId>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::PushFailed`](super::Event::PushFailed).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PushFailed {
    /// The repository.
    pub repo: RepoName,
    /// Where to, without a password.
    pub remote: String,
    /// The refs that were to be pushed, by their full names there.
    pub refs: Vec<String>,
    /// Why, in git's own words.
    pub why: String,
    /// Seconds until it is tried again; not given if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in: Option<u64>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
