//! What needs approval before a repository is worked with. These are commands it supplies, files its agents obey, and
//! settings of it that could send keys elsewhere.
//!
//! This only finds it; [`crate::env::Truster`] asks for the approval. Sees none of the rooms. Begin with `scope`.

mod agent_files;
mod files;
mod item;
mod linked_repos;
mod real_path;
mod scope;
mod worktree_base;

pub use item::{TrustItem, for_inputs, for_mirror, for_planner, for_workspace, key_of_all_commands};
pub use scope::TrustScope;
pub(crate) use scope::commands;

use git::{HashCollision, checksum};

/// Why approval cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is to be shown cannot be read.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// An approval to it could be taken for one to something else.
    #[error("the content of {place} is crafted to fake its hash")]
    HashCollision {
        /// Where it is.
        place: String,
        /// What gives it away.
        source: HashCollision,
    },
}

/// The hash of what is at a place.
fn hash(bytes: &[u8], place: &str) -> Result<String, Error> {
    checksum(bytes).map_err(|source| Error::HashCollision { place: place.to_owned(), source })
}
