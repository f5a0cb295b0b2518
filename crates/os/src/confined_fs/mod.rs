//! The door to files in places an agent can write to: its worktree, what git keeps of that, the directory of its outcome.
//!
//! pleach is not bound as the agent is, so nothing it finds there may lead it elsewhere. Paths are walked one directory at
//! a time below a root nobody but pleach can replace, and never through a link; only regular files are read, and nothing
//! that could make the reader wait is opened; what is written takes the place of what was there, whatever that was; and
//! what is removed is removed where it lies, also where it lies too deep for any path.
//!
//! [`ConfinedDir`] follows no link at all; it is for pleach's own files. [`Jail`] is for the file tools of the built-in
//! agent, whose repository may have links of its own: it follows those that stay inside. Both walk by open directories
//! rather than by `openat2`, which only Linux has, cannot make directories on the way, and refuses absolute links that
//! lead to the inside.

mod dir;
mod entry;
mod jail;
mod remove;

pub use dir::ConfinedDir;
pub use dir::{FEW_LINES, read, unlock};
pub use entry::describe_kind;
pub use jail::Jail;
pub use remove::remove_all;
