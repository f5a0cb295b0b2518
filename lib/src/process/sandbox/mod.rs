//! What a command may touch: the files it may write and read, and where it may connect to. Everything it starts is
//! bound by the same, and nothing it does lifts it.
//!
//! The supervisor sets the bounds and is not bound itself: by Landlock, where the kernel has it, in the thread that
//! starts the command, which costs no further process; else by bubblewrap, a program of its own. A filter of system calls
//! refuses what neither looks at.

mod bounds;
mod bubblewrap;
mod caches;
mod encoding;
mod filter;
mod hide;
mod landlock;
mod policy;
mod privileges;
mod refusal;
mod spawn;
mod trusted_paths;

pub(super) use bounds::NotStarted;
pub use bounds::{Availability, Connect, Sandbox};
pub use bubblewrap::works as bubblewrap_works;
pub(super) use encoding::{from_words, to_words};
pub use policy::{SandboxChoice, SandboxPolicy, SandboxScope, SandboxUnavailable, choose};
pub use refusal::{Refusals, refusals};
pub use spawn::available;
pub(super) use spawn::spawn;
