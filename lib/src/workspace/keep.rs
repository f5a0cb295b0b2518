//! Work that is about to be removed is saved first, under `refs/pleach/keep/`.

use super::error::Error;
use crate::git::{CommitSpec, Person, Repo, SwapError, TreeId, Writer};
use crate::ids::{CommitId, SessionId};
use crate::trailer::CommitMessage;

/// How many names are tried before somebody has to look.
const TRIES: u32 = 20;

/// Under this prefix saved work is found.
pub const KEEP: &str = "refs/pleach/keep/";

/// Saves a tree, whose objects `writer` holds, on top of `parents`. Returns the name of the ref.
pub fn save(
    repo: &Repo,
    mut writer: Writer,
    session: &SessionId,
    tree: TreeId,
    parents: &[CommitId],
    reason: &str,
) -> Result<String, Error> {
    let message = CommitMessage {
        subject: format!("Keep work of session {session}: {reason}"),
        body: String::new(),
        trailers: vec![("Pleach-Session".into(), session.to_string()), ("Pleach-Kept".into(), reason.into())],
    };
    let commit = writer.commit(&CommitSpec {
        tree,
        parents: parents.to_vec(),
        author: Person::pleach(),
        committer: Person::pleach(),
        at: crate::clock::now(),
        message: message.write().into_bytes(),
    })?;
    writer.flush()?;
    let prefix = format!("{KEEP}{session}-");
    let taken = repo.refs().list(&prefix)?;
    let used = taken.iter().filter_map(|(name, _)| name.strip_prefix(&prefix)?.parse::<u32>().ok());
    let first = used.max().unwrap_or(0) + 1;
    let mut number = first;
    loop {
        let name = format!("{prefix}{number}");
        match repo.refs().swap(&name, None, commit, "pleach: keep") {
            Ok(()) => return Ok(name),
            // A name that is taken, or whose lock a killed run left behind, is not needed: the next one will do.
            Err(SwapError::Stale { .. } | SwapError::Locked { .. }) if number < first + TRIES => number += 1,
            Err(error) => return Err(Error::Git(error.into())),
        }
    }
}
