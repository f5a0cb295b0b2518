//! Copies records to a CXDB server, and brings them back from there.
//!
//! git is the truth: a mirror that is down, slow, empty or wrong never delays a run, and is caught up later. Nothing above this
//! module but [`crate::trust`] is seen. Begin with `catch_up`.
//!
//! - `queue` is the task of a run that is told what was written; `ask` does what commands want.
//! - `catch_up` brings contexts at the mirror up to their records, which `chain` reads from git.
//! - `payload` makes turns of a record, and a record of turns, with `bundle` the types of them and `apart` what is too large.
//! - `read_back` reads what a mirror has: to compare it, and to make a session again that is nowhere else.
//! - `frame` is the protocol as bytes, `connection` speaks it; `contexts` keeps in git what contexts are called there, `http`
//!   finds them by their session, and puts the types; `report` has what commands tell, `error` why something is not there.

mod apart;
mod ask;
mod bundle;
mod catch_up;
mod chain;
mod connection;
mod contexts;
mod error;
mod frame;
mod http;
mod payload;
mod queue;
mod read_back;
mod report;

pub use ask::{mirror_run, report};
pub use chain::newest_runs;
pub use contexts::forget;
pub use error::MirrorError;
pub use http::check_http;
pub use queue::{MirrorHooks, MirrorQueue};
pub use read_back::{MirroredSession, MirroredTips, find_session, verify};
pub use report::{CaughtUp, CopiedRun, CopiedRuns, MirrorComparison, MirrorReport, MirrorStanding, Verified};
