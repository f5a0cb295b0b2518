//! What an agent is told of a conflict: what both sides were to do, what they did, and whose work is in the way.

use std::collections::BTreeSet;

use super::commits::commits_since;
use super::conflict::OpenConflict;
use super::error::QueueError;
use super::store::MergeQueue;
use git::Repo;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::queue::{EntryState, QueueEntry, RequestSide, ResolutionRequest, SHOWN};
use pleach_core::step::Step;
use pleach_core::text::listed;
use pleach_core::trailer::CommitMessage;

/// How many commits of a side are listed.
const TOLD: usize = 20;

/// How many commits of the target are read.
const LOOKED_AT: usize = 200;

/// What others landed since the work of an entry began.
#[derive(Debug, Default)]
pub(super) struct LandedWork {
    /// Whose work is in the files in conflict, or in any if only the tests fail: tasks, branches, or commits.
    pub names: Vec<String>,
    /// Their goals, with their names.
    goals: Vec<String>,
    /// Its commit messages, newest first; in full if they change files in conflict.
    messages: Vec<String>,
}

impl LandedWork {
    /// The landed work a conflict is about.
    pub(super) fn of(repo: &Repo, entry: &QueueEntry, conflict: &OpenConflict) -> Result<Self, QueueError> {
        let mut work = Self::default();
        let Some(base) = repo.history().merge_base(conflict.onto, entry.head)? else { return Ok(work) };
        let paths: BTreeSet<&RepoPath> = conflict.paths.iter().map(|conflict| &conflict.path).collect();
        let commits = commits_since(repo, conflict.onto, base)?;
        let landings = landings(repo, entry, &commits)?;
        let mut parent = base;
        let first = commits.len().saturating_sub(LOOKED_AT);
        for (at, commit) in commits.into_iter().enumerate() {
            let before = std::mem::replace(&mut parent, commit);
            if at < first {
                continue;
            }
            let message = message_of(repo, commit)?;
            let changes = git::diff::changes(repo, repo.tree_of(before)?, repo.tree_of(commit)?)?;
            let is_in_conflict = changes.iter().any(|change| paths.is_empty() || paths.contains(&change.path));
            work.messages.push(if is_in_conflict { whole(&message) } else { message.subject.clone() });
            if !is_in_conflict {
                continue;
            }
            let landed = landings.iter().find(|(from, to, _)| (*from..*to).contains(&at)).map(|(.., landed)| landed);
            let step = || Step::read(&message, entry.target.as_str()).and_then(|step| step.task);
            let name = landed.map(QueueEntry::name).or_else(|| Some(step()?.to_string()));
            let name = name.unwrap_or_else(|| commit.short());
            if !work.names.contains(&name) {
                work.goals.extend(landed.and_then(|landed| landed.goal.as_ref()).map(|goal| format!("{name}: {goal}")));
                work.names.push(name);
            }
        }
        work.messages.reverse();
        work.messages.truncate(TOLD);
        Ok(work)
    }
}

/// The queue's landings among these commits, as ranges, each with its entry.
fn landings(
    repo: &Repo,
    entry: &QueueEntry,
    commits: &[CommitId],
) -> Result<Vec<(usize, usize, QueueEntry)>, QueueError> {
    let behind = |commit: CommitId| commits.iter().position(|known| *known == commit).map(|at| at + 1);
    let landed = MergeQueue::read_all(repo, &entry.target)?.into_iter().map(|stored| stored.entry);
    let landed = landed.filter(|landed| landed.state == EntryState::Landed);
    let range = |landed: QueueEntry| {
        let landing = landed.landing?;
        Some((behind(landing.from).unwrap_or(0), behind(landing.to)?, landed))
    };
    Ok(landed.filter_map(range).collect())
}

/// What an agent does with a conflict, in words.
pub(super) fn resolving_words(with: &[String], paths: &[RepoPath]) -> String {
    let with = if with.is_empty() { "the target".to_owned() } else { listed(with, 3) };
    if paths.is_empty() {
        format!("repairing the merge with {with}")
    } else {
        format!("resolving a conflict with {with} in {}", listed(paths, 3))
    }
}

/// The request to an agent for a conflict.
pub(super) fn request(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    landed: &LandedWork,
    log: Option<String>,
) -> Result<ResolutionRequest, QueueError> {
    let mut request = ResolutionRequest {
        name: entry.name(),
        target: entry.target.to_string(),
        conflicts: conflict.paths.clone(),
        work: RequestSide {
            goals: vec![entry.goal.clone().unwrap_or_else(|| entry.title.clone())],
            ..RequestSide::default()
        },
        landed: RequestSide { goals: landed.goals.clone(), commits: landed.messages.clone(), ..RequestSide::default() },
        log,
        objection: entry.why.clone().filter(|_| entry.attempts > 0),
    };
    let Some(base) = repo.history().merge_base(conflict.onto, entry.head)? else { return Ok(request) };
    for commit in commits_since(repo, entry.head, base)?.into_iter().rev().take(TOLD) {
        request.work.commits.push(whole(&message_of(repo, commit)?));
    }
    let paths: Vec<RepoPath> = conflict.paths.iter().map(|conflict| conflict.path.clone()).collect();
    for (side, commit) in [(&mut request.work, entry.head), (&mut request.landed, conflict.onto)] {
        let [from, to] = [repo.tree_of(base)?, repo.tree_of(commit)?];
        side.diff = git::diff::patch(repo, from, to, &[])?;
        // Cutting must not hide conflicting files.
        if side.diff.len() > SHOWN && !paths.is_empty() {
            side.diff = git::diff::patch(repo, from, to, &paths)?;
        }
    }
    Ok(request)
}

fn message_of(repo: &Repo, commit: CommitId) -> Result<CommitMessage, git::Error> {
    Ok(CommitMessage::read(&String::from_utf8_lossy(&repo.history().message_of(commit)?.message)))
}

/// Subject and body of a commit.
fn whole(message: &CommitMessage) -> String {
    format!("{}\n\n{}", message.subject, message.body).trim_end().to_owned()
}
