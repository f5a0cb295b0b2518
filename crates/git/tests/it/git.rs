//! The git module against real repositories and the real git program.

mod conflicts;
mod crash;
mod filters;
mod land;
mod merge_check;
mod objects;
mod pack;
mod planning;
mod refs;
mod remote;
mod repo;
mod restore;
mod set_up;
mod sparse;
mod worktree;

use crate::git_sandbox::{Sandbox, names, record, spec, told};
