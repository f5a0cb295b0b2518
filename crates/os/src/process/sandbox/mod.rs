//! What a command may touch: the files it may write and read, and where it may connect to. The same applies to
//! everything it starts, and nothing it does lifts it.
//!
//! The supervisor applies the sandbox and is not in it: with Landlock, if the kernel has it, in the thread that starts
//! the command, which needs no further process; otherwise with bubblewrap, a separate program. A filter of system calls
//! refuses what neither covers.

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
