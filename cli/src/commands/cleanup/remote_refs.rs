//! Branches and records that removed sessions have at remotes.

use std::collections::BTreeMap;

use engine::view::Summary;
use git::Repo;
use git::remote::{self, PushRef, RefPush, RemoteUrl};
use git::workspace::own_name;
use os::process::Cancel;
use pleach_core::event::{CleanedItem, CleanedKind};
use pleach_core::ids::{CommitId, RepoName, SessionId};

use super::item::item;
use super::report::Report;
use crate::failure::Failure;
use crate::lib_errors::of_git;
use crate::place::{Place, Places};
use crate::remotes::known_remote;
use crate::settings::Settings;

/// Where the refs of records are in a repository, and at a remote that takes them.
const RECORDS: &str = "refs/pleach/sessions/";

/// Where they are at a remote that only takes branches.
const RECORD_BRANCHES: &str = "refs/heads/pleach/records/";

/// What removed sessions have at remotes.
pub struct RemoteRefs<'a> {
    settings: &'a Settings,
    workspace: &'a Places,
    /// What is at the remotes, asked once.
    listed: BTreeMap<RepoName, Option<RemoteListing>>,
    planned: Vec<RemoteRef>,
}

/// What a remote has.
#[derive(Clone)]
struct RemoteListing {
    remote: RemoteUrl,
    refs: BTreeMap<String, CommitId>,
}

/// A ref at the remote of a repository.
pub struct RemoteRef {
    place: Place,
    remote: RemoteUrl,
    session: SessionId,
    kind: CleanedKind,
    at: PushRef,
}

impl<'a> RemoteRefs<'a> {
    pub fn new(settings: &'a Settings, workspace: &'a Places) -> Self {
        Self { settings, workspace, listed: BTreeMap::new(), planned: Vec::new() }
    }

    /// The refs a session has at the remotes of its repositories, before it is removed here. One with commits that are not
    /// here stays.
    pub fn of_session(
        &mut self,
        record: &Place,
        summary: &Summary,
        report: &mut Report,
    ) -> Result<Vec<RemoteRef>, Failure> {
        let mut found = Vec::new();
        for repo_work in summary.repos() {
            let is_record = repo_work.repo == summary.started.record_repo();
            let other = || self.workspace.all().find(|place| place.name == *repo_work.repo);
            let Some(place) = if is_record { Some(record) } else { other() }.cloned() else { continue };
            let Some(RemoteListing { remote, refs }) = self.listed(&place)? else { continue };
            let branch = format!("refs/heads/{}", repo_work.branch);
            for (name, commit) in refs {
                let own = own_name(&name);
                let (kind, here) = if own == branch {
                    (CleanedKind::Branch, repo_work.work)
                } else if own.starts_with(&format!("{branch}--")) {
                    (CleanedKind::Branch, find(&place.repo, own)?)
                } else if let Some(context) = context_of(&name, &summary.session).filter(|_| is_record) {
                    (CleanedKind::Record, find(&place.repo, &format!("{RECORDS}{}/{context}", summary.session))?)
                } else {
                    continue;
                };
                // A commit that is not here leads to none that is.
                let is_known = here.is_some_and(|here| place.repo.history().is_ancestor(commit, here).unwrap_or(false));
                if !is_known {
                    let why = format!("{remote} has commits there that are not here");
                    report.stays_by_rule(&name, &place, why)?;
                    continue;
                }
                let (place, session) = (place.clone(), summary.session.clone());
                found.push(RemoteRef { place, remote: remote.clone(), session, kind, at: PushRef { name, commit } });
            }
        }
        Ok(found)
    }

    /// The session they are of was removed.
    pub fn add(&mut self, refs: Vec<RemoteRef>) {
        self.planned.extend(refs);
    }

    /// Deletes them. What fails is a warning.
    pub fn delete(self, report: &mut Report) -> Result<(), Failure> {
        let mut by_place: BTreeMap<RepoName, Vec<RemoteRef>> = BTreeMap::new();
        for planned in self.planned {
            by_place.entry(planned.place.name.clone()).or_default().push(planned);
        }
        for refs in by_place.into_values() {
            let failed = if report.is_dry_run() { BTreeMap::new() } else { delete_all(&refs) };
            for RemoteRef { place, remote, session, kind, at } in refs {
                match failed.get(&at.name) {
                    Some(why) => {
                        warning!(NotRemoved, "{} stays at {remote}: {why}", at.name);
                        report.left(&at.name, &place, format!("{remote}: {why}"));
                    }
                    None => {
                        let item = item(kind, at.name.clone(), &place);
                        let (session, commit, remote) = (Some(session), Some(at.commit), Some(remote.to_string()));
                        report.removed(&at.name, CleanedItem { session, commit, remote, ..item })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What the remote of a repository has. One that cannot be asked is a warning.
    fn listed(&mut self, place: &Place) -> Result<Option<RemoteListing>, Failure> {
        if let Some(known) = self.listed.get(&place.name) {
            return Ok(known.clone());
        }
        let listed = match known_remote(self.settings, place)? {
            None => None,
            Some(remote) => {
                let branches = format!("refs/heads/{}*", place.branch_prefix);
                let (records, as_branches) = (format!("{RECORDS}*"), format!("{RECORD_BRANCHES}*"));
                let patterns = [branches.as_str(), &records, &as_branches];
                let environment = &self.settings.own_environment;
                match remote::list_refs(&remote, &patterns, environment, &Cancel::never()) {
                    Ok(refs) => Some(RemoteListing { remote, refs }),
                    Err(error) => {
                        let why = error.to_string().replace('\n', "; ");
                        warning!(NotRemoved, "nothing is removed from {remote}, the remote of `{}`: {why}", place.name);
                        None
                    }
                }
            }
        };
        self.listed.insert(place.name.clone(), listed.clone());
        Ok(listed)
    }
}

fn find(repo: &Repo, name: &str) -> Result<Option<CommitId>, Failure> {
    repo.refs().find(name).map_err(|error| of_git(&error))
}

/// The context whose records a ref at a remote has.
fn context_of<'a>(name: &'a str, session: &SessionId) -> Option<&'a str> {
    let own = name.strip_prefix(RECORDS).and_then(|name| name.strip_prefix(session.as_str())?.strip_prefix('/'));
    own.or_else(|| name.strip_prefix(RECORD_BRANCHES)?.strip_prefix(session.as_str())?.strip_prefix("--"))
}

/// Deletes the refs of one repository. Returns those that stay, with why.
fn delete_all(refs: &[RemoteRef]) -> BTreeMap<String, String> {
    let Some(first) = refs.first() else { return BTreeMap::new() };
    let at: Vec<PushRef> = refs.iter().map(|planned| planned.at.clone()).collect();
    match remote::delete_refs(&first.place.repo, &first.remote, &at, &Cancel::never()) {
        Ok(report) => {
            let said = report.words.replace('\n', "; ");
            let failed = report.refs.into_iter().filter_map(|gone| {
                let why = match gone.result {
                    RefPush::Pushed | RefPush::UpToDate => return None,
                    RefPush::NonFastForward => "it has moved meanwhile".to_owned(),
                    RefPush::Refused { why } | RefPush::Busy { why } if said.is_empty() => why,
                    RefPush::Refused { why } | RefPush::Busy { why } => format!("{why}; {said}"),
                    RefPush::WithOthers => said.clone(),
                };
                Some((gone.name, why))
            });
            failed.collect()
        }
        Err(error) => {
            let why = error.to_string().replace('\n', "; ");
            at.into_iter().map(|gone| (gone.name, why.clone())).collect()
        }
    }
}
