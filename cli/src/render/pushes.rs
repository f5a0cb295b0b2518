//! What the remotes of a session have, as `status` shows it.

use engine::env::SessionRepos;
use engine::view::Summary;
use git::Repo;
use git::record::SESSIONS;
use git::workspace::{FailedPush, PushState, RemoteState, branch_ref};
use pleach_core::ids::{CommitId, RepoName, RunId};
use pleach_core::text::{counted, listed};
use serde_json::{Value, json};

/// The pushes of a session in these repositories. None for one that is not pushed.
pub fn of(repos: &SessionRepos, summary: &Summary) -> Vec<(RepoName, PushLine)> {
    let known = PushState::read(repos.record().common_dir(), &summary.run).repos.into_iter();
    known.map(|(name, remote)| (name.clone(), PushLine::new(repos.get(&name), summary, &name, remote))).collect()
}

/// The repositories of a session whose last push failed, each in a line. What its remote has by now is forgotten.
pub fn failures(repo: &Repo, session: &RunId, find: impl Fn(&RepoName) -> Option<Repo>) -> Vec<String> {
    let known =
        PushState::read(repo.common_dir(), session).repos.into_iter().filter(|(_, known)| known.failed.is_some());
    let failed = known.filter_map(|(name, remote)| {
        let why = remote.open_failure(find(&name).as_ref(), &name)?.why.clone();
        let (what, to) = (format!("{session}: the last push of `{name}`"), remote.remote);
        Some(format!("{what} to {to} failed: {why}; `pleach push {session}` makes up for it"))
    });
    failed.collect()
}

/// What the remote of a repository has.
pub struct PushLine {
    remote: RemoteState,
    /// The last push, if it failed and the remote lacks what it was to bring.
    failed: Option<FailedPush>,
    /// How many commits of the session's branch it lacks; none if that cannot be counted.
    missing: Option<usize>,
    /// It has records of the session, and lacks newer ones.
    lacks_records: bool,
    /// The name it has that branch under, if that is another one.
    beside: Option<String>,
}

impl PushLine {
    fn new(repo: Option<&Repo>, summary: &Summary, name: &RepoName, remote: RemoteState) -> Self {
        let here = summary.state.on_branches().get(name).copied();
        let branch = summary.started.branches.get(name).map(branch_ref);
        let there = branch.as_ref().and_then(|branch| remote.refs.get(branch).copied());
        let beside = branch.as_ref().and_then(|branch| remote.beside.get(branch).cloned());
        let from = there.or_else(|| summary.started.base.get(name).copied());
        let has = |commit: CommitId| {
            let refs = branch.clone().map(|branch| (branch, commit)).into_iter().collect();
            repo.is_some_and(|repo| remote.has(repo, name, &refs))
        };
        let missing = match (here, from, repo) {
            (Some(here), Some(from), _) if here == from => Some(0),
            (Some(here), ..) if has(here) => Some(0),
            (Some(here), Some(from), Some(repo)) => count(repo, here, from),
            _ => None,
        };
        let failed = remote.open_failure(repo, name).cloned();
        let lacks_records = lacks_records(repo, &summary.run, &remote);
        Self { remote, failed, missing, lacks_records, beside }
    }

    /// Whether the remote has everything, as far as is known here.
    pub fn is_whole(&self) -> bool {
        self.missing == Some(0) && !self.lacks_records && !self.has_failed()
    }

    /// Whether it lacks something because the last push failed, or because records wait for another remote.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some() || !self.remote.waits_for.is_empty()
    }

    /// In words.
    pub fn text(&self) -> String {
        let remote = &self.remote;
        let state = match self.missing {
            Some(0) if self.failed.is_some() => "not all records pushed".to_owned(),
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
            self.failed.as_ref().map(|failed| format!("the last push failed: {}", failed.why)),
        ];
        format!("{} ({})", remote.remote, parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    /// As a document.
    pub fn json(&self, name: &RepoName) -> Value {
        let RemoteState { remote, refs, as_branches, beside, waits_for, .. } = &self.remote;
        json!({
            "repo": name, "remote": remote, "refs": refs, "records_as_branches": as_branches,
            "beside": beside, "waits_for": waits_for, "not_pushed": self.missing,
            "failed": self.failed.as_ref().map(|failed| json!({"at": failed.at, "why": failed.why})),
        })
    }
}

/// How many commits one has that another lacks.
fn count(repo: &Repo, here: CommitId, there: CommitId) -> Option<usize> {
    repo.history().symmetric_difference(here, there, (&|_| false, &|_| false)).ok().map(|[only, _]| only.len())
}

/// Whether a remote that has records of a session lacks newer ones.
fn lacks_records(repo: Option<&Repo>, run: &RunId, remote: &RemoteState) -> bool {
    let prefix = format!("{SESSIONS}{}/", run.session);
    let is_own = |name: &str| {
        name.strip_prefix(&prefix).and_then(|context| context.parse().ok()).is_some_and(|context| run.has(&context))
    };
    if !remote.refs.keys().any(|name| is_own(name)) {
        return false;
    }
    let here = repo.map(|repo| repo.refs().list(&prefix).unwrap_or_default()).unwrap_or_default();
    here.iter().filter(|(name, _)| is_own(name)).any(|(name, commit)| remote.refs.get(name) != Some(commit))
}
