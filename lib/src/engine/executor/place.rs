//! Where the work of a session is done, and with what: what follows from its plan alone.

use std::path::{Path, PathBuf};

use crate::engine::session_plan::RUN_DIR;
use crate::event::{Warning, WarningCode};
use crate::ids::{ContextId, PipelineName, SessionId};
use crate::workspace::{WorkingCopy, branch_ref};

/// The directory beside the worktrees in which the nodes of a context find what earlier ones left.
pub(in crate::engine) fn run_dir(root: &Path, context: &ContextId) -> PathBuf {
    root.with_file_name(RUN_DIR).join(context.as_str())
}

/// What the names of pleach's branches begin with, and of what was kept of a session. Other sessions move refs of theirs
/// meanwhile; its own are checked where they are moved.
pub(in crate::engine) fn own_refs(
    copy: &WorkingCopy,
    pipeline: &PipelineName,
    session: &SessionId,
) -> (String, String) {
    let branch = branch_ref(&copy.branch);
    let of_session = format!("{pipeline}/{session}");
    let own = match (branch.strip_suffix(&of_session), branch.rfind('/')) {
        (Some(sessions), _) => sessions,
        // The branches of tasks are the run's that works on them, one after another.
        (None, Some(end)) => &branch[..=end],
        (None, None) => &branch,
    };
    (own.to_owned(), format!("{}{session}-", crate::workspace::KEEP))
}

/// What is said of something that stood in the way of a worktree.
pub(in crate::engine) fn moved_aside_warning(place: &Path) -> Warning {
    WarningCode::MovedAside.with(format!(
        "what was in the way of the worktree is now at `{}`; delete it if you do not need it",
        place.display()
    ))
}
