//! Other repositories, by their address: cloning, fetching, listing, pushing.
//!
//! No git config is written and no remote is named: everything goes by URL. Credentials are git's own; nothing prompts,
//! and a remote that does not answer is given up (`transport`).

mod clone;
mod deepen;
mod delete;
mod fetch;
mod list;
mod push;
mod push_report;
mod session;
mod transport;
mod upstream;
mod url;

pub use clone::{CloneRequest, clone};
pub(super) use deepen::deepen;
pub use delete::delete_refs;
pub use fetch::fetched_branches;
pub use fetch::{FETCHED, fetch, fetched_ref};
pub use list::{list_refs, list_refs_from};
pub use push::{PushRef, push};
pub use push_report::{PushReport, PushedRef, RefPush};
pub use session::remote_records;
pub use session::{BroughtRecords, RemoteRecords, bring_records, bring_records_apart, is_known, remote_sessions};
pub use transport::RemoteError;
pub use upstream::{default_push_url, upstream_of};
pub use url::RemoteUrl;
