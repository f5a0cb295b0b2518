//! What a cleanup has done. It is told and not recorded: the records are among what it removes.

use serde::{Deserialize, Serialize};

use super::Extra;
use crate::ids::{CommitId, RepoName, SessionId};

/// See [`Event::CleanupCompleted`](super::Event::CleanupCompleted).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CleanupCompleted {
    /// Nothing was changed: this is what would have been done.
    pub dry_run: bool,
    /// What was removed, in this order.
    pub removed: Vec<CleanedItem>,
    /// Where work is kept that nothing else had.
    pub kept: Vec<KeptItem>,
    /// What was old enough and stays.
    pub stays: Vec<StayingItem>,
    /// How many sessions and branches are too recent.
    pub recent: usize,
    /// How many bytes of files were removed.
    pub bytes: u64,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something a cleanup has removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CleanedItem {
    /// What it is.
    pub kind: CleanedKind,
    /// Its name: a path, or that of a branch or ref.
    pub name: String,
    /// The repository.
    pub repo: RepoName,
    /// The session it was of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The commit a branch or ref was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// How many bytes a directory had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The remote it was removed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// What a removed thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanedKind {
    /// A worktree.
    Worktree,
    /// A branch.
    Branch,
    /// The record of a session.
    Record,
    /// The directory the agents of a session had.
    Home,
    /// What the nodes of a session left beside its worktrees.
    RunDirectory,
    /// Temporary files.
    Scratch,
    /// A lock file.
    Lock,
    /// Kept work.
    Keep,
}

/// Work a cleanup has kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptItem {
    /// The ref; only its beginning where nothing was changed.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The repository.
    pub repo: RepoName,
}

/// Something a cleanup has left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StayingItem {
    /// What it is, in words.
    pub name: String,
    /// The repository.
    pub repo: RepoName,
    /// Why it stays.
    pub why: String,
}
