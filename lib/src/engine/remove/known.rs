//! What is known of a session that is to be removed: by its record, or, where nobody can read that, by what else there is
//! of it.

use crate::engine::Error;
use crate::engine::view::{SessionStatus, Summary, session_worktrees};
use crate::git::{self, Repo};
use crate::ids::{BranchName, CommitId, RepoPath, SessionId};
use crate::record::{self, work_commits};
use crate::step::StepKind;
use crate::workspace::branch_ref;

/// What a removal goes by.
#[derive(Debug, Default)]
pub(super) struct KnownWork {
    /// The session branch.
    pub branch: Option<BranchName>,
    /// The newest commit of the session that can be read.
    pub work: Option<CommitId>,
    /// The commit it was started at.
    pub base: Option<CommitId>,
    /// The branch it was started on.
    pub target: Option<BranchName>,
    /// It works on a task of a tree.
    pub is_of_task: bool,
    /// Where a task that is complete, or what the tests of a phase say, has landed. It may have been built anew on the way;
    /// one that failed has left its code behind.
    pub landed: Option<CommitId>,
    /// A run over a tree would resume it.
    pub goes_on: bool,
    /// The files that were copied into the worktree from the user's checkout, where they still are.
    pub copied_in: Vec<RepoPath>,
    /// Why its record cannot be read.
    pub unreadable: Option<String>,
    /// Why its newest commit cannot be read.
    pub lost: Option<String>,
}

impl KnownWork {
    /// What is known of a session with these records. `copied_in` is what is copied into worktrees today, for one
    /// whose record does not say what was.
    pub fn of(repo: &Repo, id: &SessionId, records: &RecordRefs, copied_in: &[RepoPath]) -> Result<Self, Error> {
        let why = match Summary::newest(repo, id) {
            Ok(summary) => return Self::recorded(&summary).or_older(repo, id, records),
            Err(gone @ Error::Record(record::Error::Missing { .. })) => return Err(gone),
            // Another time it may be read.
            Err(error @ (Error::Git(git::Error::Io { .. }) | Error::Record(record::Error::Git(_)))) => {
                return Err(error);
            }
            Err(unreadable) => unreadable.to_string(),
        };
        let found = Self::found(repo, id, records)?;
        Ok(Self { copied_in: copied_in.to_vec(), unreadable: Some(why), ..found })
    }

    fn recorded(summary: &Summary) -> Self {
        let task = summary.state.task.as_deref();
        // Of one that was given up, the target has the steps alone.
        let complete = task.filter(|task| task.newest() != Some((StepKind::Complete, false)));
        Self {
            branch: summary.branch().map(|(_, branch)| branch.clone()),
            work: summary.work(),
            base: summary.base(),
            target: summary.started.target.clone(),
            is_of_task: task.is_some(),
            landed: complete.and_then(|task| task.landed),
            goes_on: summary.started.task.is_some() && summary.standing() != SessionStatus::Cancelled,
            copied_in: copied_in(summary),
            unreadable: None,
            lost: None,
        }
    }

    /// The same with an older commit, where the newest cannot be read.
    fn or_older(self, repo: &Repo, id: &SessionId, records: &RecordRefs) -> Result<Self, Error> {
        // What the session was started at may be damaged as well, and is not what is removed.
        let base = self.base.filter(|base| repo.commit(*base).is_ok());
        let Some(damage) = self.work.and_then(|work| read_work(repo, work, base).err()) else { return Ok(self) };
        if !damage.is_damage() {
            return Err(damage.into());
        }
        let older = newest_work(repo, id, records, self.branch.as_ref(), base)?;
        // Without any, what is in its worktree would be lost and nobody would say so.
        let Some(work) = older else { return Err(damage.into()) };
        Ok(Self { work: Some(work), lost: Some(git::diagnose_corruption(repo, damage).to_string()), ..self })
    }

    /// The branch that is named after the session, and the newest commit anything leads to: what can be read of the
    /// record, the branch, the worktree. The branch of a task has another name; it goes on with its next session.
    fn found(repo: &Repo, id: &SessionId, records: &RecordRefs) -> Result<Self, git::Error> {
        let names = repo.refs().names("refs/heads/")?;
        let mut named = names.iter().filter(|name| name.rsplit('/').next() == Some(id.as_str()));
        let branch = match (named.next().and_then(|name| name.strip_prefix("refs/heads/")), named.next()) {
            (Some(branch), None) => branch.parse().ok(),
            // Which of several is the session's nobody can say; they stay.
            _ => None,
        };
        let work = newest_work(repo, id, records, branch.as_ref(), None)?;
        Ok(Self { branch, work, ..Self::default() })
    }
}

/// The files that were copied into the worktrees of a session from the user's checkout.
pub fn copied_in(summary: &Summary) -> Vec<RepoPath> {
    let paths = summary.started.config.pointer("/worktrees/include_ignored").and_then(|value| value.as_array());
    paths.into_iter().flatten().filter_map(|path| path.as_str()).map(RepoPath::from).collect()
}

/// The newest commit of a session that can be read: of what can be read of its record, of its branch, of its worktree.
fn newest_work(
    repo: &Repo,
    id: &SessionId,
    records: &RecordRefs,
    branch: Option<&BranchName>,
    base: Option<CommitId>,
) -> Result<Option<CommitId>, git::Error> {
    let on_branch = branch.and_then(|branch| repo.refs().find(&branch_ref(branch)).ok().flatten());
    let recorded = records.iter().rev().filter_map(|(_, tip)| *tip).flat_map(|tip| work_commits(repo, tip));
    let in_copy = session_worktrees(repo, id)?.into_iter().find_map(|copy| copy.head);
    // Files of a worktree that is tied to no commit are told from those of the checkout.
    let head = repo.head().ok().map(|head| head.commit);
    let mut all = recorded.chain([on_branch, in_copy, base, head].into_iter().flatten());
    Ok(all.find(|commit| read_work(repo, *commit, base).is_ok()))
}

/// Reads a commit, its list of files, and what it has in its history behind `base`: git packs nothing that leads to
/// something it cannot read.
pub(super) fn read_work(repo: &Repo, commit: CommitId, base: Option<CommitId>) -> Result<(), git::Error> {
    repo.tree_entries(repo.commit(commit)?.tree)?;
    if let Some(base) = base {
        repo.history().symmetric_difference(base, commit, (&|_| false, &|_| false))?;
    }
    Ok(())
}

/// Refs of records, each with the newest one; none where the ref names none.
pub(in crate::engine) type RecordRefs = Vec<(String, Option<CommitId>)>;
