//! Pushes sessions to the remotes of their repositories, in the background.
//!
//! `PushSettings` say what is pushed where and when, `schedule` decides which refs are due, with `backlog` the commits a
//! remote lacks and `names` what it calls the refs, `attempt` is one push, `remote_queue` has all of a remote, and `queue` owns the
//! pushes of a session: the loop only notes where refs are; `last_pushes` waits for the last ones. One
//! push at a time for each remote, all its refs or none, never forced. Records are pushed as far as the other remotes have the
//! commits they speak of. A failed push is a warning; only a remote on which another machine has continued the session stops
//! it.

mod attempt;
mod backlog;
mod last_pushes;
mod names;
mod queue;
mod remote_queue;
mod schedule;

pub(in crate::engine) use last_pushes::wait_for_pushes;
pub(in crate::engine) use queue::{PushQueue, RefNote};
pub(in crate::engine) use remote_queue::PushSource;
pub(in crate::engine) use schedule::PushOccasion;
