//! Pushes sessions to the remotes of their repositories, in the background.
//!
//! Sees `merging` and `env`. Begin with `queue`.
//!
//! [`crate::env::PushSettings`] say what is pushed where and when. One push at a time for each remote, all its refs or none,
//! never forced. Records are pushed as far as the other remotes have the commits they speak of. A failed push is a warning;
//! only a remote on which another machine has continued the session stops it.
//!
//! - `queue` owns the pushes of a session: the loop only notes where refs are. `last_pushes` waits for the last ones.
//! - `schedule` decides which refs are due, with `backlog` the commits a remote lacks and `names` what it calls the refs.
//! - `attempt` is one push, `remote_queue` has all of a remote.

mod attempt;
mod backlog;
mod last_pushes;
mod names;
mod queue;
mod remote_queue;
mod schedule;

pub(crate) use last_pushes::wait_for_pushes;
pub(crate) use queue::{PushQueue, RefNote};
pub(crate) use remote_queue::PushSource;
pub(crate) use schedule::PushOccasion;
