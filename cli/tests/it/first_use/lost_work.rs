//! Work that must not be lost, and worktrees that cannot be made.
