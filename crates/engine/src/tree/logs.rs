//! The logs of a task's steps, found in the commits themselves.

use jiff::Timestamp;
use serde_json::Value;

use agents::llm;
use git::Repo;
use git::record::{self, History, Record, SESSIONS, root_ref};
use pleach_core::event::{Event, NodeExecution, StepFinished};
use pleach_core::ids::{CommitId, RepoPath, SessionId};
use pleach_core::progress::{StepCommit, TaskState};
use pleach_core::step::{self, StepKind, text};
use pleach_core::trailer::CommitMessage;

/// The complete log of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLog {
    /// The step's commit.
    pub commit: CommitId,
    /// The status of the step: `test-fail`, …
    pub status: String,
    /// Its path from the root of the repository, or a ref if the session's record has it.
    pub path: String,
    /// Whether the commit has the file.
    pub there: bool,
}

impl TaskLog {
    /// The session whose record has the log, if the commit does not.
    pub fn session(&self) -> Option<SessionId> {
        recorded_in(&self.path)
    }

    /// The content; `None` if neither the commit nor a record has it.
    pub fn read(&self, repo: &Repo) -> Result<Option<Vec<u8>>, record::Error> {
        if let Some(session) = self.session() {
            return from_record(repo, &session, self);
        }
        Ok(repo.tree_file(repo.tree_of(self.commit)?, &RepoPath::from(self.path.as_str()))?)
    }
}

/// The logs of a task's steps, oldest first: those named in trailers, and those added by a step's commit. In a shallow
/// clone that lacks a commit's parent, the added logs are unknown.
pub fn logs(repo: &Repo, state: &TaskState) -> Result<Vec<TaskLog>, git::Error> {
    let mut logs = Vec::new();
    for found in &state.steps {
        logs.extend(of_step(repo, found)?);
    }
    Ok(logs)
}

/// The report of a completed task: from the commit of its step, or from the record if the commit names that. `None` if
/// neither has it.
pub fn report(repo: &Repo, found: &StepCommit) -> Result<Option<Value>, record::Error> {
    let Some(path) = &found.step.report else { return Ok(None) };
    let Some(session) = recorded_in(path) else {
        let bytes = repo.tree_file(repo.tree_of(found.commit)?, &RepoPath::from(path.as_str()))?;
        return Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()));
    };
    let Some(history) = history(repo, &session)? else { return Ok(None) };
    Ok(LogKey::of(found).find(&history).and_then(|(_, step)| step.report.clone()))
}

/// The session whose record `path` names, if it is a ref.
fn recorded_in(path: &str) -> Option<SessionId> {
    path.strip_prefix(SESSIONS)?.split('/').next()?.parse().ok()
}

fn of_step(repo: &Repo, found: &StepCommit) -> Result<Vec<TaskLog>, git::Error> {
    let (Some(task), commit) = (&found.step.task, repo.commit(found.commit)?) else { return Ok(Vec::new()) };
    let test = found.step.test.as_ref().and_then(|test| test.log.clone());
    let mut paths: Vec<String> = test.into_iter().chain(found.step.review_log.clone()).collect();
    if let Some(before) = repo.tree_before(&commit)? {
        let own = format!("{task}_{}_", found.step.kind.as_str());
        let changes = git::diff::changes(repo, before, commit.tree)?;
        let brought =
            changes.into_iter().filter_map(|change| Some(std::str::from_utf8(change.path.as_bytes()).ok()?.to_owned()));
        let is_log = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.starts_with(&own) && name.ends_with(".log")
        };
        paths.extend(brought.filter(is_log));
    }
    // No trailer names the log of an agent, or that of a custom step. A command that passed has none.
    let is_logged = || match &found.step.kind {
        StepKind::Implement => true,
        StepKind::Custom(_) => !found.step.passed || text::is_of_agent(&CommitMessage::read(&commit.text()).body),
        _ => false,
    };
    let record = found.step.session.as_ref().map(root_ref);
    if let Some(record) = record.filter(|_| paths.is_empty() && is_logged())
        && repo.refs().find(&record)?.is_some()
    {
        paths.push(record);
    }
    paths.sort();
    paths.dedup();
    let status = found.step.status();
    let log = |path: String| {
        let there = repo.tree_entry(commit.tree, &RepoPath::from(path.as_str()))?.is_some();
        Ok(TaskLog { commit: found.commit, status: status.clone(), path, there })
    };
    paths.into_iter().map(log).collect()
}

/// The log of a step in the record of a session: the output of its tests, or the answer of its agent.
fn from_record(repo: &Repo, session: &SessionId, log: &TaskLog) -> Result<Option<Vec<u8>>, record::Error> {
    let Some(history) = history(repo, session)? else { return Ok(None) };
    let commit = repo.commit(log.commit)?;
    let trailers = CommitMessage::read(&commit.text()).trailers;
    let attempt = trailers.iter().find(|(key, _)| key == "Arborist-Retry").and_then(|(_, value)| value.parse().ok());
    let key = LogKey { status: log.status.clone(), attempt, at: commit.at };
    let Some((record, step)) = key.find(&history) else { return Ok(None) };
    let node = record.events.iter().find_map(|event| match &event.event {
        Event::NodeExecution(node) => Some(node),
        _ => None,
    });
    let message = |number: Option<u64>| -> Result<Option<llm::Message>, record::Error> {
        let message = number.map(|number| history.message(repo, number)).transpose()?;
        Ok(message.and_then(|message| serde_json::from_value(message).ok()))
    };
    // A test that failed at the landing belongs to no node.
    let said = message(node.and_then(|node| node.response).or(step.log))?;
    let beside = message(node.and_then(|node| node.stderr))?.map(|stderr| stderr.text()).unwrap_or_default();
    let text = match (said, node) {
        // A command's output already contains both streams.
        (Some(said), Some(node)) if said.role != llm::Role::Tool => whole_log(&said.text(), beside, node, step),
        (Some(said), _) => said.text(),
        (None, Some(node)) if !beside.is_empty() => whole_log("", beside, node, step),
        // In older records, the feedback is all there is.
        (None, _) => return Ok(step.feedback.as_ref().map(|feedback| feedback.text.clone().into_bytes())),
    };
    Ok(Some(text.into_bytes()))
}

/// An agent's answer, combined with its standard error or failure as in a log.
fn whole_log(answer: &str, mut beside: String, node: &NodeExecution, step: &StepFinished) -> String {
    // A rejecting review has not failed.
    if let Some(why) = node.outcome.failure_reason.as_ref().filter(|_| step.step != StepKind::Review.as_str()) {
        beside.push_str(if beside.is_empty() { "" } else { "\n" });
        beside.push_str(why);
    }
    if beside.is_empty() {
        answer.to_owned()
    } else {
        step::report::log([("stdout", answer), ("stderr", beside.as_str())])
    }
}

/// The complete record of a session; `None` if it is gone.
pub(super) fn history(repo: &Repo, session: &SessionId) -> Result<Option<History>, record::Error> {
    match History::all(repo, session) {
        Err(record::Error::Missing { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Identifies a step in the record of its session; copies of a step share it. Two attempts can end in the same second.
pub(super) struct LogKey {
    status: String,
    attempt: Option<u32>,
    at: Timestamp,
}

impl LogKey {
    pub(super) fn of(found: &StepCommit) -> Self {
        Self { status: found.step.status(), attempt: found.step.retry, at: found.at }
    }

    /// The step in its session's history, with its record.
    pub(super) fn find<'h>(&self, history: &'h History) -> Option<(&'h Record, &'h StepFinished)> {
        let is_same_step = |step: &&StepFinished| {
            step.status == self.status && step.attempt == self.attempt && step.date.as_second() == self.at.as_second()
        };
        let steps = |record: &'h Record| {
            record.events.iter().filter_map(move |event| match &event.event {
                Event::StepFinished(step) => Some((record, step)),
                _ => None,
            })
        };
        history.records.iter().flat_map(steps).find(|(_, step)| is_same_step(step))
    }
}
