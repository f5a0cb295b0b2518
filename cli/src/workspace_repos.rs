//! The repositories of the workspace and their remotes, as the settings have them.

use std::path::{Path, PathBuf};

use engine::trust::for_workspace;
use git::Repo;
use git::remote::RemoteUrl;
use pleach_core::config::{Config, RepoSettings};
use pleach_core::ids::RepoName;

use crate::code::Code;
use crate::failure::Failure;
use crate::lib_errors::of_git;
use crate::settings::Settings;
use crate::trust::is_approved;

/// A repository of the workspace, as the settings have it.
pub type Configured<'a> = (&'a RepoName, &'a RepoSettings);

/// The repository of the workspace that holds the records; none without a workspace.
pub fn record_repo(settings: &Settings) -> Option<Configured<'_>> {
    let config = &settings.resolved.config;
    let repos = &config.workspace.repos;
    config.record.repo.as_ref().and_then(|name| repos.get_key_value(name)).or_else(|| repos.iter().next())
}

/// The remote of a repository, if it has one.
pub fn remote_of(config: &Config, name: &RepoName) -> Result<Option<RemoteUrl>, Failure> {
    let text = config.workspace.repos.get(name).and_then(|repo| repo.remote.as_deref());
    text.map(|text| url(config, name, text)).transpose()
}

pub fn url(config: &Config, name: &RepoName, text: &str) -> Result<RemoteUrl, Failure> {
    RemoteUrl::new(text, &config.root).map_err(|why| {
        Failure::new(Code::RemoteInvalid, format!("`workspace.repos.{name}.remote` is not an address: {why}"))
            .hint("write it as `git clone` takes it: https://HOST/PATH, git@HOST:PATH, or a path")
    })
}

/// Lets a shallow clone fetch the history it lacks from its remote, if that was approved and the command works.
pub fn deepen_on_demand(settings: &Settings, name: &RepoName, repo: &Repo) -> Result<(), Failure> {
    if !settings.may_deepen {
        return Ok(());
    }
    let Some(remote) = remote_of(&settings.resolved.config, name)? else { return Ok(()) };
    if !repo.history().is_shallow().map_err(|error| of_git(&error))? {
        return Ok(());
    }
    let Some(path) = record_repo(settings).and_then(|(_, repo)| repo.path.as_ref()) else { return Ok(()) };
    let items = for_workspace(&settings.resolved, &settings.environment);
    if is_approved(settings, &asked_for(settings, path), items)? {
        repo.deepen_from(remote);
    }
    Ok(())
}

/// The repository approvals are kept for: the common git directory of that of the records, or where that will be.
pub fn asked_for(settings: &Settings, record: &Path) -> PathBuf {
    match git::discover(record, &settings.own_environment) {
        Ok(repo) => repo.common_dir().to_owned(),
        Err(_) => without_links(record).join(".git"),
    }
}

/// A path that may not be there yet, without links in the part that is.
fn without_links(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let real = there.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    real.unwrap_or_else(|| path.to_owned())
}

/// Whether a repository can be cloned to a path: nothing is there, or an empty directory.
pub fn is_missing(path: &Path) -> bool {
    match path.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => path.symlink_metadata().is_err(),
    }
}
