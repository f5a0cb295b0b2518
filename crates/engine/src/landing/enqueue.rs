//! Puts branches into the queue, and finds what is in it.

use jiff::Timestamp;

use super::error::QueueError;
use super::store::{MergeQueue, QueueChange, change_queue, queue_targets};
use git::Repo;
use git::record::{StoredEntry, read_entry};
use git::workspace::{branch_ref, new_entry_id};
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, ContextId, EntryId, RepoName, SessionId, TaskId};
use pleach_core::queue::{EntryMark, EntryState, EntryTest, QueueEntry};
use pleach_core::redact::Redactor;

/// Work to be merged.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The branch; none for a commit.
    pub branch: Option<BranchName>,
    /// The commit.
    pub head: CommitId,
    /// Where its own commits begin, if they are to be built again on the target one by one.
    pub base: Option<CommitId>,
    /// The branch it is merged into.
    pub target: BranchName,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The session that did it.
    pub session: Option<SessionId>,
    /// The root of the run of it, unless it is the first.
    pub run: Option<ContextId>,
    /// Its title.
    pub title: String,
    /// Its task's goal, without secrets.
    pub goal: Option<String>,
    /// Its own tests.
    pub tests: Vec<EntryTest>,
    /// Its head has passed them.
    pub tested: bool,
    /// Higher goes first.
    pub priority: i32,
    /// The tasks that must land before it.
    pub depends: Vec<TaskId>,
    /// When its work was complete.
    pub completed_at: Timestamp,
    /// The repository.
    pub repo: RepoName,
    /// The entry it undoes.
    pub undoes: Option<EntryId>,
    /// A decision about its task, instead of work.
    pub mark: Option<EntryMark>,
    /// The joint landing it is a part of.
    pub together: Option<EntryId>,
}

impl Submission {
    /// Any branch.
    pub fn branch(
        repo: &Repo,
        repo_name: RepoName,
        branch: BranchName,
        target: BranchName,
    ) -> Result<Self, QueueError> {
        if branch == target {
            return Err(QueueError::Itself(branch));
        }
        let head = repo.refs().find(&branch_ref(&branch))?.ok_or_else(|| QueueError::NoBranch(branch.clone()))?;
        let message = repo.history().message_of(head)?;
        let title = String::from_utf8_lossy(&message.message).lines().next().unwrap_or_default().to_owned();
        Ok(Self {
            branch: Some(branch),
            head,
            base: None,
            target,
            task: None,
            session: None,
            run: None,
            title,
            goal: None,
            tests: Vec::new(),
            tested: false,
            priority: 0,
            depends: Vec::new(),
            completed_at: now(),
            repo: repo_name,
            undoes: None,
            mark: None,
            together: None,
        })
    }

    /// The same, with secrets redacted from its texts.
    fn without_secrets(self, redactor: &Redactor) -> Self {
        let title = redactor.text(&self.title).into_owned();
        let tests = self.tests.iter().map(|test| test.without_secrets(redactor)).collect();
        Self { title, tests, ..self }
    }

    fn entry(self, id: EntryId) -> QueueEntry {
        QueueEntry {
            branch: self.branch,
            base: self.base,
            task: self.task,
            session: self.session,
            run: self.run,
            title: self.title,
            goal: self.goal,
            tests: self.tests,
            tested: self.tested,
            priority: self.priority,
            depends: self.depends,
            undoes: self.undoes,
            mark: self.mark,
            together: self.together,
            ..QueueEntry::new(id, self.head, self.target, self.repo, self.completed_at)
        }
    }
}

/// Puts work into the queue of its target, with secrets redacted. A branch or task already in it keeps its place, with
/// the new commit.
pub fn enqueue(repo: &Repo, submission: Submission, redactor: &Redactor) -> Result<QueueEntry, QueueError> {
    let submission = submission.without_secrets(redactor);
    let target = submission.target.clone();
    let id = new_entry_id(clock::now());
    change_queue(repo, &target, "pleach: queue", |queue| {
        let is_same = |stored: &&StoredEntry| {
            let entry = &stored.entry;
            // Of two decisions about a task the later counts.
            let about = (&entry.undoes, entry.mark.is_some()) == (&submission.undoes, submission.mark.is_some());
            about
                && match (&submission.task, &submission.branch) {
                    (Some(task), _) => entry.task.as_ref() == Some(task),
                    (None, Some(branch)) => entry.branch.as_ref() == Some(branch) && entry.task.is_none(),
                    (None, None) => submission.undoes.is_some() || entry.head == submission.head,
                }
        };
        let new = submission.clone().entry(id.clone());
        let entry = match queue.open.iter().find(is_same).map(|stored| &stored.entry) {
            // One revert is as good as another.
            Some(old) if old.undoes.is_some() => return Ok((QueueChange::default(), old.clone())),
            // Findings about the former commit do not hold for this one.
            Some(old) if old.head != new.head || old.mark != new.mark => {
                let reimplemented =
                    old.reimplemented || (old.state == EntryState::Repairing && !old.conflicts.is_empty());
                QueueEntry { id: old.id.clone(), completed_at: old.completed_at, reimplemented, ..new }
            }
            Some(old) => {
                let again = submit_again(old, new);
                if again == *old {
                    return Ok((QueueChange::default(), again));
                }
                again
            }
            None => new,
        };
        Ok((QueueChange { entries: vec![(entry.clone(), None)], ..QueueChange::default() }, entry))
    })
}

/// The entry of a commit submitted again: its texts are replaced, and results of other tests are dropped. An entry that
/// is landing has passed its former tests.
fn submit_again(old: &QueueEntry, new: QueueEntry) -> QueueEntry {
    let priority = new.priority;
    if old.state == EntryState::Landing {
        return QueueEntry { priority, ..old.clone() };
    }
    let is_tested_anew = old.tests != new.tests;
    let mut entry = QueueEntry {
        priority,
        tested: new.tested || (old.tested && !is_tested_anew),
        title: new.title,
        goal: new.goal,
        depends: new.depends,
        tests: new.tests,
        together: new.together.or_else(|| old.together.clone()),
        ..old.clone()
    };
    if is_tested_anew {
        (entry.candidate, entry.verdict) = (None, None);
        let is_red = old.conflicts.is_empty() && matches!(old.state, EntryState::Red | EntryState::Repairing);
        if is_red || matches!(old.state, EntryState::Candidate | EntryState::Testing) {
            (entry.state, entry.why) = (EntryState::Submitted, None);
        }
    }
    entry
}

/// The open entry of a task.
pub fn find_task(repo: &Repo, target: &BranchName, task: &TaskId) -> Result<Option<StoredEntry>, QueueError> {
    let is_of = |stored: &StoredEntry| stored.entry.task.as_ref() == Some(task) && stored.entry.is_repairable();
    Ok(MergeQueue::read(repo, target)?.open.into_iter().find(is_of))
}

/// Finds an entry by its id or a prefix of it, by its task, or by its branch. Of several with the same branch the open
/// one counts, then the newest.
pub fn find_entry(repo: &Repo, given: &str) -> Result<StoredEntry, QueueError> {
    let mut by_id = Vec::new();
    let mut by_name: Option<StoredEntry> = None;
    for target in queue_targets(repo)? {
        if let Ok(id) = EntryId::new(given)
            && let Some(stored) = read_entry(repo, &target, &id)?
        {
            return Ok(stored);
        }
        for stored in MergeQueue::read_all(repo, &target)? {
            let entry = &stored.entry;
            let is_named = entry.task.as_ref().is_some_and(|task| task.as_str() == given)
                || entry.branch.as_ref().is_some_and(|branch| branch.as_str() == given);
            if is_named {
                let is_better = |best: &StoredEntry| {
                    (entry.state.is_closed(), std::cmp::Reverse(&entry.id))
                        < (best.entry.state.is_closed(), std::cmp::Reverse(&best.entry.id))
                };
                if by_name.as_ref().is_none_or(is_better) {
                    by_name = Some(stored);
                }
            } else if fits(&entry.id, given) {
                by_id.push(stored);
            }
        }
    }
    match (by_name, by_id.len()) {
        (Some(named), _) => Ok(named),
        (None, 1) => Ok(by_id.remove(0)),
        (None, 0) => Err(QueueError::NoEntry(given.to_owned())),
        (None, _) => {
            let fitting = by_id.iter().take(5).map(|stored| stored.entry.id.to_string()).collect();
            Err(QueueError::Ambiguous { given: given.to_owned(), fitting })
        }
    }
}

/// Ids made at about the same time begin alike, so the end of an id matches as well.
fn fits(id: &EntryId, given: &str) -> bool {
    let given = given.to_ascii_uppercase();
    given.len() >= 4 && (id.as_str().starts_with(&given) || id.as_str().ends_with(&given))
}

/// Now, to the second, as commits have it.
fn now() -> Timestamp {
    Timestamp::from_second(clock::now().as_second()).unwrap_or_default()
}
