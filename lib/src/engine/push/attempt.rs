//! One attempt to push.

use std::collections::BTreeMap;

use super::schedule::{PushSchedule, holds_records};
use crate::git::Repo;
use crate::git::remote::{self, PushRef, PushReport, RefPush, RemoteError, RemoteUrl};
use crate::ids::{CommitId, RepoName, SessionId};
use crate::process::Cancel;
use crate::text::shell_word;

/// What is to be pushed.
pub(super) struct PushAttempt {
    pub repo_name: RepoName,
    pub repo: Repo,
    pub remote: RemoteUrl,
    pub session: SessionId,
    /// The refs, by their names here.
    pub refs: BTreeMap<String, CommitId>,
    /// The same by their names there.
    pub named: Vec<PushRef>,
    /// The same with branches for records, which is tried if the remote refuses their refs.
    pub as_branches: Option<Vec<PushRef>>,
}

/// What came of it.
pub(super) struct PushResult {
    pub repo_name: RepoName,
    pub refs: BTreeMap<String, CommitId>,
    /// The names the remote was given.
    pub named: Vec<PushRef>,
    pub verdict: PushVerdict,
    /// Branches were tried for the records.
    pub tried_branches: bool,
}

/// How a push ended.
#[derive(Debug)]
pub(super) enum PushVerdict {
    /// The remote has everything; `as_branches` if it took records only as branches.
    Done { as_branches: bool },
    /// Another machine has written to the session's record.
    Elsewhere,
    /// It failed.
    Failed { why: String, advice: String, is_silent: bool },
}

impl PushAttempt {
    pub fn new(
        (repo_name, repo): (&RepoName, &Repo),
        remote: &RemoteUrl,
        session: &SessionId,
        schedule: &mut PushSchedule,
        may_try_branches: bool,
    ) -> Self {
        let refs = schedule.pending();
        let named = schedule.named(session, &refs);
        let has_records = named.iter().any(|pushed| holds_records(session, &pushed.name));
        let as_branches = (may_try_branches && !schedule.as_branches && has_records).then(|| {
            schedule.as_branches = true;
            let named = schedule.named(session, &refs);
            schedule.as_branches = false;
            named
        });
        let (repo_name, repo, remote, session) = (repo_name.clone(), repo.clone(), remote.clone(), session.clone());
        Self { repo_name, repo, remote, session, refs, named, as_branches }
    }

    /// Pushes, and waits for it.
    pub fn run(self, cancel: &Cancel) -> PushResult {
        let first = remote::push(&self.repo, &self.remote, &self.named, cancel);
        let refuses_records = first.as_ref().is_ok_and(|report| {
            let is_refused = |result: &RefPush| matches!(result, RefPush::Refused { .. });
            report.refs.iter().any(|pushed| holds_records(&self.session, &pushed.name) && is_refused(&pushed.result))
        });
        let (mut named, mut tried_branches) = (self.named.clone(), false);
        let mut verdict = self.verdict(first, false);
        if let Some(as_branches) = self.as_branches.as_ref().filter(|_| refuses_records) {
            tried_branches = true;
            let second = self.verdict(remote::push(&self.repo, &self.remote, as_branches, cancel), true);
            // What else it refuses is better told of the names that were asked for first.
            if !matches!(second, PushVerdict::Failed { .. }) {
                (verdict, named) = (second, as_branches.clone());
            }
        }
        PushResult { repo_name: self.repo_name, refs: self.refs, named, verdict, tried_branches }
    }

    fn verdict(&self, pushed: Result<PushReport, RemoteError>, as_branches: bool) -> PushVerdict {
        let report = match pushed {
            Ok(report) if report.is_done() => return PushVerdict::Done { as_branches },
            Ok(report) => report,
            Err(error) => {
                let is_silent = matches!(error, RemoteError::Silent { .. } | RemoteError::Stopped { .. });
                let check = shell_word(self.remote.to_string());
                let advice = format!("check address, network and credentials with `git ls-remote {check}`");
                return PushVerdict::Failed { why: error.to_string().replace('\n', "; "), advice, is_silent };
            }
        };
        let is_other = |name: &str| {
            let found = report.refs.iter().find(|pushed| pushed.name == name);
            found.is_some_and(|pushed| pushed.result == RefPush::NonFastForward)
        };
        let mut others = report.refs.iter().map(|pushed| pushed.name.as_str()).filter(|name| is_other(name));
        let advice = match others.find(|name| holds_records(&self.session, name)) {
            Some(_) => return PushVerdict::Elsewhere,
            None => match report.refs.iter().find(|pushed| is_other(&pushed.name)) {
                Some(other) => {
                    let (remote, name) = (shell_word(self.remote.to_string()), shell_word(&other.name));
                    format!("somebody else has pushed there; `git fetch {remote} {name}` gets what they have")
                }
                None if report.refs.iter().any(|pushed| matches!(pushed.result, RefPush::Busy { .. })) => {
                    "check the disk and the permissions of the remote".to_owned()
                }
                None => {
                    let repo = &self.repo_name;
                    format!("allow it at the remote, or set `workspace.repos.{repo}.push: never`")
                }
            },
        };
        PushVerdict::Failed { why: report.why(), advice, is_silent: false }
    }
}
