//! What planners have spent. A plan is not a session: there is nothing to resume and no work in it. So the turns of all
//! planners form one chain of records beside the sessions, for counting.

use jiff::Timestamp;

use super::{Error, RECORD_TRAILER, RECORD_VERSION};
use crate::git::{CommitSpec, EntryKind, Person, Repo, SwapError, TreeEdit};
use pleach_core::event::{AgentTurn, Recorded};
use pleach_core::ids::RepoPath;
use pleach_core::redact::Redactor;
use pleach_core::trailer::CommitMessage;

/// The ref of the chain.
pub const PLANNING: &str = "refs/pleach/planning";

/// How often other processes may be first.
const TRIES: u32 = 100;

/// Appends a planner's turn. Several processes may do so at the same time.
pub fn record_planning(repo: &Repo, redactor: &Redactor, at: Timestamp, turn: AgentTurn) -> Result<(), Error> {
    let turn = Recorded { at, event: turn.into() };
    let json = turn.without_secrets(redactor).unwrap_or_else(|| turn.to_json());
    let message = CommitMessage {
        subject: "plan".into(),
        body: String::new(),
        trailers: vec![(RECORD_TRAILER.to_owned(), RECORD_VERSION.to_string())],
    };
    let mut tries = TRIES;
    loop {
        let tip = repo.refs().find(PLANNING)?;
        let mut writer = repo.writer();
        let events = writer.blob(format!("[{json}]").as_bytes())?;
        let tree = writer.tree(None, &[TreeEdit::Put(RepoPath::from("events.json"), EntryKind::File, events)])?;
        let commit = writer.commit(&CommitSpec {
            tree,
            parents: tip.into_iter().collect(),
            author: Person::pleach(),
            committer: Person::pleach(),
            at,
            message: message.write().into_bytes(),
        })?;
        writer.flush()?;
        tries -= 1;
        match repo.refs().swap(PLANNING, tip, commit, "pleach: plan") {
            Ok(()) => return Ok(()),
            Err(SwapError::Stale { .. }) if tries > 0 => {}
            Err(error) => return Err(Error::Git(error.into())),
        }
    }
}
