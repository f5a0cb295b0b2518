//! The repositories of a session.

use std::collections::BTreeMap;

use git::Repo;
use pleach_core::ids::RepoName;

/// The open repositories of a session. One of them holds its record.
#[derive(Debug, Clone)]
pub struct SessionRepos {
    record: RepoName,
    open: BTreeMap<RepoName, Repo>,
}

impl SessionRepos {
    /// The only repository of a session.
    pub fn one(name: RepoName, repo: Repo) -> Self {
        Self::new(name, repo, [])
    }

    /// The repository that holds the record, and the others.
    pub fn new(record: RepoName, repo: Repo, others: impl IntoIterator<Item = (RepoName, Repo)>) -> Self {
        let open = others.into_iter().chain([(record.clone(), repo)]).collect();
        Self { record, open }
    }

    /// The repository that holds the record.
    pub fn record(&self) -> &Repo {
        self.open.get(&self.record).expect("the repository of the record is one of them")
    }

    /// Its name.
    pub fn record_name(&self) -> &RepoName {
        &self.record
    }

    /// The repository of a name.
    pub fn get(&self, name: &RepoName) -> Option<&Repo> {
        self.open.get(name)
    }

    /// All repositories, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&RepoName, &Repo)> {
        self.open.iter()
    }

    /// The first of some repositories that is not among them.
    pub fn lacks<'a>(&self, mut wanted: impl Iterator<Item = &'a RepoName>) -> Option<&'a RepoName> {
        wanted.find(|name| !self.open.contains_key(*name))
    }
}
