//! Decisions about tasks: to skip one, or to do one again. Both are steps on the target that change no file.

use jiff::Timestamp;

use super::claim::TreeClaim;
use super::progress::ProgressReader;
use super::refusal_reasons::begins_anew;
use super::start::{run_start, start_message};
use super::unfinished::open_session_of;
use super::{Error, bookkeeping};
use crate::landing::{drop_marks, withdraw_task};
use crate::session::cancel;
use git::workspace::branch_ref;
use git::{CommitSpec, Person, Repo};
use pleach_core::clock;
use pleach_core::ids::{BranchName, CommitId, RepoName, SessionId, TaskId};
use pleach_core::merge::{LandedBranch, LandingTarget};
use pleach_core::plan::tree::{TaskNode, TaskTree};
use pleach_core::progress::{OpenBranch, Progress, TaskStatus};
use pleach_core::redact::Redactor;
use pleach_core::step::{Step, StepKind, TreeName};
use pleach_core::trailer::CommitMessage;

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The task counts as complete.
    Skip,
    /// The task is done again from the start.
    Reset,
}

/// A tree with tasks to decide about.
#[derive(Debug, Clone, Copy)]
pub struct Marking<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Its name in the workspace.
    pub repo_name: &'a RepoName,
    /// The tree.
    pub tree: &'a TaskTree,
    /// What its steps name as their tree.
    pub name: &'a TreeName,
    /// The branch everything lands on.
    pub target: &'a BranchName,
    /// The prefix of pleach's branches.
    pub branch_prefix: &'a str,
    /// The branch the target was started on.
    pub base_branch: Option<&'a BranchName>,
}

/// A decision before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedMark {
    /// The message of the commit before it, if that starts the run.
    pub run_start: Option<CommitMessage>,
    /// The message of its commit.
    pub message: CommitMessage,
    /// The session that would be cancelled.
    pub session: Option<SessionId>,
    /// The branch that would be removed, because it is unreadable.
    pub removed: Option<BranchName>,
}

/// A decision on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// Its commit.
    pub commit: CommitId,
    /// The message of the commit.
    pub message: CommitMessage,
    /// The cancelled session, which worked on the task or waited to land it.
    pub session: Option<SessionId>,
    /// The removed branch of the task, which was unreadable, with its tip.
    pub removed: Option<(BranchName, CommitId)>,
}

impl Marking<'_> {
    /// What would be written; `None` if the task already is in the wanted state.
    pub fn prepare(&self, task: &TaskId, mark: Mark, redactor: &Redactor) -> Result<Option<PreparedMark>, Error> {
        let node = self.node(task)?;
        let progress = self.reader().read_whole(self.name)?.of(self.tree);
        let run_start = self.unstarted(&progress).map(|path| start_message(self.target, path));
        let Some(message) = self.message(node, mark, &progress, redactor) else { return Ok(None) };
        let removed = progress.unread(task).map(|unread| unread.branch.name.clone());
        let session = open_session_of(self.repo, self.target, self.name, task)?;
        Ok(Some(PreparedMark { run_start, message, session, removed }))
    }

    /// Writes the decision to the target; `None` if there was nothing to do. Holds the tree meanwhile, or reports its
    /// holder.
    pub fn write(&self, task: &TaskId, mark: Mark, redactor: &Redactor) -> Result<Option<Marked>, Error> {
        self.node(task)?;
        let _claim = match self.name {
            TreeName::File(_) => TreeClaim::of_target(self.repo, self.target)?,
            TreeName::Tasks => TreeClaim::of_task(self.repo, self.target, task)?,
        };
        // What was decided before and never written is decided anew.
        drop_marks(self.repo, self.target, task, redactor)?;
        self.write_held(task, mark, redactor)
    }

    /// The same, for who holds the tree.
    pub(super) fn write_held(&self, task: &TaskId, mark: Mark, redactor: &Redactor) -> Result<Option<Marked>, Error> {
        let node = self.node(task)?;
        // What was done before must not land beside the decision.
        withdraw_task(self.repo, self.target, task, redactor)?;
        let mut reader = self.reader();
        let mut decided = None;
        let target = LandingTarget { repo: self.repo_name.clone(), branch: self.target.clone() };
        let landed = bookkeeping::land(self.repo, target, |tip| {
            let progress = reader.read_whole(self.name)?.of(self.tree);
            let Some(message) = self.message(node, mark, &progress, redactor) else { return Ok(None) };
            let unread = progress.unread(task).map(|unread| unread.branch.clone());
            if let Some(branch) = &unread {
                self.refuse_checked_out(task, &branch.name)?;
            }
            let mut writer = self.repo.writer();
            // Steps before the start of a run do not count in it.
            let on = match self.unstarted(&progress) {
                None => tip,
                Some(path) => run_start(self.repo, &mut writer, self.target, path, tip)?,
            };
            let commit = writer.commit(&CommitSpec {
                tree: self.repo.tree_of(tip)?,
                parents: vec![on],
                author: Person::pleach(),
                committer: Person::pleach(),
                at: date(&progress),
                message: message.write().into_bytes(),
            })?;
            writer.flush()?;
            decided = Some((message, unread));
            Ok(Some(commit))
        })?;
        let (Some(LandedBranch { commit, .. }), Some((message, unread))) = (landed, decided) else { return Ok(None) };
        let session = self.cancel_session(task, redactor)?;
        let removed = unread.map(|branch| self.remove(&branch)).transpose()?;
        Ok(Some(Marked { commit, message, session, removed }))
    }

    /// The file of a tree whose run was not started, which the decision starts. Ad-hoc tasks have no such start.
    fn unstarted(&self, progress: &Progress) -> Option<&str> {
        self.name.file().filter(|_| !progress.is_begun(self.tree))
    }

    fn node(&self, task: &TaskId) -> Result<&TaskNode, Error> {
        let none = || Error::NoTask { tree: self.name.clone(), task: task.clone() };
        self.tree.node(task).filter(|node| node.is_leaf()).ok_or_else(none)
    }

    fn reader(&self) -> ProgressReader {
        ProgressReader::new(self.repo, self.target, self.branch_prefix, self.base_branch)
    }

    fn message(&self, node: &TaskNode, mark: Mark, progress: &Progress, redactor: &Redactor) -> Option<CommitMessage> {
        let state = progress.task(&node.id);
        let (kind, skipped, body) = match mark {
            Mark::Skip if state.status == TaskStatus::Complete && state.landed => return None,
            Mark::Skip => (StepKind::Complete, true, String::new()),
            Mark::Reset if state.status == TaskStatus::Pending && progress.unread(&node.id).is_none() => return None,
            Mark::Reset => (StepKind::Reset, false, self.red_gate(node, progress).unwrap_or_default()),
        };
        let step =
            Step { skipped, tree: Some(self.name.for_task(&node.id)), ..Step::new(Some(node.id.clone()), kind, true) };
        // The tests may have run where the secret was not known.
        Some(step.message(self.target.as_str(), &redactor.text(&node.name), None, &redactor.text(&body)))
    }

    /// The newest result of a gate above a task, if it failed: the reason to do the task again.
    fn red_gate(&self, node: &TaskNode, progress: &Progress) -> Option<String> {
        let mut red: Option<(Timestamp, String)> = None;
        let mut above = node.parent.as_ref();
        while let Some(id) = above {
            let mut runs = progress.task(id).steps.iter().filter(|found| found.step.kind == StepKind::Test);
            let newest = runs.next_back().filter(|found| !found.step.passed);
            if let Some(found) = newest.filter(|found| red.as_ref().is_none_or(|(at, _)| *at < found.at)) {
                red = Some((found.at, found.body.clone()));
            }
            above = self.tree.node(id).and_then(|node| node.parent.as_ref());
        }
        red.map(|(_, body)| body)
    }

    /// Removes an unreadable branch. It cannot be kept, because git packs nothing that leads to a damaged commit; the
    /// records of its sessions have the intact part.
    fn remove(&self, branch: &OpenBranch) -> Result<(BranchName, CommitId), Error> {
        let name = branch_ref(&branch.name);
        self.repo.refs().delete(&name, branch.tip, "pleach: cannot be read").map_err(git::Error::from)?;
        Ok((branch.name.clone(), branch.tip))
    }

    /// Refuses a checked-out branch: without it, HEAD of the checkout would point to no branch.
    fn refuse_checked_out(&self, task: &TaskId, branch: &BranchName) -> Result<(), Error> {
        match git::checkouts_of(self.repo, branch)?.first() {
            Some(checkout) => Err(begins_anew(task, branch.clone(), checkout)),
            None => Ok(()),
        }
    }

    /// Cancels the session that works on a task or waits to land it. No process runs it, because that process would
    /// hold the target.
    fn cancel_session(&self, task: &TaskId, redactor: &Redactor) -> Result<Option<SessionId>, Error> {
        let Some(id) = open_session_of(self.repo, self.target, self.name, task)? else { return Ok(None) };
        cancel::abandon_session(self.repo, redactor, &id, None)?;
        Ok(Some(id))
    }
}

/// Now, to the second, but not before the steps it follows, whose clock may have been ahead.
fn date(progress: &Progress) -> Timestamp {
    Timestamp::from_second(clock::now().as_second()).unwrap_or_default().max(progress.not_before())
}
