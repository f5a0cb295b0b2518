//! What has to be agreed to before a repository is worked with: commands it supplies, files its agents obey, and settings
//! of it that could send keys elsewhere.
//!
//! This only finds what there is. Whether somebody agrees is asked by [`crate::engine::Truster`].

mod files;
mod item;
mod obeyed;
mod place;
mod workplace;

pub use item::{TrustItem, for_inputs, for_planner};
pub use workplace::Workplace;
pub(crate) use workplace::commands;

use crate::git::{self, HashCollision, checksum};

/// Why nobody can be asked: it cannot be told what there is to agree to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is to be shown cannot be read.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// An agreement to it could be taken for one to something else.
    #[error("what stands at {place} is made to deceive the hash")]
    Deceives {
        /// Where it stands.
        place: String,
        /// What gives it away.
        source: HashCollision,
    },
}

/// The hash of what stands at a place.
fn hash(bytes: &[u8], place: &str) -> Result<String, Error> {
    checksum(bytes).map_err(|source| Error::Deceives { place: place.to_owned(), source })
}
