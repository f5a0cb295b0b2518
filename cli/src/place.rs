//! Where a command works: the repositories of the workspace, found through the settings.

use std::path::{Path, PathBuf};

use engine::env::SessionRepos;
use engine::session::SessionRepo;
use git::Repo;
use git::record::SESSIONS;
use git::workspace::{repo_name, target_of};
use pleach_core::config::DEFAULT_BRANCH_PREFIX;
use pleach_core::event::PipelineStarted;
use pleach_core::ids::{BranchName, CommitId, RepoName};
use pleach_core::text::shell_word;

use crate::code::Code;
use crate::failure::Failure;
use crate::globals::no_directory;
use crate::lib_errors::{of_engine, of_git};
use crate::settings::Settings;
use crate::workspace_repos::{Configured, deepen_on_demand, is_missing, record_repo};

/// A repository and how a session uses it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The repository.
    pub repo: Repo,
    /// Its name in the workspace.
    pub name: RepoName,
    /// What session branches start with.
    pub branch_prefix: String,
}

impl Place {
    /// The repository a command works in: the one asked for, the one of the workspace that holds the records, or the one
    /// around `dir`.
    pub fn find(dir: &Path, asked: Option<PathBuf>, settings: &Settings) -> Result<Self, Failure> {
        match (asked, record_repo(settings)) {
            (Some(path), configured) => Self::asked(path, configured, settings),
            (None, Some(configured)) => {
                let place = Self::configured(configured, settings)?;
                place.warn_of_records_elsewhere(settings);
                Ok(place)
            }
            (None, None) => Self::open(dir, settings).map(Self::unnamed),
        }
    }

    /// A repository that joins the workspace may come first by its name, and then the records are looked for there.
    fn warn_of_records_elsewhere(&self, settings: &Settings) {
        let config = &settings.resolved.config;
        let has_records = |repo: &Repo| repo.refs().list(SESSIONS).is_ok_and(|refs| !refs.is_empty());
        if config.workspace.repos.len() < 2 || has_records(&self.repo) {
            return;
        }
        let others = config.workspace.repos.iter().filter(|(name, _)| **name != self.name);
        let mut others = others.filter_map(|(name, of)| Some((name, Self::open(of.path.as_ref()?, settings).ok()?)));
        if let Some((name, _)) = others.find(|(_, repo)| has_records(repo)) {
            warning!(
                RecordsElsewhere,
                "`{}` has no records of sessions, but `{name}` has: set `record.repo: {name}` to go on with those",
                self.name
            );
        }
    }

    /// The repository of a name in the workspace.
    pub fn named(name: &RepoName, settings: &Settings) -> Result<Self, Failure> {
        match settings.resolved.config.workspace.repos.get_key_value(name) {
            Some(configured) => Self::configured(configured, settings),
            None => Err(no_such_repo(name)),
        }
    }

    /// A path that was given. A workspace of one repository lends it its name.
    fn asked(path: PathBuf, configured: Option<Configured<'_>>, settings: &Settings) -> Result<Self, Failure> {
        let repo = Self::open(&path, settings)?;
        let repos = &settings.resolved.config.workspace.repos;
        let is_at_path = |(_, of): &Configured<'_>| {
            let configured_dir = of.path.as_ref().and_then(|path| path.canonicalize().ok());
            configured_dir.is_some() && configured_dir == repo.workdir().and_then(|dir| dir.canonicalize().ok())
        };
        let found = repos.iter().find(is_at_path).or(configured.filter(|_| repos.len() == 1));
        Ok(found.map_or_else(|| Self::unnamed(repo.clone()), |found| Self::of(repo.clone(), found)))
    }

    fn configured(configured: Configured<'_>, settings: &Settings) -> Result<Self, Failure> {
        let path = configured.1.path.as_deref().expect("a repository without a path is refused with the settings");
        if is_missing(path) {
            return Err(missing(path, configured));
        }
        let place = Self::of(Self::open(path, settings)?, configured);
        deepen_on_demand(settings, &place.name, &place.repo)?;
        Ok(place)
    }

    fn of(repo: Repo, (name, settings): Configured<'_>) -> Self {
        Self { repo, name: name.clone(), branch_prefix: settings.branch_prefix.clone() }
    }

    fn unnamed(repo: Repo) -> Self {
        let name = repo_name(repo.git_dir(), repo.workdir());
        Self { repo, name, branch_prefix: DEFAULT_BRANCH_PREFIX.to_owned() }
    }

    fn open(path: &Path, settings: &Settings) -> Result<Repo, Failure> {
        if !path.is_dir() {
            return Err(no_directory(path, path).hint("name the directory of a repository"));
        }
        git::discover(path, &settings.own_environment).map_err(|error| of_engine(&error.into()))
    }

    /// Where a session starts in it: what is checked out.
    pub fn to_start(&self) -> SessionRepo {
        let (name, branch_prefix) = (self.name.clone(), self.branch_prefix.clone());
        SessionRepo { repo: self.repo.clone(), name, branch_prefix, at: None, arrival: None }
    }
}

/// The branch tasks land on: the one that is checked out. The branches of tasks and phases are on their way to another.
pub fn target(place: &Place) -> Result<BranchName, Failure> {
    let head = place.repo.head().map_err(|error| of_git(&error))?;
    let branch = head.branch.ok_or_else(|| {
        Failure::new(Code::DetachedHead, "HEAD is detached, so there is no branch to land on")
            .hint("check a branch out with `git switch BRANCH`, or make one with `git switch -c NAME`")
    })?;
    match target_of(&place.branch_prefix, &branch) {
        None => Ok(branch),
        Some(target) => {
            let message = format!("`{branch}` is checked out, where pleach gathers what lands on `{target}`");
            let back = format!("go back with `git switch {}` and run again", shell_word(&target));
            Err(Failure::new(Code::OwnBranch, message).hint(back))
        }
    }
}

/// A repository that is not there yet.
fn missing(path: &Path, (name, settings): Configured<'_>) -> Failure {
    let message = format!("the repository `{name}` is not there: `{}` is missing or empty", path.display());
    let hint = match settings.remote {
        Some(_) => "`pleach run` clones it from its remote".to_owned(),
        None => format!("create it there, or set `workspace.repos.{name}.remote` to where it is cloned from"),
    };
    Failure::new(Code::NotADirectory, message).hint(hint)
}

fn no_such_repo(name: &RepoName) -> Failure {
    Failure::new(Code::NoSuchRepo, format!("the workspace has no repository `{name}`"))
        .hint("`workspace.repos` in pleach.yaml lists its repositories")
}

/// The repositories of a workspace.
#[derive(Debug, Clone)]
pub struct Places {
    /// The one that holds the records.
    pub record: Place,
    /// The others.
    pub others: Vec<Place>,
}

impl Places {
    /// The repositories a new session works in: the one asked for, all of the workspace, or the one around `dir`.
    pub fn find(dir: &Path, asked: Option<PathBuf>, settings: &Settings) -> Result<Self, Failure> {
        let is_one = asked.is_some();
        let record = Place::find(dir, asked, settings)?;
        let others = settings.resolved.config.workspace.repos.keys().filter(|name| !is_one && **name != record.name);
        let others = others.map(|name| Place::named(name, settings)).collect::<Result<Vec<_>, _>>()?;
        let places = Self { record, others };
        places.refuse_doubles()?;
        Ok(places)
    }

    /// A workspace of one repository.
    pub fn one(record: Place) -> Self {
        Self { record, others: Vec::new() }
    }

    /// The repositories of a session that is recorded in `record`.
    pub fn of_session(record: Place, started: &PipelineStarted, settings: &Settings) -> Result<Self, Failure> {
        let others = started.branches.keys().filter(|name| *name != started.record_repo());
        let others = others.map(|name| Place::named(name, settings)).collect::<Result<Vec<_>, _>>()?;
        // It is the same repository, whatever the directory of this clone is called.
        Ok(Self { record: Place { name: started.record_repo().clone(), ..record }, others })
    }

    /// All of them, that with the records first.
    pub fn all(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.record).chain(&self.others)
    }

    /// What is checked out in each of them, for what starts nothing.
    pub fn heads(&self) -> Result<Vec<(&Place, CommitId)>, Failure> {
        let head =
            |place: &'_ Place| place.repo.head().map(|head| head.commit).map_err(|error| of_engine(&error.into()));
        self.all().map(|place| Ok((place, head(place)?))).collect()
    }

    /// The open repositories of a session.
    pub fn repos(&self) -> SessionRepos {
        let open = |place: &Place| (place.name.clone(), place.repo.clone());
        SessionRepos::new(self.record.name.clone(), self.record.repo.clone(), self.others.iter().map(open))
    }

    /// Two names for one repository would be two branches that both want its files.
    pub fn refuse_doubles(&self) -> Result<(), Failure> {
        let all: Vec<&Place> = self.all().collect();
        for (index, place) in all.iter().enumerate() {
            let same = all[..index].iter().find(|other| other.repo.common_dir() == place.repo.common_dir());
            if let Some(other) = same {
                let message = format!("`{}` and `{}` are the same repository", other.name, place.name);
                let hint = "`workspace.repos` names each repository once; is one of the paths a directory in it?";
                return Err(Failure::new(Code::RepoTwice, message).hint(hint));
            }
        }
        Ok(())
    }
}
