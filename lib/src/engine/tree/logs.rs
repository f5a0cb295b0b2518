//! The logs a task's steps left behind, found in the commits themselves.

use crate::git::{self, Repo};
use crate::ids::{CommitId, RepoPath};
use crate::progress::{Found, TaskState};

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
    /// What it holds; none when the commit does not have it.
    pub fn read(&self, repo: &Repo) -> Result<Option<Vec<u8>>, git::Error> {
        repo.tree_file(repo.tree_of(self.commit)?, &RepoPath::from(self.path.as_str()))
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
