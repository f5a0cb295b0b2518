//! HEAD of a checkout.

use gix::bstr::ByteSlice as _;

use super::error::{Error, LibraryContext as _};
use super::id::from_gix;
use pleach_core::ids::{BranchName, CommitId};

/// The HEAD of a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The commit.
    pub commit: CommitId,
    /// The branch that is checked out, if one is.
    pub branch: Option<BranchName>,
}

pub(super) fn head_of(repo: &gix::Repository) -> Result<Head, Error> {
    let head = repo.head().doing("read HEAD")?;
    let commit = head.id().ok_or(Error::NoSuchRevision { spec: "HEAD".into() })?;
    let branch = head.referent_name().and_then(|name| name.as_bstr().strip_prefix(b"refs/heads/"));
    let branch = branch
        .map(|name| {
            let text = name.as_bstr().to_string();
            BranchName::new(text.clone()).map_err(|error| Error::RefName { name: text, detail: error.to_string() })
        })
        .transpose()?;
    Ok(Head { commit: from_gix(&commit), branch })
}
