//! What the remotes of a session have, as `status` shows it.

use pleach::engine::{SessionRepos, Summary};
use pleach::git::Repo;
use pleach::ids::{CommitId, RepoName, SessionId};
use pleach::text::{counted, listed};
use pleach::workspace::{PushState, RemoteState, branch_ref};
use serde_json::{Value, json};

/// The pushes of a session in these repositories. None for one that is not pushed.
pub fn of(repos: &SessionRepos, summary: &Summary) -> Vec<(RepoName, PushLine)> {
    let known = PushState::read(repos.record().common_dir(), &summary.session).repos.into_iter();
    known.map(|(name, remote)| (name.clone(), PushLine::new(repos.get(&name), summary, &name, remote))).collect()
}

/// The repositories of a session whose last push failed, each in a line.
pub fn failures(repo: &Repo, session: &SessionId) -> Vec<String> {
    let known = PushState::read(repo.common_dir(), session).repos.into_iter();
    let failed = known.filter_map(|(name, remote)| {
        let why = remote.failed?.why;
        Some(format!("{session}: the last push of `{name}` to {} failed: {why}", remote.remote))
    });
    failed.collect()
}

/// What the remote of a repository has.
pub struct PushLine {
    remote: RemoteState,
    /// How many commits of the session's branch it lacks; none if that cannot be counted.
    missing: Option<usize>,
    /// The name it has that branch under, if that is another one.
    beside: Option<String>,
}

impl PushLine {
    fn new(repo: Option<&Repo>, summary: &Summary, name: &RepoName, remote: RemoteState) -> Self {
        let here = summary.state.on_branches().get(name).copied();
        let branch = summary.started.branches.get(name).map(branch_ref);
        let there = branch.as_ref().and_then(|branch| remote.refs.get(branch).copied());
        let beside = branch.and_then(|branch| remote.beside.get(&branch).cloned());
        let from = there.or_else(|| summary.started.base.get(name).copied());
        let missing = match (here, from, repo) {
            (Some(here), Some(from), _) if here == from => Some(0),
            (Some(here), Some(from), Some(repo)) => count(repo, here, from),
            _ => None,
        };
        Self { remote, missing, beside }
    }

    /// In words.
    pub fn text(&self) -> String {
        let remote = &self.remote;
        let state = match self.missing {
            Some(0) => "pushed".to_owned(),
            Some(count) => format!("{} not pushed", counted(count, "commit")),
            None => "not all commits pushed".to_owned(),
        };
        let beside = self.beside.as_deref().map(|name| name.strip_prefix("refs/heads/").unwrap_or(name));
        let repos = listed(remote.waits_for.iter().map(|name| format!("`{name}`")), usize::MAX);
        let parts = [
            Some(state),
            beside.map(|name| format!("the branch is {name} there")),
            (!remote.waits_for.is_empty()).then(|| format!("the newest records wait for {repos}")),
            remote.failed.as_ref().map(|failed| format!("the last push failed: {}", failed.why)),
        ];
        format!("{} ({})", remote.remote, parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    /// As a document.
    pub fn json(&self, name: &RepoName) -> Value {
        let RemoteState { remote, refs, as_branches, beside, waits_for, failed } = &self.remote;
        json!({
            "repo": name, "remote": remote, "refs": refs, "records_as_branches": as_branches,
            "beside": beside, "waits_for": waits_for, "not_pushed": self.missing,
            "failed": failed.as_ref().map(|failed| json!({"at": failed.at, "why": failed.why})),
        })
    }
}

/// How many commits one has that another lacks.
fn count(repo: &Repo, here: CommitId, there: CommitId) -> Option<usize> {
    repo.history().symmetric_difference(here, there, (&|_| false, &|_| false)).ok().map(|[only, _]| only.len())
}
