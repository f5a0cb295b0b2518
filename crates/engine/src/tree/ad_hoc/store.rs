//! Ad-hoc tasks in refs: each is a chain of commits with a `task.json`, which is its history.

use jiff::Timestamp;

use crate::env::{Error, secret_check};
use git::workspace::{branch_ref, task_branch};
use git::{CommitSpec, EntryKind, Person, Repo, SwapError, TreeEdit};
use pleach_core::clock;
use pleach_core::ids::{AD_HOC, AD_HOC_LEN, BASE32, BranchName, CommitId, RepoName, RepoPath, TaskId};
use pleach_core::plan::ad_hoc::{AdHocError, AdHocTask};
use pleach_core::redact::Redactor;
use pleach_core::text::listed;

/// Where the refs of ad-hoc tasks are.
pub const TASKS: &str = "refs/pleach/tasks/";

/// The file in their commits.
const FILE: &str = "task.json";

/// How often another process may be first, or an id be taken.
const TRIES: u32 = 100;

/// Why a task could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// It has a secret in it.
    #[error(transparent)]
    Secret(#[from] Error),
    /// It cannot be used.
    #[error(transparent)]
    Task(#[from] AdHocError),
    /// What the ref has cannot be read.
    #[error("the task at {reference} cannot be read: {why}")]
    Unreadable {
        /// The ref.
        reference: String,
        /// Why.
        why: String,
    },
}

/// A text that matches no task, or more than one.
#[derive(Debug, thiserror::Error)]
pub enum NoAdHocTask {
    /// No task matches.
    #[error("there is no task `{given}` in this repository")]
    Unknown {
        /// The text.
        given: String,
        /// The tasks there are.
        known: Vec<TaskId>,
    },
    /// More than one task matches.
    #[error("`{given}` is the beginning of several tasks: {}", listed(candidates, 10))]
    Ambiguous {
        /// The text.
        given: String,
        /// The matching tasks.
        candidates: Vec<TaskId>,
    },
    /// The tasks could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A task and the commit it was read from.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTask {
    /// The task.
    pub task: AdHocTask,
    /// The newest commit of its chain.
    pub tip: CommitId,
}

/// The ad-hoc tasks of a repository.
#[derive(Debug, Clone, Copy)]
pub struct TaskStore<'r> {
    repo: &'r Repo,
}

impl<'r> TaskStore<'r> {
    /// The tasks of this repository.
    pub fn new(repo: &'r Repo) -> Self {
        Self { repo }
    }

    /// Stores a new task under an id nobody has used. `fill` sets what is more than the text; `prefix` is that of
    /// pleach's branches. Refused if anything in it is a secret, because agents get it as it is.
    pub fn create(
        &self,
        redactor: &Redactor,
        text: &str,
        repo_name: &RepoName,
        target: &BranchName,
        prefix: &str,
        fill: impl Fn(&mut AdHocTask),
    ) -> Result<StoredTask, StoreError> {
        let mut tries = TRIES;
        loop {
            let mut task = AdHocTask::new(new_id(), text, repo_name.clone(), target.clone(), clock::now())?;
            fill(&mut task);
            task.check_touches()?;
            refuse_secrets(redactor, &task)?;
            tries -= 1;
            if tries > 0 && self.has_branch(prefix, target, &task.id)? {
                continue;
            }
            match self.write(&task, None, "create") {
                Ok(tip) => return Ok(StoredTask { task, tip }),
                Err(SwapError::Stale { .. }) if tries > 0 => {}
                Err(error) => return Err(git::Error::from(error).into()),
            }
        }
    }

    /// Whether somebody has a branch that a task would work on.
    fn has_branch(&self, prefix: &str, target: &BranchName, id: &TaskId) -> Result<bool, git::Error> {
        let Ok(branch) = task_branch(prefix, target, id) else { return Ok(false) };
        Ok(self.repo.refs().find(&branch_ref(&branch))?.is_some())
    }

    /// The tasks by when they were created, and those that cannot be read.
    pub fn all(&self) -> Result<(Vec<StoredTask>, Vec<StoreError>), StoreError> {
        let (mut tasks, mut unreadable) = (Vec::new(), Vec::new());
        for name in self.repo.refs().names(TASKS)? {
            match self.read(&name) {
                Ok(Some(task)) => tasks.push(task),
                // It was removed since it was listed.
                Ok(None) => {}
                Err(error) => unreadable.push(error),
            }
        }
        tasks.sort_by(|one, other| (one.task.created, &one.task.id).cmp(&(other.task.created, &other.task.id)));
        Ok((tasks, unreadable))
    }

    /// The task with this id.
    pub fn get(&self, id: &TaskId) -> Result<Option<StoredTask>, StoreError> {
        self.read(&reference(id))
    }

    /// The task an id begins with, with or without `task-`.
    pub fn find(&self, given: &str) -> Result<StoredTask, NoAdHocTask> {
        let names = self.repo.refs().names(TASKS).map_err(StoreError::from)?;
        let known: Vec<TaskId> = names.iter().filter_map(|name| name.strip_prefix(TASKS)?.parse().ok()).collect();
        let own = given.strip_prefix(AD_HOC).unwrap_or(given);
        let is_meant = |id: &&TaskId| !own.is_empty() && id.as_str().trim_start_matches(AD_HOC).starts_with(own);
        let mut candidates: Vec<TaskId> = known.iter().filter(is_meant).cloned().collect();
        if candidates.len() > 1 {
            return Err(NoAdHocTask::Ambiguous { given: given.to_owned(), candidates });
        }
        let found = candidates.pop().map(|id| self.get(&id)).transpose()?.flatten();
        found.ok_or_else(|| NoAdHocTask::Unknown { given: given.to_owned(), known })
    }

    /// Notes that a task is cancelled. Returns it as it is then, and whether it was not before.
    pub fn cancel(&self, id: &TaskId) -> Result<Option<(StoredTask, bool)>, StoreError> {
        self.change(id, "cancel", |task, now| {
            let is_new = task.cancelled.is_none();
            task.cancelled.get_or_insert(now);
            is_new
        })
    }

    /// Changes a task if `edit` does, and again on what others have made of it meanwhile.
    fn change(
        &self,
        id: &TaskId,
        what: &str,
        edit: impl Fn(&mut AdHocTask, Timestamp) -> bool,
    ) -> Result<Option<(StoredTask, bool)>, StoreError> {
        let mut tries = TRIES;
        loop {
            let Some(StoredTask { mut task, tip }) = self.get(id)? else { return Ok(None) };
            if !edit(&mut task, clock::now()) {
                return Ok(Some((StoredTask { task, tip }, false)));
            }
            tries -= 1;
            match self.write(&task, Some(tip), what) {
                Ok(tip) => return Ok(Some((StoredTask { task, tip }, true))),
                Err(SwapError::Stale { .. }) if tries > 0 => {}
                Err(error) => return Err(git::Error::from(error).into()),
            }
        }
    }

    fn write(&self, task: &AdHocTask, before: Option<CommitId>, what: &str) -> Result<CommitId, SwapError> {
        let mut writer = self.repo.writer();
        let blob = writer.blob(task.write().as_bytes())?;
        let tree = writer.tree(None, &[TreeEdit::Put(RepoPath::from(FILE), EntryKind::File, blob)])?;
        let commit = writer.commit(&CommitSpec {
            tree,
            parents: before.into_iter().collect(),
            author: Person::pleach(),
            committer: Person::pleach(),
            at: clock::now(),
            message: format!("{what} {}: {}\n", task.id, task.name).into_bytes(),
        })?;
        writer.flush()?;
        self.repo.refs().swap(&reference(&task.id), before, commit, &format!("pleach: {what}"))?;
        Ok(commit)
    }

    fn read(&self, name: &str) -> Result<Option<StoredTask>, StoreError> {
        let unreadable = |why: String| StoreError::Unreadable { reference: name.to_owned(), why };
        let tip = self.repo.refs().find(name).map_err(|error| unreadable(error.to_string()))?;
        let Some(tip) = tip else { return Ok(None) };
        let text = || -> Result<Option<Vec<u8>>, git::Error> {
            self.repo.tree_file(self.repo.tree_of(tip)?, &RepoPath::from(FILE))
        };
        let text = text().map_err(|error| unreadable(error.to_string()))?;
        let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| unreadable(format!("it has no {FILE}")))?;
        let task = AdHocTask::read(&text).map_err(|error| unreadable(error.to_string()))?;
        // Whoever made the ref by hand may have copied another one.
        if name.strip_prefix(TASKS) == Some(task.id.as_str()) && task.id.is_ad_hoc() {
            Ok(Some(StoredTask { task, tip }))
        } else {
            Err(unreadable(format!("it is about {}", task.id)))
        }
    }
}

/// The ref of a task.
fn reference(id: &TaskId) -> String {
    format!("{TASKS}{id}")
}

fn new_id() -> TaskId {
    let own: String = (0..AD_HOC_LEN).map(|_| char::from(BASE32[fastrand::usize(..BASE32.len())])).collect();
    TaskId::new(format!("{AD_HOC}{own}")).expect("letters and digits behind `task-` are the id of a task")
}

fn refuse_secrets(redactor: &Redactor, task: &AdHocTask) -> Result<(), Error> {
    let options = [("--agent", &task.agent), ("--model", &task.model), ("--pipeline", &task.pipeline)];
    secret_check::text(redactor, "the text of the task", &task.description)?;
    let given = options.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
    given.into_iter().try_for_each(|(option, value)| secret_check::text(redactor, option, value))?;
    task.touches.iter().try_for_each(|pattern| secret_check::text(redactor, "--touches", pattern))
}
