//! What people decide about entries: to let one land, to try again, to drop one, to undo what has landed.

use super::enqueue::{Submission, enqueue, find_task};
use super::error::QueueError;
use super::store::{QueueChange, StoredEntry, change_queue};
use crate::git::{CommitSpec, Person, Repo};
use crate::ids::{BranchName, CommitId, EntryId, TaskId};
use crate::queue::{EntryState, QueueEntry};
use crate::trailer::CommitMessage;
use crate::workspace::branch_ref;
use crate::{clock, git};

/// Lets an entry land that waits for approval.
pub fn approve(repo: &Repo, stored: &StoredEntry) -> Result<QueueEntry, QueueError> {
    change_entry(repo, stored, |entry| {
        if entry.state.is_closed() {
            return Err("only what is in the queue can be approved");
        }
        entry.approved = true;
        entry.why = None;
        Ok(())
    })
}

/// Has an entry merged again, with what its branch is by now.
pub fn retry(repo: &Repo, stored: &StoredEntry) -> Result<QueueEntry, QueueError> {
    let branch = stored.entry.branch.as_ref().map(|branch| repo.refs().find(&branch_ref(branch))).transpose()?;
    let head = branch.flatten().unwrap_or(stored.entry.head);
    change_entry(repo, stored, |entry| {
        if entry.state == EntryState::Landed {
            return Err("it is on its target already");
        }
        if entry.state == EntryState::Landing {
            return Err("it is landing right now");
        }
        (entry.head, entry.state, entry.attempts) = (head, EntryState::Submitted, 0);
        (entry.candidate, entry.verdict, entry.landing, entry.why) = (None, None, None, None);
        entry.tested &= head == stored.entry.head;
        entry.conflicts.clear();
        Ok(())
    })
}

/// Takes an entry out of the queue. Its branch stays.
pub fn drop_entry(repo: &Repo, stored: &StoredEntry) -> Result<QueueEntry, QueueError> {
    change_entry(repo, stored, |entry| match entry.state {
        EntryState::Landed => Err("it is on its target already; `pleach merge undo` reverts it"),
        EntryState::Landing => Err("it is landing right now"),
        _ => {
            entry.state = EntryState::Cancelled;
            Ok(())
        }
    })
}

/// Takes the entry of a task that was given up out of the queue.
pub fn withdraw_task(repo: &Repo, target: &BranchName, task: &TaskId) -> Result<(), QueueError> {
    let Some(stored) = find_task(repo, target, task)? else { return Ok(()) };
    change_entry(repo, &stored, |entry| {
        entry.state = EntryState::Cancelled;
        entry.why = Some("its task was given up".to_owned());
        Ok(())
    })
    .map(drop)
}

/// Hands an entry to a person that nobody works on any more.
pub fn escalate_entry(repo: &Repo, stored: &StoredEntry) -> Result<(), QueueError> {
    change_entry(repo, stored, |entry| {
        entry.state = EntryState::Escalated;
        Ok(())
    })
    .map(drop)
}

/// Queues the revert of an entry that has landed: a commit that takes its changes back, merged and tested like any other.
pub fn undo(repo: &Repo, stored: &StoredEntry) -> Result<QueueEntry, QueueError> {
    let entry = &stored.entry;
    let wrong = |why| QueueError::WrongState { entry: entry.id.clone(), state: entry.state, why };
    if entry.state != EntryState::Landed {
        return Err(wrong("only what has landed can be undone"));
    }
    let Some(landing) = entry.landing else {
        return Err(wrong("it was merged by hand; revert it with `git revert`"));
    };
    let head = revert(repo, entry, (landing.from, landing.to))?;
    enqueue(
        repo,
        Submission {
            branch: None,
            head,
            base: Some(landing.to),
            target: entry.target.clone(),
            task: entry.task.clone(),
            session: None,
            title: format!("Undo {}", entry.name()),
            tests: entry.tests.clone(),
            tested: false,
            priority: entry.priority,
            depends: Vec::new(),
            completed_at: clock::now(),
            repo: entry.repo.clone(),
            undoes: Some(entry.id.clone()),
        },
    )
}

/// The commit that takes back what a landing brought, right on top of it. Merged onto a later commit, it takes back just
/// that.
fn revert(repo: &Repo, entry: &QueueEntry, (from, to): (CommitId, CommitId)) -> Result<CommitId, git::Error> {
    let title = if entry.title.is_empty() { entry.name() } else { entry.title.clone() };
    let message = CommitMessage {
        subject: format!("Revert \"{title}\""),
        body: format!("This takes back what {} brought: {}..{}", entry.name(), from.short(), to.short()),
        trailers: vec![("Pleach-Undoes".to_owned(), entry.id.to_string())],
    };
    let mut writer = repo.writer();
    let commit = writer.commit(&CommitSpec {
        tree: repo.tree_of(from)?,
        parents: vec![to],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: message.write().into_bytes(),
        at: clock::now(),
    })?;
    writer.flush()?;
    Ok(commit)
}

/// Changes an entry as it is now, open or closed.
pub(super) fn change_entry(
    repo: &Repo,
    stored: &StoredEntry,
    edit: impl Fn(&mut QueueEntry) -> Result<(), &'static str>,
) -> Result<QueueEntry, QueueError> {
    let id: &EntryId = &stored.entry.id;
    change_queue(repo, &stored.entry.target, "pleach: decided", |queue| {
        let mut entry = match queue.entry(id) {
            Some(now) => now.entry.clone(),
            None => stored.entry.clone(),
        };
        let (entry_id, state) = (entry.id.clone(), entry.state);
        edit(&mut entry).map_err(|why| QueueError::WrongState { entry: entry_id, state, why })?;
        Ok((QueueChange { entries: vec![(entry.clone(), None)], ..QueueChange::default() }, entry))
    })
}
