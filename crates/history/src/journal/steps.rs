//! What commits tell the log: the steps of a branch, and the states of entries of the merge queue.

use git::record::entries::EntryError;
use git::{Commit, CommitText, Repo};
use jiff::Timestamp;
use pleach_core::ids::CommitId;
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::step::{Step, StepKind};
use pleach_core::text::first_line;
use pleach_core::trailer::CommitMessage;

use super::told::step_entry;
use super::{LogEntry, LogKind};

/// The step a commit reports.
pub(super) fn step(commit: CommitId, text: &CommitText) -> Option<LogEntry> {
    const MARK: &[u8] = b"Arborist-Step";
    if !text.message.windows(MARK.len()).any(|part| part.eq_ignore_ascii_case(MARK)) {
        return None;
    }
    let message = CommitMessage::read(&String::from_utf8_lossy(&text.message));
    let step = Step::read_of_any_branch(&message)?;
    let at = Timestamp::from_second(text.seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    let told = step_entry(LogEntry::new(at, LogKind::Step, message.subject), step.passed);
    if let (StepKind::RunStart, Some(tree)) = (&step.kind, &step.tree) {
        let told = LogEntry::new(at, LogKind::Start, format!("run over {tree}"));
        return Some(LogEntry { commit: Some(commit), ..told });
    }
    let run = step.session.map(|session| session.to_string());
    Some(LogEntry { run, task: step.task, commit: Some(commit), attempt: step.retry, ..told })
}

/// The state of an entry that a commit holds.
pub(super) fn state(repo: &Repo, name: &str, commit: &Commit) -> Result<LogEntry, EntryError> {
    let entry = git::record::entries::read_state(repo, name, commit.id)?.entry;
    let QueueEntry { state, target, .. } = &entry;
    let why = entry.why.as_ref().map(|why| format!(": {}", first_line(why))).unwrap_or_default();
    let is_landed = *state == EntryState::Landed;
    let (kind, to) = if is_landed { (LogKind::Landing, "on") } else { (LogKind::Entry, "into") };
    let told = LogEntry::new(commit.at, kind, format!("{} {to} {target}{why}", entry.name()));
    use EntryState::{Conflicted, Escalated, Red, Repairing};
    Ok(LogEntry {
        run: entry.session.as_ref().map(ToString::to_string),
        outcome: Some(state.to_string()),
        commit: Some(entry.landing.filter(|_| is_landed).map_or(entry.head, |landing| landing.to)),
        failed: matches!(state, Conflicted | Repairing | Red | Escalated),
        task: entry.task,
        entry: Some(entry.id),
        ..told
    })
}
