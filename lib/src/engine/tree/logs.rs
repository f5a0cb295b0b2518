//! The logs a task's steps left behind, found in the commits themselves.

use crate::event::{Event, Recorded};
use crate::git::{self, Repo};
use crate::ids::{CommitId, ContextId, RepoPath, SessionId};
use crate::llm::Message;
use crate::progress::{Found, TaskState};
use crate::record::{self, History, SESSIONS};

/// What a step said, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The step's commit, which has it.
    pub commit: CommitId,
    /// What became of the step: `test-fail`, …
    pub status: String,
    /// Its path from the root of the repository; a ref when the session's record has it.
    pub path: String,
    /// Whether the commit has the file.
    pub there: bool,
}

impl Log {
    /// The session whose record has it, where the commit has not.
    pub fn session(&self) -> Option<SessionId> {
        self.path.strip_prefix(SESSIONS)?.split('/').next()?.parse().ok()
    }

    /// What it holds; none when neither the commit nor a record has it.
    pub fn read(&self, repo: &Repo) -> Result<Option<Vec<u8>>, record::Error> {
        if let Some(session) = self.session() {
            return from_record(repo, &session, self);
        }
        Ok(repo.tree_file(repo.tree_of(self.commit)?, &RepoPath::from(self.path.as_str()))?)
    }
}

/// The logs of a task's steps, oldest first: those that trailers name, and those a step's commit brought along.
pub fn logs(repo: &Repo, state: &TaskState) -> Result<Vec<Log>, git::Error> {
    let mut logs = Vec::new();
    for found in &state.steps {
        logs.extend(of_step(repo, found)?);
    }
    Ok(logs)
}

fn of_step(repo: &Repo, found: &Found) -> Result<Vec<Log>, git::Error> {
    let (Some(task), commit) = (&found.step.task, repo.commit(found.commit)?) else { return Ok(Vec::new()) };
    let test = found.step.test.as_ref().and_then(|test| test.log.clone());
    let mut paths: Vec<String> = test.into_iter().chain(found.step.review_log.clone()).collect();
    if let Some(parent) = commit.parents.first() {
        let own = format!("{task}_{}_", found.step.kind.as_str());
        let changes = repo.changes(repo.tree_of(*parent)?, commit.tree)?;
        let brought = changes.into_iter().map(|change| change.path.to_string());
        let is_log = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.starts_with(&own) && name.ends_with(".log")
        };
        paths.extend(brought.filter(is_log));
    }
    paths.sort();
    paths.dedup();
    let status = found.step.status();
    let log = |path: String| {
        let there = repo.tree_entry(commit.tree, &RepoPath::from(path.as_str()))?.is_some();
        Ok(Log { commit: found.commit, status: status.clone(), path, there })
    };
    paths.into_iter().map(log).collect()
}

/// What the record of a session has of a step's log: what its tests printed, or its agent answered. A step is known by its
/// status and its date, which copies share.
fn from_record(repo: &Repo, session: &SessionId, log: &Log) -> Result<Option<Vec<u8>>, record::Error> {
    let history = match History::whole(repo, session, &ContextId::main()) {
        Err(record::Error::Missing { .. }) => return Ok(None),
        other => other?,
    };
    let at = repo.commit(log.commit)?.at.as_second();
    let is_step = |event: &Recorded| matches!(&event.event, Event::StepFinished(step) if step.status == log.status && step.date.as_second() == at);
    let Some(record) = history.records.iter().find(|record| record.events.iter().any(is_step)) else { return Ok(None) };
    let said = record.events.iter().find_map(|event| match &event.event {
        Event::NodeExecution(node) => node.response,
        _ => None,
    });
    if let Some(number) = said {
        let message = serde_json::from_value::<Message>(history.message(repo, number)?).ok();
        return Ok(message.map(|message| message.text().into_bytes()));
    }
    // A test that failed where the task was to land is no node's: what the next attempt is told is all there is.
    let told = record.events.iter().find_map(|event| match &event.event {
        Event::StepFinished(step) => step.feedback.as_ref().map(|feedback| feedback.text.clone()),
        _ => None,
    });
    Ok(told.map(String::into_bytes))
}
