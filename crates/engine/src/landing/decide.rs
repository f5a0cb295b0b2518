//! What people decide about entries: to let one land, to try again, to drop one, to undo what has landed.

use super::enqueue::{Submission, enqueue, find_task};
use super::error::QueueError;
use super::run::tell_escalated;
use super::store::{MergeQueue, QueueChange, change_queue, queue_targets};
use crate::env::Engine;
use git::record::{StoredEntry, read_entry};
use git::workspace::branch_ref;
use git::{CommitSpec, Person, Repo};
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, EntryId, RunId, TaskId};
use pleach_core::merge::Tier;
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::redact::Redactor;
use pleach_core::step::{Step, StepKind};
use pleach_core::trailer::CommitMessage;

/// Approves an entry that waits for it. One that was handed to a person is taken as it is: they have decided.
pub fn approve(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<QueueEntry, QueueError> {
    let_land(repo, stored, redactor, true)
}

/// Lets an entry land without approval. A question for another reason stays open.
pub fn allow(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<QueueEntry, QueueError> {
    let_land(repo, stored, redactor, false)
}

fn let_land(repo: &Repo, stored: &StoredEntry, redactor: &Redactor, accepts: bool) -> Result<QueueEntry, QueueError> {
    change_entry(repo, stored, redactor, |entry| {
        if entry.state.is_closed() {
            return Err("only what is in the queue can be approved");
        }
        entry.approved = true;
        if entry.state == EntryState::Escalated {
            let asked = entry.question.take_if(|_| accepts);
            entry.accepted.extend(asked);
            entry.state = EntryState::Submitted;
        }
        entry.why = None;
        Ok(())
    })
}

/// Merges an entry again, at its branch's current commit.
pub fn retry(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<QueueEntry, QueueError> {
    let branch = stored.entry.branch.as_ref().map(|branch| repo.refs().find(&branch_ref(branch))).transpose()?;
    let head = branch.flatten().unwrap_or(stored.entry.head);
    change_entry(repo, stored, redactor, |entry| {
        if entry.state == EntryState::Landed {
            return Err("it is on its target already");
        }
        if entry.state == EntryState::Landing {
            return Err("it is landing right now");
        }
        // The approval and the resolution were for another commit.
        entry.approved &= entry.head == head;
        (entry.question, entry.accepted) = (None, Vec::new());
        entry.resolution = entry.resolution.take_if(|resolution| resolution.tier == Tier::Person && entry.head == head);
        entry.resolved.clear();
        (entry.head, entry.state, entry.attempts) = (head, EntryState::Submitted, 0);
        (entry.candidate, entry.verdict, entry.landing, entry.why) = (None, None, None, None);
        entry.tested &= head == stored.entry.head;
        entry.conflicts.clear();
        Ok(())
    })
}

/// Takes an entry out of the queue. Its branch stays.
pub fn drop_entry(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<QueueEntry, QueueError> {
    change_entry(repo, stored, redactor, |entry| match entry.state {
        EntryState::Landed => Err("it is on its target already; `pleach merge undo` reverts it"),
        EntryState::Landing => Err("it is landing right now"),
        _ => {
            entry.state = EntryState::Cancelled;
            Ok(())
        }
    })
}

/// Takes the entry of a task that was given up out of the queue.
pub fn withdraw_task(repo: &Repo, target: &BranchName, task: &TaskId, redactor: &Redactor) -> Result<(), QueueError> {
    let Some(stored) = find_task(repo, target, task)? else { return Ok(()) };
    change_entry(repo, &stored, redactor, |entry| {
        entry.state = EntryState::Cancelled;
        entry.why = Some("its task was given up".to_owned());
        Ok(())
    })
    .map(drop)
}

/// Takes the entry of a task out of the queue for a decision about the task, unless it lands right now.
pub(crate) fn withdraw_for_mark(
    repo: &Repo,
    target: &BranchName,
    task: &TaskId,
    redactor: &Redactor,
) -> Result<(), QueueError> {
    let Some(stored) = find_task(repo, target, task)? else { return Ok(()) };
    match withdraw_entry(repo, &stored, redactor, "its task was skipped or reset") {
        Err(QueueError::WrongState { .. }) => Ok(()),
        other => other,
    }
}

/// Takes the entries of a session out of the queues, because its work is no longer wanted.
pub fn withdraw_session(repo: &Repo, run: &RunId, redactor: &Redactor) -> Result<Vec<QueueEntry>, QueueError> {
    let mut withdrawn = Vec::new();
    for target in queue_targets(repo)? {
        let open = MergeQueue::read(repo, &target)?.open.into_iter();
        for stored in open.filter(|stored| stored.entry.run_of_session().as_ref() == Some(run)) {
            withdraw_entry(repo, &stored, redactor, "its session was removed")?;
            withdrawn.push(stored.entry);
        }
    }
    Ok(withdrawn)
}

pub(super) fn withdraw_entry(
    repo: &Repo,
    stored: &StoredEntry,
    redactor: &Redactor,
    why: &str,
) -> Result<(), QueueError> {
    change_entry(repo, stored, redactor, |entry| {
        if matches!(entry.state, EntryState::Landing | EntryState::Landed) {
            return Err("it is landing right now");
        }
        entry.state = EntryState::Cancelled;
        entry.why = Some(why.to_owned());
        Ok(())
    })
    .map(drop)
}

/// Closes an entry whose work reached the target otherwise.
pub(crate) fn close_landed(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<(), QueueError> {
    change_entry(repo, stored, redactor, |entry| {
        entry.state = EntryState::Landed;
        entry.why = Some(format!("`{}` has it already", entry.target));
        Ok(())
    })
    .map(drop)
}

/// Closes a decision that was written.
pub fn close_mark(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<(), QueueError> {
    change_entry(repo, stored, redactor, |entry| {
        entry.state = EntryState::Landed;
        Ok(())
    })
    .map(drop)
}

/// Drops the decisions about a task that wait for a run.
pub fn drop_marks(repo: &Repo, target: &BranchName, task: &TaskId, redactor: &Redactor) -> Result<(), QueueError> {
    let is_of = |stored: &StoredEntry| stored.entry.mark.is_some() && stored.entry.task.as_ref() == Some(task);
    for stored in MergeQueue::read(repo, target)?.open.into_iter().filter(is_of) {
        drop_entry(repo, &stored, redactor)?;
    }
    Ok(())
}

/// Hands an abandoned entry to a person.
pub fn escalate_entry(engine: &Engine, repo: &Repo, stored: &StoredEntry) -> Result<(), QueueError> {
    let escalated = change_entry(repo, stored, &engine.redactor, |entry| {
        entry.state = EntryState::Escalated;
        Ok(())
    })?;
    tell_escalated(engine, &escalated);
    Ok(())
}

/// Queues the revert of a landed entry: a commit that undoes its changes, merged and tested like any other.
pub fn undo(repo: &Repo, stored: &StoredEntry, redactor: &Redactor) -> Result<QueueEntry, QueueError> {
    let entry = &stored.entry;
    let wrong = |why| QueueError::wrong_state(entry, why);
    if entry.state != EntryState::Landed {
        return Err(wrong("only what has landed can be undone"));
    }
    if entry.together.is_some() {
        return Err(wrong(
            "it has landed with others; revert all of them with `git revert -m 1` in their repositories",
        ));
    }
    let Some(landing) = entry.landing else {
        return Err(wrong("it was merged by hand; revert it with `git revert`"));
    };
    let is_undo = |other: &StoredEntry| other.entry.undoes.as_ref() == Some(&entry.id);
    let is_undone = |other: &StoredEntry| is_undo(other) && other.entry.state == EntryState::Landed;
    if MergeQueue::read_all(repo, &entry.target)?.iter().any(is_undone) {
        return Err(wrong("it is undone already"));
    }
    let head = revert(repo, entry, landing.from, landing.to)?;
    enqueue(
        repo,
        Submission {
            branch: None,
            head,
            base: Some(landing.to),
            target: entry.target.clone(),
            task: entry.task.clone(),
            session: None,
            run: None,
            title: format!("Undo {}", entry.name()),
            goal: None,
            tests: entry.tests.clone(),
            tested: false,
            priority: entry.priority,
            depends: Vec::new(),
            completed_at: clock::now(),
            repo: entry.repo.clone(),
            undoes: Some(entry.id.clone()),
            mark: None,
            together: None,
        },
        redactor,
    )
}

/// The newest landing on a target that the target still has and that was not undone. An undo is none.
pub fn newest_landing(repo: &Repo, target: &BranchName) -> Result<Option<StoredEntry>, QueueError> {
    let all = MergeQueue::read_all(repo, target)?;
    let Some(tip) = repo.refs().find(&branch_ref(target))? else { return Ok(None) };
    let landed = |entry: &QueueEntry| entry.state == EntryState::Landed && entry.landing.is_some();
    let undone: Vec<EntryId> =
        all.iter().filter(|stored| landed(&stored.entry)).filter_map(|stored| stored.entry.undoes.clone()).collect();
    let mut newest: Option<(CommitId, StoredEntry)> = None;
    for stored in all {
        let entry = &stored.entry;
        let is_meant = landed(entry) && entry.undoes.is_none() && entry.mark.is_none() && !undone.contains(&entry.id);
        let Some(landing) = entry.landing.filter(|_| is_meant) else { continue };
        let is_newer = match &newest {
            Some((before, _)) => repo.history().is_ancestor(*before, landing.to)?,
            None => true,
        };
        if is_newer && repo.history().is_ancestor(landing.to, tip)? {
            newest = Some((landing.to, stored));
        }
    }
    Ok(newest.map(|(_, stored)| stored))
}

/// The commit that reverts a landing, directly on top of it. Merged onto a later commit, it reverts just that.
fn revert(repo: &Repo, entry: &QueueEntry, from: CommitId, to: CommitId) -> Result<CommitId, git::Error> {
    let title = if entry.title.is_empty() { entry.name() } else { entry.title.clone() };
    let message = CommitMessage {
        subject: format!("Revert \"{title}\""),
        body: format!("This takes back what {} brought: {}..{}", entry.name(), from.short(), to.short()),
        trailers: vec![("Pleach-Undoes".to_owned(), entry.id.to_string())],
    };
    let at = clock::now();
    let (mut writer, tree) = (repo.writer(), repo.tree_of(from)?);
    let mut commit = |parent, message: CommitMessage| {
        writer.commit(&CommitSpec {
            tree,
            parents: vec![parent],
            author: Person::pleach(),
            committer: Person::pleach(),
            message: message.write().into_bytes(),
            at,
        })
    };
    let mut last = commit(to, message)?;
    if let Some(message) = reset_step(repo, entry)? {
        last = commit(last, message)?;
    }
    writer.flush()?;
    Ok(last)
}

/// The step that resets an entry's task, once its work is reverted.
fn reset_step(repo: &Repo, entry: &QueueEntry) -> Result<Option<CommitMessage>, git::Error> {
    let Some(task) = &entry.task else { return Ok(None) };
    let done = repo.history().message_of(entry.head)?;
    let done = CommitMessage::read(&String::from_utf8_lossy(&done.message));
    let tree = done.trailer("Pleach-Tree").map(str::to_owned);
    let step = Step { tree, ..Step::new(Some(task.clone()), StepKind::Reset, true) };
    Ok(Some(step.message(entry.target.as_str(), &entry.title, None, "")))
}

/// Changes an entry as it is now, open or closed. Secrets in it are redacted before it is written.
pub(super) fn change_entry(
    repo: &Repo,
    stored: &StoredEntry,
    redactor: &Redactor,
    edit: impl Fn(&mut QueueEntry) -> Result<(), &'static str>,
) -> Result<QueueEntry, QueueError> {
    let id: &EntryId = &stored.entry.id;
    change_queue(repo, &stored.entry.target, "pleach: decided", |queue| {
        let (mut entry, closed) = match queue.entry(id) {
            Some(now) => (now.entry.clone(), None),
            None => {
                let now = read_entry(repo, &stored.entry.target, id)?.unwrap_or_else(|| stored.clone());
                (now.entry.clone(), Some(now))
            }
        };
        let before = entry.clone();
        edit(&mut entry).map_err(|why| QueueError::wrong_state(&before, why))?;
        let entry = entry.without_secrets(redactor);
        let entries = vec![(entry.clone(), None)];
        Ok((QueueChange { entries, closed: closed.into_iter().collect(), ..QueueChange::default() }, entry))
    })
}
