//! The remote of one repository of a session, with what is to be pushed there.

use std::collections::BTreeMap;

use super::attempt::{PushAttempt, RecordsRemote};
use super::backlog::Transition;
use super::names::RemoteNames;
use super::schedule::PushSchedule;
use crate::env::{Engine, SessionRepos};
use git::Repo;
use git::remote::{RemoteUrl, default_push_url, fetched_branches};
use git::workspace::{FailedPush, PushState, RemoteState, own_name};
use os::process::Cancel;
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::{CommitId, RepoName, RunId};

/// What is pushed.
#[derive(Debug)]
pub(crate) struct PushSource<'a> {
    pub run: &'a RunId,
    /// The repositories of the session.
    pub repos: &'a SessionRepos,
    /// Stops the session.
    pub cancel: &'a Cancel,
}

/// The remote of one repository.
pub(super) struct RemoteQueue {
    pub repo: Repo,
    pub remote: RemoteUrl,
    pub schedule: PushSchedule,
    pub in_flight: bool,
    /// The remote does not take records as branches either.
    pub tried_branches: bool,
    pub failed: Option<FailedPush>,
    /// The last warning: the same is not repeated.
    pub warned: Option<String>,
    /// The branches it had when it was last cloned or fetched.
    branches: Vec<(String, CommitId)>,
}

impl RemoteQueue {
    /// A ref is at this commit from this transition on.
    pub fn note(&mut self, name: String, commit: CommitId, transition: Transition) {
        if self.schedule.is_new(&name) && self.is_there(&name, commit) {
            self.schedule.known.insert(commit);
        }
        self.schedule.note(name, commit, transition);
    }

    /// Whether the remote is known to have a commit: one of its branches ends there, or the branch itself has gone on from
    /// it.
    fn is_there(&self, name: &str, commit: CommitId) -> bool {
        let history = self.repo.history();
        let may_ask = || history.is_shallow().is_ok_and(|is_shallow| !is_shallow);
        let has_passed = |(there, at): &(String, CommitId)| {
            own_name(there) == name && history.is_ancestor(commit, *at).unwrap_or_default()
        };
        self.branches.iter().any(|(_, at)| *at == commit) || may_ask() && self.branches.iter().any(has_passed)
    }

    /// A push of what is due.
    pub fn attempt(&self, name: &RepoName, run: &RunId, asked: Option<RecordsRemote>) -> PushAttempt {
        PushAttempt {
            repo_name: name.clone(),
            repo: self.repo.clone(),
            remote: self.remote.clone(),
            run: run.clone(),
            refs: self.schedule.pending(),
            names: self.schedule.names.clone(),
            known: self.schedule.known.clone(),
            may_try_branches: !self.tried_branches,
            asked,
        }
    }

    /// What is kept of it.
    pub fn state(&self, waits_for: Vec<RepoName>) -> RemoteState {
        RemoteState {
            remote: self.remote.to_string(),
            refs: self.schedule.there.clone(),
            as_branches: self.schedule.names.as_branches,
            beside: self.schedule.names.beside.clone(),
            waits_for,
            failed: self.failed.clone(),
        }
    }
}

/// The remotes of a session's repositories that something is pushed to.
pub(super) fn remotes(engine: &Engine, source: &PushSource<'_>) -> (BTreeMap<RepoName, RemoteQueue>, Vec<Warning>) {
    let settings = &engine.push;
    let mut known = PushState::read(source.repos.record().common_dir(), source.run);
    let (mut found, mut warnings) = (BTreeMap::new(), Vec::new());
    for (name, repo) in source.repos.iter() {
        let policies = settings.policies(name, name == source.repos.record_name());
        if policies.is_never() {
            continue;
        }
        let configured = settings.repos.get(name).and_then(|repo| repo.remote.clone());
        let Some(remote) = configured.or_else(|| default_push_url(repo).ok().flatten()) else {
            let text = format!(
                "`{name}` is not pushed: it has no remote; set `workspace.repos.{name}.remote`, or its `push` to `never`"
            );
            warnings.push(WarningCode::PushFailed.with(text));
            continue;
        };
        let mut schedule = PushSchedule::new(policies, settings.interval);
        let known = known.repos.remove(name).filter(|known| known.remote == remote.to_string()).unwrap_or_default();
        schedule.there = known.refs;
        schedule.names = RemoteNames { as_branches: known.as_branches, beside: known.beside };
        let queue = RemoteQueue {
            repo: repo.clone(),
            // What cannot be read is pushed once more.
            branches: fetched_branches(repo, name, &remote.to_string()).unwrap_or_default(),
            remote,
            schedule,
            in_flight: false,
            tried_branches: false,
            failed: known.failed,
            warned: None,
        };
        found.insert(name.clone(), queue);
    }
    (found, warnings)
}
