//! Checking chains of records as objects: whether all of them can be read, and which commits they lead to.

use super::{CONTEXT_TRAILER, RECORD_TRAILER};
use crate::git::{Error, Repo, TreeId};
use pleach_core::ids::CommitId;
use pleach_core::trailer::CommitMessage;

/// Reads every commit and every file of a chain of records, from its newest on; what a record speaks of is not read.
pub fn check_chain(repo: &Repo, tip: CommitId) -> Result<(), Error> {
    records(repo, tip).try_for_each(|record| repo.read_files(record?.0))
}

/// The commits of work a chain leads to, newest first, as far back as it can be read.
pub fn work_commits(repo: &Repo, tip: CommitId) -> impl Iterator<Item = CommitId> {
    records(repo, tip).map_while(Result::ok).filter_map(|(_, work)| work)
}

/// The records of a chain, newest first: the files of each, and the work it speaks of.
fn records(repo: &Repo, tip: CommitId) -> impl Iterator<Item = Result<(TreeId, Option<CommitId>), Error>> {
    let (mut next, mut context) = (Some(tip), None);
    std::iter::from_fn(move || {
        let commit = match repo.commit(next.take()?) {
            Ok(commit) => commit,
            Err(error) => return Some(Err(error)),
        };
        let message = CommitMessage::read(&commit.text());
        message.trailer(RECORD_TRAILER)?;
        // What another context has recorded is told by its own ref.
        let of_context = message.trailer(CONTEXT_TRAILER).map(str::to_owned);
        if *context.get_or_insert_with(|| of_context.clone()) != of_context {
            return None;
        }
        next = commit.parents.first().copied();
        Some(Ok((commit.tree, commit.parents.get(1).copied())))
    })
}
