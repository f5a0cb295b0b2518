//! What people decide about tasks: that one counts as done, or that one is to be done again. Both are steps on the
//! target that change no file.

use jiff::Timestamp;

use super::open::{check_target, target_lock};
use super::progress::ProgressReader;
use super::refusal_reasons::begins_anew;
use super::start::{run_start, start_message};
use super::unfinished::open_session_of;
use super::{Error, bookkeeping};
use crate::clock;
use crate::engine::cancel;
use crate::git::{self, CommitSpec, Person, Repo};
use crate::ids::{BranchName, CommitId, RepoName, SessionId, TaskId};
use crate::merge::{LandedBranch, LandingTarget};
use crate::plan::tree::{TaskNode, TaskTree};
use crate::progress::{OpenBranch, Progress, TaskStatus};
use crate::redact::Redactor;
use crate::step::{Step, StepKind};
use crate::trailer::CommitMessage;
use crate::workspace::{Lock, branch_ref};

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It counts as complete.
    Skip,
    /// It is done again, from its beginning.
    Reset,
}

/// A tree whose tasks are decided about.
#[derive(Debug, Clone, Copy)]
pub struct Marking<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Its name in the workspace.
    pub repo_name: &'a RepoName,
    /// The tree.
    pub tree: &'a TaskTree,
    /// Its file, from the root of the repository.
    pub path: &'a str,
    /// The branch everything lands on.
    pub target: &'a BranchName,
    /// What pleach's branches begin with.
    pub branch_prefix: &'a str,
    /// The branch the target was begun on.
    pub base_branch: Option<&'a BranchName>,
}

/// A decision that would be put on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedMark {
    /// What the commit before it says, where that opens the run.
    pub run_start: Option<CommitMessage>,
    /// What its commit says.
    pub message: CommitMessage,
    /// The session that would be cancelled.
    pub session: Option<SessionId>,
    /// The branch that would be removed, because nobody can read it.
    pub removed: Option<BranchName>,
}

/// A decision that is on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// Its commit.
    pub commit: CommitId,
    /// What the commit says.
    pub message: CommitMessage,
    /// The session that worked on the task, or had it wait to land, and is cancelled.
    pub session: Option<SessionId>,
    /// The branch of the task that nobody could read, with where it stood. It is removed.
    pub removed: Option<(BranchName, CommitId)>,
}

impl Marking<'_> {
    /// What would be written; none when the task is as it is wanted already.
    pub fn prepare(&self, task: &TaskId, mark: Mark, redactor: &Redactor) -> Result<Option<PreparedMark>, Error> {
        let node = self.node(task)?;
        let progress = self.reader().read_whole(self.path)?.of(self.tree);
        let run_start = (!progress.is_begun(self.tree)).then(|| start_message(self.target, self.path));
        let Some(message) = self.message(node, mark, &progress, redactor) else { return Ok(None) };
        let removed = progress.unread(task).map(|unread| unread.branch.name.clone());
        let session = open_session_of(self.repo, self.target, self.path, task)?;
        Ok(Some(PreparedMark { run_start, message, session, removed }))
    }

    /// Puts it on the target; none when there was nothing to do. The target is taken meanwhile, or this says who has it.
    pub fn write(&self, task: &TaskId, mark: Mark, redactor: &Redactor) -> Result<Option<Marked>, Error> {
        let node = self.node(task)?;
        check_target(self.target)?;
        let what = format!("the list of tasks on `{}`", self.target);
        let _lock = Lock::take(self.repo.common_dir(), &target_lock(self.target), &what)?;
        let mut reader = self.reader();
        let mut decided = None;
        let target = LandingTarget { repo: self.repo_name.clone(), branch: self.target.clone() };
        let landed = bookkeeping::land(self.repo, target, |tip| {
            let progress = reader.read_whole(self.path)?.of(self.tree);
            let Some(message) = self.message(node, mark, &progress, redactor) else { return Ok(None) };
            let unread = progress.unread(task).map(|unread| unread.branch.clone());
            if let Some(branch) = &unread {
                self.refuse_checked_out(task, &branch.name)?;
            }
            let mut writer = self.repo.writer();
            // Steps before the start of a run do not count in it.
            let on = match progress.is_begun(self.tree) {
                true => tip,
                false => run_start(self.repo, &mut writer, self.target, self.path, tip)?,
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

    fn node(&self, task: &TaskId) -> Result<&TaskNode, Error> {
        let none = || Error::NoTask { tree: self.path.to_owned(), task: task.clone() };
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
        let step = Step { skipped, tree: Some(self.path.to_owned()), ..Step::new(Some(node.id.clone()), kind, true) };
        // The tests may have run where nobody knew the secret.
        Some(step.message(self.target.as_str(), &redactor.text(&node.name), None, &redactor.text(&body)))
    }

    /// What the newest run of a gate above a task said, if it was red: the reason to do the task again.
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

    /// Removes a branch nobody can read. It cannot be kept, for git packs nothing that leads to a damaged commit; what of
    /// it is whole, the records of its sessions have.
    fn remove(&self, branch: &OpenBranch) -> Result<(BranchName, CommitId), Error> {
        let name = branch_ref(&branch.name);
        // Nobody but who has the target writes this one, so a lock on it was left by a killed run.
        self.repo.refs().remove_stale_lock(&name)?;
        self.repo.refs().delete(&name, branch.tip, "pleach: cannot be read").map_err(crate::git::Error::from)?;
        Ok((branch.name.clone(), branch.tip))
    }

    /// Without its branch, HEAD of a checkout would lead nowhere.
    fn refuse_checked_out(&self, task: &TaskId, branch: &BranchName) -> Result<(), Error> {
        match git::checkouts_of(self.repo, branch)?.first() {
            Some(checkout) => Err(begins_anew(task, branch.clone(), checkout)),
            None => Ok(()),
        }
    }

    /// Ends the session that works on a task or has it wait to land. Nobody works on it: whoever does has the target.
    fn cancel_session(&self, task: &TaskId, redactor: &Redactor) -> Result<Option<SessionId>, Error> {
        let Some(id) = open_session_of(self.repo, self.target, self.path, task)? else { return Ok(None) };
        cancel::abandon_session(self.repo, redactor, &id, None)?;
        Ok(Some(id))
    }
}

/// Now, to the second; but not before the steps it follows, whose clock may have been ahead.
fn date(progress: &Progress) -> Timestamp {
    Timestamp::from_second(clock::now().as_second()).unwrap_or_default().max(progress.not_before())
}
