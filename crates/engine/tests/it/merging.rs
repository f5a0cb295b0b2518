//! Merges that the engine makes, against real repositories and the real git program.

mod loss_mutants;
mod rebuild;
mod resolutions;
mod tiers;

use crate::git_sandbox::{Sandbox, names, spec};
