//! The repositories of a job, as agents and the programs they start are told of them.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Value, json};

use pleach_core::ids::{BranchName, CommitId, RepoName};

/// The variable with the repositories of a job, as JSON.
const VARIABLE: &str = "PLEACH_REPOS";

/// A repository of a job: where its worktree is, and what that stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoContext {
    /// Its name in the workspace.
    pub name: RepoName,
    /// The worktree.
    pub path: PathBuf,
    /// The branch its commits go to.
    pub branch: BranchName,
    /// The commit whose files the worktree has.
    pub commit: CommitId,
    /// Whether git shows changes in the worktree that HEAD does not have.
    pub dirty: bool,
    /// Whether the job may write there.
    pub writable: bool,
}

impl RepoContext {
    fn to_json(&self) -> Value {
        let Self { name, path, branch, commit, dirty, .. } = self;
        json!({"name": name, "path": path.to_string_lossy(), "branch": branch, "commit": commit, "dirty": dirty})
    }
}

/// The variable by which programs find the repositories of their job.
pub fn repos_variable(repos: &[RepoContext]) -> (OsString, Option<OsString>) {
    let all: Vec<Value> = repos.iter().map(RepoContext::to_json).collect();
    (VARIABLE.into(), Some(Value::from(all).to_string().into()))
}

/// The repositories in words, for a prompt; nothing where there is only one, which the agent works in anyway.
pub(super) fn describe_repos(repos: &[RepoContext]) -> Option<String> {
    let line = |repo: &RepoContext| {
        let read_only = if repo.writable { "" } else { ", read-only" };
        format!("\n- `{}` in `{}` (branch `{}`{read_only})", repo.name, repo.path.display(), repo.branch)
    };
    let lines: String = repos.iter().map(line).collect();
    (repos.len() > 1).then(|| format!("The task may concern several repositories:{lines}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(name: &str, writable: bool) -> RepoContext {
        RepoContext {
            name: RepoName::new(name).unwrap(),
            path: format!("/w/s/main/{name}").into(),
            branch: BranchName::new(format!("pleach/p/s-{name}")).unwrap(),
            commit: "0123456789012345678901234567890123456789".parse().unwrap(),
            dirty: !writable,
            writable,
        }
    }

    #[test]
    fn programs_find_their_repositories_as_json() {
        let (name, value) = repos_variable(&[repo("a", true), repo("b", false)]);
        assert_eq!(name, "PLEACH_REPOS");
        let commit = "0123456789012345678901234567890123456789";
        let found: Value = serde_json::from_str(value.unwrap().to_str().unwrap()).unwrap();
        assert_eq!(
            found,
            json!([
                {"name": "a", "path": "/w/s/main/a", "branch": "pleach/p/s-a", "commit": commit, "dirty": false},
                {"name": "b", "path": "/w/s/main/b", "branch": "pleach/p/s-b", "commit": commit, "dirty": true},
            ])
        );
    }

    #[test]
    fn a_prompt_names_several_repositories_and_not_one() {
        assert_eq!(describe_repos(&[repo("a", true)]), None);
        assert_eq!(
            describe_repos(&[repo("a", true), repo("b", false)]).unwrap(),
            "The task may concern several repositories:\n- `a` in `/w/s/main/a` (branch `pleach/p/s-a`)\n- `b` in \
             `/w/s/main/b` (branch `pleach/p/s-b`, read-only)"
        );
    }
}
