//! A file two sides of a merge disagree about, as it is recorded.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CommitId, RepoPath};

/// How two sides of a merge disagree about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both changed the same lines.
    Content,
    /// Both added it, each with other content.
    AddAdd,
    /// One changed it, the other removed it.
    ModifyDelete,
    /// Each gave it another name.
    RenameRename,
    /// One renamed it, the other removed it.
    RenameDelete,
    /// One put it into a directory that the other renamed.
    DirectoryRename,
    /// It is a file on one side and a directory on the other.
    FileDirectory,
    /// Both changed it, and it has no lines.
    Binary,
    /// Both moved a submodule.
    Submodule,
    /// It is of another type on each side: a file, a link, a program, a submodule.
    Mode,
}

impl ConflictKind {
    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::AddAdd => "add_add",
            Self::ModifyDelete => "modify_delete",
            Self::RenameRename => "rename_rename",
            Self::RenameDelete => "rename_delete",
            Self::DirectoryRename => "directory_rename",
            Self::FileDirectory => "file_directory",
            Self::Binary => "binary",
            Self::Submodule => "submodule",
            Self::Mode => "mode",
        }
    }

    /// Whether both sides have lines of it that can be merged.
    pub fn is_of_lines(self) -> bool {
        matches!(self, Self::Content | Self::AddAdd)
    }
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A file in conflict, with its content on each side; none where it is missing there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictedPath {
    /// The file.
    pub path: RepoPath,
    /// How the sides disagree.
    pub kind: ConflictKind,
    /// The blob both sides started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CommitId>,
    /// The blob on the session branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<CommitId>,
    /// The blob in the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<CommitId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_recorded_by_their_names() {
        let kinds = [
            ConflictKind::Content,
            ConflictKind::AddAdd,
            ConflictKind::ModifyDelete,
            ConflictKind::RenameRename,
            ConflictKind::RenameDelete,
            ConflictKind::DirectoryRename,
            ConflictKind::FileDirectory,
            ConflictKind::Binary,
            ConflictKind::Submodule,
            ConflictKind::Mode,
        ];
        for kind in kinds {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<ConflictKind>(&json).unwrap(), kind);
        }
    }
}
