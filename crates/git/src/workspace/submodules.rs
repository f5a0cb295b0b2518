//! Work in the submodules of a worktree.

use super::error::Error;
use super::working_copy::WorkingCopy;
use crate::git::{self, CheckDepth, SubmoduleWork};

/// Work that exists only in submodules.
pub(crate) fn submodule_work(copy: &mut WorkingCopy) -> Result<SubmoduleWork, Error> {
    Ok(git::worktree::unpublished_work(&mut copy.worktree, CheckDepth::Quick)?)
}

/// Refuses work in submodules that another session would find there and that cannot be saved.
pub fn refuse_submodule_work(copy: &mut WorkingCopy) -> Result<(), Error> {
    let work = git::worktree::unpublished_work(&mut copy.worktree, CheckDepth::Thorough)?;
    if work.is_empty() { Ok(()) } else { Err(Error::InSubmodules { path: copy.path().to_owned(), work }) }
}
