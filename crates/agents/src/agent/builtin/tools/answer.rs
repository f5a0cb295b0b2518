//! What a tool answers.

use std::path::PathBuf;

/// What a tool answers, before it is cut to length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent::builtin) struct ToolAnswer {
    /// For the model.
    pub text: String,
    /// Whether the tool failed.
    pub is_error: bool,
    /// What it wrote.
    pub wrote: Wrote,
}

/// What a tool wrote, relative to the root of the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent::builtin) enum Wrote {
    Nothing,
    Path(PathBuf),
    /// It ran something: whatever it liked.
    Anything,
}

impl ToolAnswer {
    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, wrote: Wrote::Nothing }
    }

    pub(in crate::agent::builtin) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, wrote: Wrote::Nothing }
    }

    pub(super) fn wrote(mut self, path: Option<PathBuf>) -> Self {
        self.wrote = path.map_or(Wrote::Nothing, Wrote::Path);
        self
    }
}
