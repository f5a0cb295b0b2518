//! The remotes of a workspace: cloned or fetched before a session starts, pushed to while it runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use engine::env::{PushSettings, RepoPush};
use engine::session::SessionRepo;
use engine::trust::for_workspace;
use git::Head;
use git::remote::{self, CloneRequest, RemoteError, RemoteUrl, fetched_branches};
use git::workspace::{StartPoint, is_unrelated, start_point, upstream};
use os::process::Cancel;
use pleach_core::config::{Config, PushPolicy, RecordPush, RepoSettings};
use pleach_core::event::{Event, FetchedStart, RepoCloned, RepoFetched};
use pleach_core::ids::{BranchName, RepoName};

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_git;
use crate::place::{Place, Places};
use crate::runtime::until_signal;
use crate::settings::Settings;
use crate::trust::{TerminalTruster, is_approved};
use crate::workspace_repos::{asked_for, is_missing, record_repo, remote_of, url};

/// The remote people push to: the configured one, once the user has approved it, else that of the branch that is checked
/// out, else `origin`.
pub fn approved_remote(globals: &Globals, settings: &Settings, place: &Place) -> Result<Option<RemoteUrl>, Failure> {
    let Some(remote) = remote_of(&settings.resolved.config, &place.name)? else {
        return remote::default_push_url(&place.repo).map_err(|error| of_git(&error));
    };
    if let Some(path) = record_repo(settings).and_then(|(_, repo)| repo.path.as_ref()) {
        approve(globals, settings, path)?;
    }
    Ok(Some(remote))
}

/// The same where there has to be one.
pub fn remote_to_push(globals: &Globals, settings: &Settings, place: &Place) -> Result<RemoteUrl, Failure> {
    approved_remote(globals, settings, place)?.ok_or_else(|| {
        let message = format!("the repository `{}` has no remote to push to", place.name);
        let hint = format!("set `workspace.repos.{}.remote`, or add one with `git remote add origin URL`", place.name);
        Failure::new(Code::NoRemote, message).hint(hint)
    })
}

/// The remote of a repository that needs no approval any more: the configured one if it was approved, else the one people
/// push to.
pub fn known_remote(settings: &Settings, place: &Place) -> Result<Option<RemoteUrl>, Failure> {
    let Some(remote) = remote_of(&settings.resolved.config, &place.name)? else {
        return remote::default_push_url(&place.repo).map_err(|error| of_git(&error));
    };
    let Some(path) = record_repo(settings).and_then(|(_, repo)| repo.path.as_ref()) else { return Ok(Some(remote)) };
    let items = for_workspace(&settings.resolved, &settings.environment);
    if is_approved(settings, &asked_for(settings, path), items)? {
        return Ok(Some(remote));
    }
    warning!(RepoUnavailable, "{remote}, the remote of `{}`, is left out: it was not approved yet", place.name);
    Ok(None)
}

/// What is pushed where, and when.
pub fn push_settings(config: &Config) -> Result<PushSettings, Failure> {
    let mut push = PushSettings {
        interval: Duration::from_secs(config.record.push_interval),
        records: config.record.push,
        ..PushSettings::default()
    };
    for (name, repo) in &config.workspace.repos {
        let remote = repo.remote.as_deref().map(|text| url(config, name, text)).transpose()?;
        push.repos.insert(name.clone(), RepoPush { remote, policy: repo.push_policy() });
    }
    Ok(push)
}

/// A checkpoint that is pushed without its record helps nobody to continue.
pub fn warn_of_unpushed_records(globals: &Globals, config: &Config) {
    let is_pushed = |repo: &RepoSettings| repo.push_policy() == PushPolicy::OnCheckpoint;
    let is_kept_here = config.record.push == RecordPush::Never && config.record.cxdb.is_none();
    let mut names = config.workspace.repos.iter().filter(|(_, repo)| is_pushed(repo)).map(|(name, _)| name);
    if let Some(name) = names.next().filter(|_| is_kept_here && globals.verbosity >= 0) {
        warning!(
            RecordsNotPushed,
            "`{name}` is pushed at every checkpoint, but its records are not (`record.push: never`): no other machine can \
             continue the session"
        );
    }
}

/// Clones the repositories of the workspace that are not there yet, once the user has approved where they come from.
/// Returns which were cloned.
pub fn clone_missing(globals: &Globals, settings: &Settings) -> Result<BTreeSet<RepoName>, Failure> {
    let config = &settings.resolved.config;
    let mut cloned = BTreeSet::new();
    if config.workspace.repos.values().all(|repo| repo.remote.is_none()) {
        return Ok(cloned);
    }
    let Some(record) = record_repo(settings).and_then(|(_, repo)| repo.path.as_ref()) else { return Ok(cloned) };
    approve(globals, settings, record)?;
    for (name, repo) in &config.workspace.repos {
        let (Some(path), Some(remote)) = (&repo.path, remote_of(config, name)?) else { continue };
        if is_missing(path) {
            // What was cloned before may have brought a link that leads elsewhere.
            approve(globals, settings, record)?;
            clone(globals, settings, name, CloneRequest { remote: &remote, path, depth: repo.clone_depth })?;
            cloned.insert(name.clone());
        }
    }
    Ok(cloned)
}

/// Asks for approval of remotes and paths that came with the project, in the name of the repository of the records, as
/// everything else is asked.
fn approve(globals: &Globals, settings: &Settings, record: &Path) -> Result<(), Failure> {
    let items = for_workspace(&settings.resolved, &settings.environment);
    TerminalTruster::of(globals, settings, &asked_for(settings, record)).require(items)
}

fn clone(globals: &Globals, settings: &Settings, name: &RepoName, request: CloneRequest<'_>) -> Result<(), Failure> {
    let (remote, path) = (request.remote, request.path.display());
    if globals.verbosity >= 0 && !globals.json {
        say!("cloning `{name}` from {remote} to {path}");
    }
    let hint = format!("check `workspace.repos.{name}.remote`, the network and your credentials");
    until_signal(|cancel| remote::clone(&request, &settings.own_environment, cancel))?
        .map_err(|error| not_cloned(&error, format!("cannot clone `{name}` from {remote}: {error}"), &hint))
}

/// A clone that failed for this reason, or was stopped.
pub fn not_cloned(error: &RemoteError, failed: String, hint: &str) -> Failure {
    match error {
        RemoteError::Stopped { remote } => {
            Failure::new(Code::CloneStopped, format!("the clone of {remote} was stopped; nothing of it is left"))
                .hint("run the same command again")
        }
        _ => Failure::new(Code::CloneFailed, failed).hint(hint),
    }
}

/// Where a session starts in a repository.
#[derive(Debug)]
pub struct SessionStart<'a> {
    /// The repository.
    pub place: &'a Place,
    /// The commit, and the branch its work is for.
    pub at: Head,
    /// How the repository came to it, if it was cloned or fetched.
    arrival: Option<Event>,
}

impl SessionStart<'_> {
    /// The repository as a session is started in it.
    pub fn to_repo(&self) -> SessionRepo {
        SessionRepo { at: Some(self.at.clone()), arrival: self.arrival.clone(), ..self.place.to_start() }
    }
}

/// Where a session starts in each repository, that of the records first: those with a remote that were not just `cloned`
/// are fetched first.
pub fn fetched_starts<'a>(
    globals: &Globals,
    settings: &Settings,
    places: &'a Places,
    cloned: &BTreeSet<RepoName>,
) -> Result<Vec<SessionStart<'a>>, Failure> {
    let start = |place: &'a Place| fetched_start(globals, settings, place, cloned.contains(&place.name));
    places.all().map(start).collect()
}

/// Where a session starts in each repository if nothing is fetched: at what is checked out.
pub fn local_starts(places: &Places) -> Result<Vec<SessionStart<'_>>, Failure> {
    places.all().map(local_start).collect()
}

fn local_start(place: &Place) -> Result<SessionStart<'_>, Failure> {
    let at = place.repo.head().map_err(|error| of_git(&error))?;
    Ok(SessionStart { place, at, arrival: None })
}

fn fetched_start<'a>(
    globals: &Globals,
    settings: &Settings,
    place: &'a Place,
    is_cloned: bool,
) -> Result<SessionStart<'a>, Failure> {
    let Place { repo, name, .. } = place;
    let (config, here) = (&settings.resolved.config, local_start(place)?);
    let Some(remote) = remote_of(config, name)? else { return Ok(here) };
    let (repo_name, shown, extra) = (name.clone(), remote.to_string(), Default::default());
    if is_cloned {
        let depth = config.workspace.repos.get(name).and_then(|repo| repo.clone_depth);
        let event = RepoCloned { repo: repo_name, remote: shown, commit: here.at.commit, depth, extra };
        return Ok(SessionStart { arrival: Some(event.into()), ..here });
    }
    let branch = upstream(repo, &here.at).map_err(|error| of_git(&error))?;
    if let Err(error) = remote::fetch(repo, name, &remote, branch.as_ref().map(BranchName::as_str), &Cancel::never()) {
        let why = error.to_string().replace('\n', "; ");
        warning!(
            FetchFailed,
            "cannot fetch `{name}` from {remote}: {why}; the session starts from what is here; check the network and \
             your credentials"
        );
        return Ok(here);
    }
    let start = start_point(repo, name, &here.at).map_err(|error| of_git(&error))?;
    if matches!(start.why, FetchedStart::Diverged | FetchedStart::NoUpstream) {
        refuse_unrelated(place, &remote, &here.at)?;
    }
    if globals.verbosity >= 0 && !globals.json {
        say!("{}", explained(name, &remote, &start));
    }
    let event = RepoFetched { repo: repo_name, remote: shown, commit: start.commit, start: start.why, extra };
    let at = Head { commit: start.commit, ..here.at };
    Ok(SessionStart { place, at, arrival: Some(event.into()) })
}

/// Refuses a repository that has nothing to do with the remote it would be pushed to, which is asked for its branches the
/// first time.
pub fn require_related(settings: &Settings, place: &Place) -> Result<(), Failure> {
    let (config, Place { repo, name, .. }) = (&settings.resolved.config, place);
    let is_pushed = config.workspace.repos.get(name).is_some_and(|repo| repo.push_policy() != PushPolicy::Never);
    let Some(remote) = remote_of(config, name)?.filter(|_| is_pushed) else { return Ok(()) };
    let at = repo.head().map_err(|error| of_git(&error))?;
    let known = fetched_branches(repo, name, &remote.to_string()).map_err(|error| of_git(&error))?;
    if known.is_empty() {
        // A remote that does not answer takes no push either.
        let _ = remote::fetch(repo, name, &remote, at.branch.as_ref().map(BranchName::as_str), &Cancel::never());
    }
    refuse_unrelated(place, &remote, &at)
}

/// Nothing of an unrelated repository may be pushed.
fn refuse_unrelated(Place { repo, name, .. }: &Place, remote: &RemoteUrl, at: &Head) -> Result<(), Failure> {
    if !is_unrelated(repo, name, remote, at).map_err(|error| of_git(&error))? {
        return Ok(());
    }
    let dir = repo.workdir().unwrap_or(repo.git_dir()).display();
    let message = format!("the repository at `{dir}` has no commit in common with {remote}, the remote of `{name}`");
    let hint = format!("correct `workspace.repos.{name}.path` or `workspace.repos.{name}.remote`");
    Err(Failure::new(Code::UnrelatedRepository, message).hint(hint))
}

/// Where a session starts and why, in a line.
fn explained(name: &RepoName, remote: &RemoteUrl, start: &StartPoint) -> String {
    let at = start.commit.short();
    let theirs = match &start.upstream {
        Some(branch) => format!("`{branch}` of {remote}"),
        None => remote.to_string(),
    };
    match start.why {
        FetchedStart::Same => format!("fetched `{name}`: HEAD is up to date with {theirs}"),
        FetchedStart::Upstream => {
            format!("fetched `{name}`: the session starts at {at}, {theirs}, which is ahead of HEAD")
        }
        FetchedStart::Ahead => {
            format!("fetched `{name}`: the session starts at HEAD, {at}, which is ahead of {theirs}")
        }
        FetchedStart::Diverged => {
            format!("fetched `{name}`: the session starts at HEAD, {at}, which has diverged from {theirs}")
        }
        FetchedStart::NoUpstream => {
            format!("fetched `{name}`: the session starts at HEAD, {at}, which has no branch at {theirs}")
        }
    }
}
