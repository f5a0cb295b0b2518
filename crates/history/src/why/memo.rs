//! What was found once: the lines of a file in a commit that are those of other commits. The files may be deleted; they only
//! save the time to find it again.

use std::path::PathBuf;

use pleach_core::ids::{CommitId, RepoPath, SessionId};
use serde::{Deserialize, Serialize};

use super::document::{Evidence, Via};

/// The layout of the files.
const VERSION: u32 = 1;

/// Lines of a commit that are those of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLines {
    /// The first, counted from 1.
    pub at: u32,
    /// How many.
    pub count: u32,
    /// The commit they are of.
    pub commit: CommitId,
    /// The file there.
    pub path: RepoPath,
    /// The first there.
    pub line: u32,
    /// The file as it was before that commit.
    pub previous: Option<(CommitId, RepoPath)>,
    /// How they came here.
    pub via: Via,
    /// How that is known.
    pub evidence: Evidence,
}

/// What is kept for a file of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeptLines {
    version: u32,
    /// The file, and whether blanks counted: two names may have the same hash.
    path: RepoPath,
    ignores_blanks: bool,
    /// The sessions it was found by.
    pub sessions: Vec<SessionId>,
    /// What was found.
    pub lines: Vec<FoundLines>,
}

/// The directory of the files.
#[derive(Debug)]
pub struct Memo {
    dir: PathBuf,
    ignores_blanks: bool,
}

impl Memo {
    /// That of a repository, by the directory its worktrees share.
    pub fn new(common_dir: &std::path::Path, ignores_blanks: bool) -> Self {
        Self { dir: common_dir.join("pleach/cache/why"), ignores_blanks }
    }

    /// What was kept for a file of a commit.
    pub fn load(&self, commit: CommitId, path: &RepoPath) -> Option<KeptLines> {
        let kept: KeptLines = serde_json::from_slice(&std::fs::read(self.file(commit, path)).ok()?).ok()?;
        (kept.version == VERSION && kept.path == *path && kept.ignores_blanks == self.ignores_blanks).then_some(kept)
    }

    /// Keeps it. A full or read-only disk costs time, never a result.
    pub fn save(&self, commit: CommitId, path: &RepoPath, sessions: Vec<SessionId>, lines: &[FoundLines]) {
        let (path, ignores_blanks) = (path.clone(), self.ignores_blanks);
        let file = self.file(commit, &path);
        let kept = KeptLines { version: VERSION, path, ignores_blanks, sessions, lines: lines.to_vec() };
        let Ok(bytes) = serde_json::to_vec(&kept) else { return };
        let beside = file.with_extension(std::process::id().to_string());
        let written = std::fs::create_dir_all(&self.dir).and_then(|()| std::fs::write(&beside, bytes));
        if written.and_then(|()| std::fs::rename(&beside, &file)).is_err() {
            let _ = std::fs::remove_file(&beside);
        }
    }

    fn file(&self, commit: CommitId, path: &RepoPath) -> PathBuf {
        let bytes = path.as_bytes().iter().copied().chain([u8::from(self.ignores_blanks)]);
        // FNV-1a.
        let hash = bytes
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        self.dir.join(format!("{commit}-{hash:016x}"))
    }
}
