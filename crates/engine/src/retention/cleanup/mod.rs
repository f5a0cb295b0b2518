//! What may go once it is old: `sessions` that have ended, and `branches` that belong to none. Everything else that is left
//! behind is told by the `orphans` and `worktrees` beside this.

mod branches;
mod sessions;

pub use branches::{BranchStays, LeftBranch, RemovedBranch, left_branches, remove_branch};
pub use sessions::{SessionFate, SessionStays, session_fates};
