//! One attempt to push.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{RemoteNames, holds_records};
use git::Repo;
use git::remote::{self, PushRef, PushReport, RefPush, RemoteError, RemoteUrl};
use os::process::Cancel;
use pleach_core::ids::{CommitId, RepoName, RunId};
use pleach_core::text::shell_word;

/// What is to be pushed.
pub(super) struct PushAttempt {
    pub repo_name: RepoName,
    pub repo: Repo,
    pub remote: RemoteUrl,
    pub run: RunId,
    /// The refs, by their names here.
    pub refs: BTreeMap<String, CommitId>,
    /// What the remote calls them.
    pub names: RemoteNames,
    /// Commits the remote has, whatever their branch has become there.
    pub known: BTreeSet<CommitId>,
    /// Branches are tried for records the remote refuses.
    pub may_try_branches: bool,
    /// The remote of the records, which is asked first whether another machine has continued the session.
    pub asked: Option<RecordsRemote>,
}

/// Where the records of a session are.
pub(super) struct RecordsRemote {
    pub repo: Repo,
    pub remote: RemoteUrl,
}

/// What came of it.
pub(super) struct PushResult {
    pub repo_name: RepoName,
    pub refs: BTreeMap<String, CommitId>,
    /// What the remote calls the refs.
    pub names: RemoteNames,
    /// What it was given.
    pub named: Vec<PushRef>,
    pub verdict: PushVerdict,
    /// Branches were tried for the records.
    pub tried_branches: bool,
}

/// How a push ended.
#[derive(Debug)]
pub(super) enum PushVerdict {
    /// The remote has everything.
    Done,
    /// Another machine has written to the session's record.
    Elsewhere,
    /// It failed.
    Failed { why: String, advice: String, is_silent: bool },
}

impl PushAttempt {
    /// Pushes, and waits for it.
    pub fn run(self, cancel: &Cancel) -> PushResult {
        let mut names = self.names.clone();
        if self.is_overtaken(cancel) {
            return self.ended(names, Vec::new(), PushVerdict::Elsewhere, false);
        }
        // Those the remote has to be given: it may have a commit without a branch that ends there.
        let mut given = self.refs.clone();
        let mut refused = None;
        loop {
            let named = names.named(&self.run, &given);
            if named.is_empty() {
                return self.ended(names, named, PushVerdict::Done, false);
            }
            let pushed = remote::push(&self.repo, &self.remote, &named, cancel);
            let has_changed = pushed.as_ref().is_ok_and(|report| self.pass_over_taken(&mut names, &mut given, report));
            if has_changed {
                continue;
            }
            let is_refused = pushed.as_ref().is_ok_and(|report| self.refuses_records(report));
            let verdict = self.verdict(pushed);
            if is_refused && self.may_try_branches && !names.as_branches {
                refused = Some((names.clone(), named, verdict));
                names.as_branches = true;
                continue;
            }
            return match (refused, verdict) {
                // What else it refuses is better told of the names that were asked for first.
                (Some((names, named, first)), PushVerdict::Failed { .. }) => self.ended(names, named, first, true),
                (refused, verdict) => self.ended(names, named, verdict, refused.is_some()),
            };
        }
    }

    fn ended(self, names: RemoteNames, named: Vec<PushRef>, verdict: PushVerdict, tried_branches: bool) -> PushResult {
        PushResult { repo_name: self.repo_name, refs: self.refs, names, named, verdict, tried_branches }
    }

    /// Whether another machine has continued the session. A remote that cannot be asked says nothing.
    fn is_overtaken(&self, cancel: &Cancel) -> bool {
        let Some(RecordsRemote { repo, remote }) = &self.asked else { return false };
        let records = remote::remote_records(repo, remote, &self.run.session, cancel);
        records.is_ok_and(|mut records| {
            // A replay elsewhere stands in nobody's way.
            records.retain(|context, _| self.run.has(context));
            remote::is_known(repo, &self.run.session, &records).is_ok_and(|known| !known)
        })
    }

    /// Branches that the remote has with other commits get another name, or are left out if it has their own commits as
    /// well. Records are never renamed: who has written to them has continued the session. Returns whether another try is
    /// worth it.
    fn pass_over_taken(
        &self,
        names: &mut RemoteNames,
        given: &mut BTreeMap<String, CommitId>,
        report: &PushReport,
    ) -> bool {
        let taken = names.taken(&self.run, &self.refs, report);
        if taken.iter().any(|(here, _)| holds_records(&self.run, here)) {
            return false;
        }
        let mut has_changed = false;
        for (here, commit) in taken {
            has_changed |=
                if self.known.contains(&commit) { given.remove(here).is_some() } else { names.move_on(here) };
        }
        has_changed
    }

    fn refuses_records(&self, report: &PushReport) -> bool {
        let is_refused = |result: &RefPush| matches!(result, RefPush::Refused { .. });
        report.refs.iter().any(|pushed| holds_records(&self.run, &pushed.name) && is_refused(&pushed.result))
    }

    fn verdict(&self, pushed: Result<PushReport, RemoteError>) -> PushVerdict {
        let report = match pushed {
            Ok(report) if report.is_done() => return PushVerdict::Done,
            Ok(report) => report,
            Err(error) => {
                let is_silent = matches!(error, RemoteError::Silent { .. } | RemoteError::Stopped { .. });
                let check = shell_word(self.remote.to_string());
                let advice = format!("check address, network and credentials with `git ls-remote {check}`");
                return PushVerdict::Failed { why: error.to_string().replace('\n', "; "), advice, is_silent };
            }
        };
        let mut others = report.refs.iter().filter(|pushed| pushed.result == RefPush::NonFastForward);
        if others.clone().any(|pushed| holds_records(&self.run, &pushed.name)) {
            return PushVerdict::Elsewhere;
        }
        let advice = match others.next() {
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
        };
        PushVerdict::Failed { why: report.why(), advice, is_silent: false }
    }
}
