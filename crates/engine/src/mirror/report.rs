//! What a mirror has and lacks, as it is told.

use serde::Serialize;

use pleach_core::ids::{CommitId, RunId};

/// What catching up has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CaughtUp {
    /// The records that were copied.
    pub records: u64,
    /// Their turns.
    pub turns: u64,
}

/// How far a mirror is behind a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MirrorStanding {
    /// The records the mirror lacks.
    pub behind: u64,
}

/// What was copied of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiedRun {
    /// The run.
    pub run: RunId,
    /// What was copied.
    #[serde(flatten)]
    pub copied: CaughtUp,
}

/// What was copied of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiedRuns {
    /// The mirror.
    pub server: String,
    /// The runs that nobody works on.
    pub runs: Vec<CopiedRun>,
    /// Those that copy their records themselves.
    pub running: Vec<RunId>,
}

/// What comparing a mirror has come to, in records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The records here.
    pub records: u64,
    /// Those of them that the mirror does not have.
    pub missing: Vec<CommitId>,
    /// Those that are another record there, or one that cannot be made again.
    pub different: Vec<CommitId>,
    /// Events that are more than once in a context there.
    pub repeated: u64,
}

impl Verified {
    /// Whether the mirror has every record, and each once.
    pub fn is_equal(&self) -> bool {
        self.missing.is_empty() && self.different.is_empty() && self.repeated == 0
    }
}

/// A run compared with what a mirror has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorComparison {
    /// The run.
    pub run: RunId,
    /// The mirror.
    pub server: String,
    /// Whether the mirror has every record, and each once.
    pub equal: bool,
    /// What was found.
    #[serde(flatten)]
    pub found: Verified,
}

/// What is known of a run at a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorReport {
    /// Its address.
    pub server: String,
    /// How far it is behind, if it could be asked.
    #[serde(flatten)]
    pub standing: Option<MirrorStanding>,
    /// Why it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
