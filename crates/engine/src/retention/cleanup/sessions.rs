//! Which sessions have ended long enough ago.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::env::Error;
use crate::landing::{MergeQueue, QueueError, queue_targets};
use crate::tree::ad_hoc::{self, TaskStore};
use crate::view::{SessionStatus, Summary, View};
use git::Repo;
use pleach_core::ids::{BranchName, SessionId, TaskId};

/// A session, and whether it may go.
#[derive(Debug)]
pub struct SessionFate {
    /// The session.
    pub session: SessionId,
    /// What is known of it, if it can be read.
    pub summary: Option<Summary>,
    /// Why it stays; none if it may go.
    pub stays: Option<SessionStays>,
}

/// Why a session is not removed for its age.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionStays {
    /// It was used not long enough ago.
    #[error("it was used recently")]
    Recent,
    /// A process works on it.
    #[error("it is running")]
    Running,
    /// It can be resumed.
    #[error("it is {status} and can be resumed")]
    Resumable {
        /// Its status.
        status: &'static str,
    },
    /// Its task has neither landed nor been cancelled.
    #[error("its task {task} has not landed")]
    OpenTask {
        /// The task.
        task: TaskId,
    },
    /// The merge queue has its work.
    #[error("{entry} is in the merge queue")]
    Queued {
        /// What people call the entry.
        entry: String,
    },
    /// Nobody can say whether it has ended.
    #[error("its record cannot be read: {why}")]
    Unreadable {
        /// The cause.
        why: String,
    },
}

/// A task on the branch it lands on.
type TaskOnTarget = (BranchName, TaskId);

/// What decides about a session.
#[derive(Debug)]
struct SessionFacts {
    updated_at: Timestamp,
    in_use: bool,
    standing: SessionStatus,
    task: Option<(TaskId, TaskFacts)>,
    /// An open entry of the merge queue with its work.
    queued: Option<String>,
}

/// What decides about the session of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TaskFacts {
    /// The target has the task, by this session or another one.
    is_on_target: bool,
    /// A person does not want it any more.
    is_cancelled: bool,
    /// Another session on it can be resumed, and may continue on the same branch.
    is_continued: bool,
}

/// The sessions of a repository, oldest first, each with why it stays. One that was last used after `before` stays, and one
/// whose work is in the merge queue of one of `others`, too.
pub fn session_fates(repo: &Repo, others: &[&Repo], before: Timestamp) -> Result<Vec<SessionFate>, QueueError> {
    let all = View::all(repo)?;
    let (mut queued, tasks) = (BTreeMap::new(), task_facts(repo, &all)?);
    for with_queue in others.iter().copied().chain([repo]) {
        queued.extend(queued_sessions(with_queue)?);
    }
    let fate = |(session, read): (SessionId, Result<Summary, Error>)| match read {
        Err(error) => {
            let stays = Some(SessionStays::Unreadable { why: error.to_string() });
            SessionFate { session, summary: None, stays }
        }
        Ok(summary) => {
            let facts = SessionFacts {
                updated_at: summary.updated_at,
                in_use: summary.in_use,
                standing: summary.standing(),
                task: summary.started.task.as_ref().map(|task| {
                    let mut known = tasks.get(&(task.target.clone(), task.id.clone())).cloned().unwrap_or_default();
                    known.open.remove(&session);
                    let is_continued = !known.open.is_empty();
                    (task.id.clone(), TaskFacts { is_continued, ..known.facts })
                }),
                queued: queued.get(&session).cloned(),
            };
            SessionFate { session, stays: stays(&facts, before), summary: Some(summary) }
        }
    };
    Ok(all.into_iter().rev().map(fate).collect())
}

/// Why a session stays; none if it may go. A failed one has ended, though it could be resumed.
fn stays(facts: &SessionFacts, before: Timestamp) -> Option<SessionStays> {
    if facts.in_use || facts.standing == SessionStatus::Running {
        return Some(SessionStays::Running);
    }
    if facts.updated_at >= before {
        return Some(SessionStays::Recent);
    }
    if let Some(entry) = &facts.queued {
        return Some(SessionStays::Queued { entry: entry.clone() });
    }
    match (&facts.task, &facts.standing) {
        (Some((_, task)), _) if task.is_on_target => None,
        (Some((_, task)), SessionStatus::Cancelled) if !task.is_continued => None,
        (Some((_, task)), _) if task.is_cancelled => None,
        (Some((task, _)), _) => Some(SessionStays::OpenTask { task: task.clone() }),
        (None, SessionStatus::Done | SessionStatus::Failed { .. } | SessionStatus::Cancelled) => None,
        (None, status) => Some(SessionStays::Resumable { status: status.word() }),
    }
}

/// What is known of a task from its sessions and from its own ref.
#[derive(Debug, Clone, Default)]
struct KnownTask {
    facts: TaskFacts,
    /// Its sessions that have not been cancelled.
    open: BTreeSet<SessionId>,
}

fn task_facts(
    repo: &Repo,
    all: &[(SessionId, Result<Summary, Error>)],
) -> Result<BTreeMap<TaskOnTarget, KnownTask>, Error> {
    let mut tasks: BTreeMap<TaskOnTarget, KnownTask> = BTreeMap::new();
    for (session, summary) in all.iter().filter_map(|(id, read)| Some((id, read.as_ref().ok()?))) {
        let Some(task) = &summary.started.task else { continue };
        let known = tasks.entry((task.target.clone(), task.id.clone())).or_default();
        known.facts.is_on_target |= summary.is_on_target(repo)?;
        if summary.standing() != SessionStatus::Cancelled {
            known.open.insert(session.clone());
        }
    }
    for ad_hoc::StoredTask { task, .. } in readable_tasks(repo) {
        let known = tasks.entry((task.target, task.id)).or_default();
        known.facts.is_cancelled = task.cancelled.is_some();
    }
    Ok(tasks)
}

/// The ad-hoc tasks that can be read: what cannot be read is open.
pub(super) fn readable_tasks(repo: &Repo) -> Vec<ad_hoc::StoredTask> {
    TaskStore::new(repo).all().map(|(tasks, _)| tasks).unwrap_or_default()
}

/// The sessions whose work is in an open entry of a merge queue.
fn queued_sessions(repo: &Repo) -> Result<BTreeMap<SessionId, String>, QueueError> {
    let mut queued = BTreeMap::new();
    for target in queue_targets(repo)? {
        let open = MergeQueue::read(repo, &target)?.open.into_iter();
        queued.extend(open.filter_map(|stored| Some((stored.entry.session.clone()?, stored.entry.name()))));
    }
    Ok(queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::event::PauseReason;

    fn facts(standing: SessionStatus) -> SessionFacts {
        let updated_at = Timestamp::from_second(1_000).unwrap();
        SessionFacts { updated_at, in_use: false, standing, task: None, queued: None }
    }

    fn of_task(standing: SessionStatus, task: TaskFacts) -> SessionFacts {
        SessionFacts { task: Some((TaskId::new("T001").unwrap(), task)), ..facts(standing) }
    }

    fn failed() -> SessionStatus {
        SessionStatus::Failed { reason: "x".into() }
    }

    #[test]
    fn what_has_ended_goes_once_it_is_old() {
        for standing in [SessionStatus::Done, failed(), SessionStatus::Cancelled] {
            let facts = facts(standing);
            assert_eq!(stays(&facts, Timestamp::from_second(1_001).unwrap()), None);
            assert_eq!(stays(&facts, facts.updated_at), Some(SessionStays::Recent));
            assert_eq!(stays(&facts, Timestamp::MAX), None);
        }
    }

    #[test]
    fn what_runs_or_can_be_resumed_stays_at_any_age() {
        let running = SessionFacts { in_use: true, ..facts(SessionStatus::Done) };
        assert_eq!(stays(&running, Timestamp::MAX), Some(SessionStays::Running));
        let paused = SessionStatus::Paused { reason: PauseReason::Interrupted, why: None };
        for (standing, status) in [(SessionStatus::Dead, "dead"), (paused, "paused")] {
            assert_eq!(stays(&facts(standing), Timestamp::MAX), Some(SessionStays::Resumable { status }));
        }
        let queued = SessionFacts { queued: Some("one".into()), ..facts(SessionStatus::Done) };
        assert_eq!(stays(&queued, Timestamp::MAX), Some(SessionStays::Queued { entry: "one".into() }));
    }

    #[test]
    fn sessions_of_tasks_go_with_their_tasks() {
        let open = Some(SessionStays::OpenTask { task: TaskId::new("T001").unwrap() });
        let landed = TaskFacts { is_on_target: true, ..TaskFacts::default() };
        let cancelled = TaskFacts { is_cancelled: true, ..TaskFacts::default() };
        let continued = TaskFacts { is_continued: true, ..TaskFacts::default() };
        let why_stays = |standing, task| stays(&of_task(standing, task), Timestamp::MAX);
        // One that was given up has its code on its branch, for the next try.
        assert_eq!(why_stays(failed(), TaskFacts::default()), open);
        assert_eq!(why_stays(SessionStatus::Done, TaskFacts::default()), open);
        assert_eq!(why_stays(failed(), landed), None);
        assert_eq!(why_stays(SessionStatus::Dead, cancelled), None);
        assert_eq!(why_stays(SessionStatus::Cancelled, TaskFacts::default()), None);
        assert_eq!(why_stays(SessionStatus::Cancelled, continued), open);
    }
}
