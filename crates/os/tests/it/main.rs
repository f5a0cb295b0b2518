//! Programs and the sandbox, with real processes: one binary, a module per topic.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_macros, reason = "what tests print is taken by the one who runs them")]

mod process;
mod sandbox;
