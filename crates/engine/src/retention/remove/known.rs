//! What is known about a session to remove: from its record, or if that is unreadable, from its refs and worktrees.

use crate::env::{Error, SessionRepos};
use crate::keep::{RecordRefs, copied_in, read_work};
use crate::view::{SessionStatus, Summary, run_worktrees};
use git::Repo;
use git::record::{self, History, work_commits};
use git::workspace::{branch_ref, parallel_branches};
use pleach_core::event::{Event, TaskOf};
use pleach_core::ids::{BranchName, CommitId, RepoName, RepoPath, RunId};
use pleach_core::step::StepKind;

/// The facts a removal is based on.
#[derive(Debug, Default)]
pub(super) struct KnownWork {
    /// The session branch.
    pub branch: Option<BranchName>,
    /// What the names of the branches of its parallel contexts begin with.
    pub parallel: Option<String>,
    /// The newest readable commit of the session.
    pub work: Option<CommitId>,
    /// The commit it was started at.
    pub base: Option<CommitId>,
    /// The branch it was started on.
    pub target: Option<BranchName>,
    /// It works on a task of a tree.
    pub is_of_task: bool,
    /// Where a completed task, or the result of a phase's tests, landed. The commits may have been rebuilt on the way;
    /// a failed task landed without its code.
    pub landed: Option<CommitId>,
    /// The commits by which a landed task has joined its parallel branches: its steps may be commits without them.
    pub joins: Vec<CommitId>,
    /// A tree run would resume it.
    pub goes_on: Option<TaskOf>,
    /// The files copied into the worktree from the user's checkout, if they still exist there.
    pub copied_in: Vec<RepoPath>,
    /// Why its record cannot be read.
    pub unreadable: Option<String>,
    /// Why its newest commit cannot be read.
    pub lost: Option<String>,
}

impl KnownWork {
    /// What is known about a session with these records. `copied_in` are the files copied into worktrees today, used if
    /// the record does not say which were copied.
    pub fn of(repo: &Repo, run: &RunId, records: &RecordRefs, copied_in: &[RepoPath]) -> Result<Self, Error> {
        let why = match Summary::newest(repo, run) {
            Ok(summary) => {
                let known = Self::recorded(&summary, summary.started.record_repo());
                let is_wide = known.landed.is_some() && !summary.state.forks.is_empty();
                let joins = if is_wide { joins(repo, run)? } else { Vec::new() };
                return Self { joins, ..known }.or_older(repo, run, records);
            }
            Err(gone @ Error::Record(record::Error::Missing { .. })) => return Err(gone),
            // A later attempt may read it.
            Err(error @ (Error::Git(git::Error::Io { .. }) | Error::Record(record::Error::Git(_)))) => {
                return Err(error);
            }
            Err(unreadable) => unreadable.to_string(),
        };
        let found = Self::found(repo, run, records)?;
        Ok(Self { copied_in: copied_in.to_vec(), unreadable: Some(why), ..found })
    }

    /// What is known about a session in its other repositories. Of one whose record cannot be read, the repositories that
    /// are open are searched for its branch.
    pub fn elsewhere(
        record: &Repo,
        repos: &SessionRepos,
        run: &RunId,
        copied_in: &[RepoPath],
    ) -> Result<Vec<(RepoName, Self)>, Error> {
        let Ok(summary) = Summary::newest(record, run) else {
            let others = repos.iter().filter(|(name, _)| *name != repos.record_name());
            let found = others.map(|(name, repo)| {
                let found = Self::found(repo, run, &Vec::new())?;
                Ok((name.clone(), Self { copied_in: copied_in.to_vec(), ..found }))
            });
            let found = found.collect::<Result<Vec<_>, git::Error>>()?;
            return Ok(found.into_iter().filter(|(_, known)| known.branch.is_some()).collect());
        };
        let others = summary.started.branches.keys().filter(|name| *name != summary.started.record_repo());
        let known = |name: &RepoName| {
            let known = Self::recorded(&summary, name);
            match repos.get(name) {
                Some(repo) => Ok((name.clone(), known.or_older(repo, run, &Vec::new())?)),
                None => Ok((name.clone(), known)),
            }
        };
        others.map(known).collect()
    }

    fn recorded(summary: &Summary, repo: &RepoName) -> Self {
        let repo_work = summary.in_repo(repo);
        let task = summary.state.task.as_deref();
        // For a task that was given up, the target has the steps without the code.
        let complete = task.filter(|task| task.newest() != Some((StepKind::Complete, false)));
        Self {
            branch: repo_work.map(|work| work.branch.clone()),
            parallel: repo_work.map(|work| parallel_branches(&summary.started, &summary.session, work.branch)),
            work: repo_work.and_then(|work| work.work),
            base: repo_work.and_then(|work| work.base),
            target: repo_work.and_then(|work| work.target.cloned()),
            is_of_task: task.is_some(),
            landed: complete.and_then(|task| task.landed),
            joins: Vec::new(),
            goes_on: summary.started.task.clone().filter(|_| summary.standing() != SessionStatus::Cancelled),
            copied_in: copied_in(summary),
            unreadable: None,
            lost: None,
        }
    }

    /// Falls back to an older commit if the newest is unreadable.
    fn or_older(self, repo: &Repo, run: &RunId, records: &RecordRefs) -> Result<Self, Error> {
        // The session's base may be damaged as well, but it is not being removed.
        let base = self.base.filter(|base| repo.commit(*base).is_ok());
        let Some(damage) = self.work.and_then(|work| read_work(repo, work, base).err()) else { return Ok(self) };
        if !damage.is_damage() {
            return Err(damage.into());
        }
        let older = newest_work(repo, run, records, self.branch.as_ref(), base)?;
        // Without one, the uncommitted files in its worktree would be lost silently.
        let Some(work) = older else { return Err(damage.into()) };
        Ok(Self { work: Some(work), lost: Some(git::diagnose_corruption(repo, damage).to_string()), ..self })
    }

    /// The branch named after the session, and the newest commit reachable from the readable part of the record, the
    /// branch or the worktree. The branch of a task has another name; its next session uses it.
    fn found(repo: &Repo, run: &RunId, records: &RecordRefs) -> Result<Self, git::Error> {
        let names = repo.refs().names("refs/heads/")?;
        let own = run.to_string().replace('/', "--");
        let mut named = names.iter().filter(|name| name.rsplit('/').next() == Some(own.as_str()));
        let branch = match (named.next().and_then(|name| name.strip_prefix("refs/heads/")), named.next()) {
            (Some(branch), None) => branch.parse().ok(),
            // Among several branches, the session's own is unknown, so all of them stay.
            _ => None,
        };
        let work = newest_work(repo, run, records, branch.as_ref(), None)?;
        let parallel = branch.as_ref().map(|branch: &BranchName| {
            let (session, _) = branch.as_str().rsplit_once("--").unwrap_or((branch.as_str(), ""));
            format!("{session}--")
        });
        Ok(Self { branch, parallel, work, ..Self::default() })
    }
}

/// The commits by which the main context of a session has joined others.
fn joins(repo: &Repo, run: &RunId) -> Result<Vec<CommitId>, Error> {
    let history = History::all(repo, run)?;
    let joined = history.events().flat_map(|recorded| match &recorded.event {
        Event::ContextJoined(joined) => joined.result.values().copied().collect(),
        Event::WorktreeMerged(merged) => vec![merged.git_sha],
        _ => Vec::new(),
    });
    Ok(joined.collect())
}

/// The newest readable commit of a session: from the readable part of its record, its branch or its worktree.
fn newest_work(
    repo: &Repo,
    run: &RunId,
    records: &RecordRefs,
    branch: Option<&BranchName>,
    base: Option<CommitId>,
) -> Result<Option<CommitId>, git::Error> {
    let on_branch = branch.and_then(|branch| repo.refs().find(&branch_ref(branch)).ok().flatten());
    let recorded = records.iter().rev().filter_map(|(_, tip)| *tip).flat_map(|tip| work_commits(repo, tip));
    let in_copy = run_worktrees(repo, run)?.into_iter().find_map(|copy| copy.head);
    // The files of a worktree without a known commit are compared with those of the checkout.
    let head = repo.head().ok().map(|head| head.commit);
    let mut all = recorded.chain([on_branch, in_copy, base, head].into_iter().flatten());
    Ok(all.find(|commit| read_work(repo, *commit, base).is_ok()))
}
