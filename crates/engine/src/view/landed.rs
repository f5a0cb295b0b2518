//! Where the work of sessions has landed: on the branches it is for, by whatever merged it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::{RepoWork, Summary};
use crate::env::Error;
use git::record::entries::{QUEUES, read_state};
use git::record::read_entry;
use git::workspace::branch_ref;
use git::{HistoryCommit, HistoryParent, Repo};
use pleach_core::ids::{BranchName, CommitId, EntryId, RepoName, RunId};
use pleach_core::queue::EntryState;
use pleach_core::trailer::CommitMessage;

/// The trailer of a commit that undoes an entry of the merge queue.
const UNDOES: &str = "Pleach-Undoes";

/// Where the work of a session has landed in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LandedPart {
    /// The repository.
    pub repo: RepoName,
    /// The branch that has it.
    pub target: BranchName,
    /// The commit that brought it there.
    pub commit: CommitId,
    /// When it came there.
    pub at: Timestamp,
    /// The commit that took it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone: Option<CommitId>,
}

/// Where the runs of sessions have landed that are done, and whose work is on a branch in every repository they have
/// changed: that it is for, or that the merge queue has brought it to. What is in a repository that is not there has not.
pub fn landed<'s>(
    summaries: impl IntoIterator<Item = &'s Summary>,
    find: impl Fn(&RepoName) -> Option<Repo>,
) -> Result<BTreeMap<RunId, Vec<LandedPart>>, Error> {
    let mut by_repo: BTreeMap<&RepoName, Vec<RunWork<'_>>> = BTreeMap::new();
    let mut changed: BTreeMap<&RunId, BTreeSet<&RepoName>> = BTreeMap::new();
    for summary in summaries.into_iter().filter(|summary| summary.can_land()) {
        for repo_work in summary.repos().filter(RepoWork::has_changed) {
            changed.entry(&summary.run).or_default().insert(repo_work.repo);
            by_repo.entry(repo_work.repo).or_default().push((summary, repo_work));
        }
    }
    let mut landed: BTreeMap<RunId, Vec<LandedPart>> = BTreeMap::new();
    for (name, works) in by_repo {
        let Some(repo) = find(name) else { continue };
        let queued = landed_by_queue(&repo)?;
        let mut by_target: BTreeMap<&BranchName, Vec<RunWork<'_>>> = BTreeMap::new();
        for work in works {
            let brought = queued.keys().filter(|(run, _)| *run == work.0.run).map(|(_, target)| target);
            for target in brought.chain(work.1.target).collect::<BTreeSet<_>>() {
                by_target.entry(target).or_default().push(work);
            }
        }
        for (target, works) in by_target {
            let Some(history) = TargetHistory::read(&repo, target, &works)? else { continue };
            for (summary, repo_work) in works {
                let Some(work) = repo_work.work else { continue };
                if let Some((commit, undone)) = history.landing(&repo, work, &summary.run)? {
                    // A fast-forward has no commit of its own, which would say when that was.
                    let known = queued.get(&(summary.run.clone(), target.clone())).copied();
                    let at = known.map_or_else(|| Ok(repo.commit(commit)?.at), Ok::<_, Error>)?;
                    let part = LandedPart { repo: name.clone(), target: target.clone(), commit, at, undone };
                    landed.entry(summary.run.clone()).or_default().push(part);
                }
            }
        }
    }
    let repos = |landed: &[LandedPart]| landed.iter().map(|part| part.repo.clone()).collect::<BTreeSet<_>>();
    landed.retain(|run, landed| changed.get(run).is_some_and(|names| names.len() == repos(landed).len()));
    Ok(landed)
}

/// A run, and what it has done in a repository.
type RunWork<'s> = (&'s Summary, RepoWork<'s>);

/// The runs whose work the merge queue has brought to a branch, and when. An entry that cannot be read says nothing here: the
/// commands of the queue tell what is wrong.
fn landed_by_queue(repo: &Repo) -> Result<BTreeMap<(RunId, BranchName), Timestamp>, Error> {
    let entries = repo.refs().list_unpeeled(QUEUES)?.into_iter().filter(|(name, _)| name.contains("/entry/"));
    let landed = entries.filter_map(|(name, at)| {
        let entry = read_state(repo, &name, at?).ok()?.entry;
        let run = entry.run_of_session().filter(|_| entry.state == EntryState::Landed)?;
        Some(((run, entry.target), repo.commit(at?).ok()?.at))
    });
    Ok(landed.collect())
}

/// What a branch has got since the sessions were started.
struct TargetHistory {
    target: BranchName,
    tip: CommitId,
    /// The commits, oldest first: what a merge brings comes right before the merge.
    commits: Vec<HistoryCommit>,
    /// Where each of them is.
    places: BTreeMap<CommitId, usize>,
    /// The places of those the branch itself was at, oldest first.
    line: Vec<usize>,
    /// The commits that take back what an entry of the queue brought.
    undoing: Vec<(EntryId, CommitId)>,
}

impl TargetHistory {
    /// Reads it, unless the branch is gone.
    fn read(repo: &Repo, target: &BranchName, works: &[RunWork<'_>]) -> Result<Option<Self>, Error> {
        let Some(tip) = repo.refs().find(&branch_ref(target))? else { return Ok(None) };
        let oldest = works.iter().min_by_key(|(summary, _)| summary.started_at);
        let Some(base) = oldest.and_then(|(_, repo_work)| repo_work.base) else { return Ok(None) };
        let undoes = |message: &[u8]| String::from_utf8_lossy(message).contains(UNDOES);
        let [commits, _] = repo.history().symmetric_difference(tip, base, (&undoes, &|_| false))?;
        let places: BTreeMap<CommitId, usize> =
            commits.iter().enumerate().map(|(at, commit)| (commit.id, at)).collect();
        let mut line: Vec<usize> = Vec::new();
        let mut next = places.get(&tip).copied();
        while let Some(at) = next {
            line.push(at);
            next = match commits[at].parents.first() {
                Some(HistoryParent::Passed(parent)) => Some(*parent),
                Some(HistoryParent::Outside(_)) | None => None,
            };
        }
        line.reverse();
        let undoing = commits.iter().filter_map(|commit| {
            let message = CommitMessage::read(&String::from_utf8_lossy(&commit.kept.as_ref()?.message));
            Some((EntryId::new(message.trailer(UNDOES)?).ok()?, commit.id))
        });
        let undoing = undoing.collect();
        Ok(Some(Self { target: target.clone(), tip, commits, places, line, undoing }))
    }

    /// The commit that brought work to the branch, and the one that took it back.
    fn landing(&self, repo: &Repo, work: CommitId, run: &RunId) -> Result<Option<(CommitId, Option<CommitId>)>, Error> {
        let Some(place) = self.places.get(&work) else {
            // The branch may have been elsewhere when the oldest of the sessions was started.
            return Ok(repo.history().is_ancestor(work, self.tip)?.then_some((work, None)));
        };
        let brought = self.line[self.line.partition_point(|at| at < place)..].first().map(|at| self.commits[*at].id);
        let mut undone = None;
        for (entry, commit) in &self.undoing {
            // A queue that cannot be read says nothing here: its own commands tell what is wrong.
            let entry = read_entry(repo, &self.target, entry).ok().flatten().map(|stored| stored.entry);
            if entry.is_some_and(|entry| entry.run_of_session().as_ref() == Some(run)) {
                undone = Some(*commit);
            }
        }
        Ok(brought.map(|commit| (commit, undone)))
    }
}
