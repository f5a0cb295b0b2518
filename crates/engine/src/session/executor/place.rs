//! Where a session works, as far as its plan alone determines it.

use std::path::{Path, PathBuf};

use crate::keep::RUN_DIR;
use git::workspace::{WorkingCopy, branch_ref};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::{ContextId, PipelineName, SessionId};

/// The directory beside the worktrees in which a context's nodes find the output of earlier ones.
pub(crate) fn run_dir(root: &Path, context: &ContextId) -> PathBuf {
    root.with_file_name(RUN_DIR).join(context.as_str())
}

/// The prefixes of pleach's branches and of a session's keep refs. Other sessions move their refs meanwhile; the
/// session's own are checked when they are moved.
pub(crate) fn own_refs(copy: &WorkingCopy, pipeline: &PipelineName, session: &SessionId) -> (String, String) {
    let branch = branch_ref(&copy.branch);
    let of_session = format!("{pipeline}/{session}");
    // The branch of a parallel context has its name at the end.
    let own = match (branch.rfind(&of_session).map(|at| &branch[..at]), branch.rfind('/')) {
        (Some(sessions), _) => sessions,
        // Branches of tasks belong to the run that works on them, one after another.
        (None, Some(end)) => &branch[..=end],
        (None, None) => &branch,
    };
    (own.to_owned(), format!("{}{session}-", git::workspace::KEEP))
}

/// Warns that a file in the way of a worktree was moved.
pub(crate) fn moved_aside_warning(place: &Path) -> Warning {
    WarningCode::MovedAside.with(format!(
        "what was in the way of the worktree is now at `{}`; delete it if you do not need it",
        place.display()
    ))
}
