//! Work that is about to be removed is saved first, under `refs/pleach/keep/`.

use super::error::Error;
use crate::git::{CommitSpec, Person, Repo, SwapError, TreeId, Writer};
use pleach_core::ids::{BranchName, CommitId, RunId, SessionId, branch_key};
use pleach_core::trailer::CommitMessage;

/// How many names are tried before somebody has to look.
const TRIES: u32 = 20;

/// Under this prefix saved work is found.
pub const KEEP: &str = "refs/pleach/keep/";

/// Whose work is saved.
#[derive(Debug, Clone, Copy)]
pub enum KeepOwner<'a> {
    /// That of a session.
    Session(&'a SessionId),
    /// That of a run of one. The name says so: its number is not given to another.
    Run(&'a RunId),
    /// That in the worktrees shared by the tasks of a branch.
    Tasks(&'a BranchName),
}

impl<'a> From<&'a SessionId> for KeepOwner<'a> {
    fn from(session: &'a SessionId) -> Self {
        Self::Session(session)
    }
}

impl KeepOwner<'_> {
    /// What the names of its refs begin with; a number follows.
    pub fn prefix(self) -> String {
        match self {
            Self::Session(session) => format!("{KEEP}{session}-"),
            Self::Run(RunId { session, root }) if root.replay_number().is_some() => format!("{KEEP}{session}--{root}-"),
            Self::Run(RunId { session, .. }) => format!("{KEEP}{session}-"),
            Self::Tasks(target) => format!("{KEEP}tasks-{}-", branch_key(target)),
        }
    }

    fn message(self, reason: &str) -> CommitMessage {
        let (whose, session) = match self {
            Self::Session(session) => (format!("session {session}"), Some(session)),
            Self::Run(run) => (format!("session {run}"), Some(&run.session)),
            Self::Tasks(target) => (format!("the tasks on {target}"), None),
        };
        let session = session.map(|session| ("Pleach-Session".into(), session.to_string()));
        CommitMessage {
            subject: format!("Keep work of {whose}: {reason}"),
            body: String::new(),
            trailers: session.into_iter().chain([("Pleach-Kept".into(), reason.into())]).collect(),
        }
    }
}

/// Saves a tree, whose objects `writer` holds, on top of `parents`. Returns the name of the ref.
pub fn save<'a>(
    repo: &Repo,
    mut writer: Writer,
    owner: impl Into<KeepOwner<'a>>,
    tree: TreeId,
    parents: &[CommitId],
    reason: &str,
) -> Result<String, Error> {
    let owner = owner.into();
    let commit = writer.commit(&CommitSpec {
        tree,
        parents: parents.to_vec(),
        author: Person::pleach(),
        committer: Person::pleach(),
        at: pleach_core::clock::now(),
        message: owner.message(reason).write().into_bytes(),
    })?;
    writer.flush()?;
    let prefix = owner.prefix();
    let taken = repo.refs().list(&prefix)?;
    let used = taken.iter().filter_map(|(name, _)| name.strip_prefix(&prefix)?.parse::<u32>().ok());
    let first = used.max().unwrap_or(0) + 1;
    let mut number = first;
    loop {
        let name = format!("{prefix}{number}");
        match repo.refs().swap(&name, None, commit, "pleach: keep") {
            Ok(()) => return Ok(name),
            // Somebody else has taken this one.
            Err(SwapError::Stale { .. }) if number < first + TRIES => number += 1,
            Err(error) => return Err(Error::Git(error.into())),
        }
    }
}
