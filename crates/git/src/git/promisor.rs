//! Partial clones: fetching missing objects on demand. git does that by itself, the library does not: objects are
//! fetched through git before they are read, or when the library did not find them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gix::bstr::BString;

use super::error::Error;
use super::id::{TreeId, to_gix};
use super::program::Program;
use super::repo_pool::RepoPool;
use pleach_core::text::first_line;

/// Where a partial clone fetches the objects it lacks.
pub(super) struct Promisor {
    settings: PromisorSettings,
    program: Program,
    common_dir: PathBuf,
    pool: Arc<RepoPool>,
    /// The trees whose directories are all there.
    complete: Mutex<BTreeSet<TreeId>>,
}

#[derive(Debug)]
struct PromisorSettings {
    /// The remotes that have promised to have what is missing.
    remotes: Vec<String>,
    /// Whether directories can be missing as well, and not files alone.
    lacks_trees: bool,
}

impl PromisorSettings {
    /// None for a repository that has all its objects.
    fn read(entries: &[(String, BString)]) -> Option<Self> {
        let is_true = |value: &BString| !value.eq_ignore_ascii_case(b"false");
        let promised = entries.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix("remote.")?.strip_suffix(".promisor")?;
            is_true(value).then(|| name.to_owned())
        });
        // The one setting older gits have had.
        let first =
            entries.iter().filter(|(key, _)| key == "extensions.partialclone").map(|(_, name)| name.to_string());
        let mut remotes: Vec<String> = first.chain(promised).collect();
        let mut seen = BTreeSet::new();
        remotes.retain(|name| seen.insert(name.clone()));
        let filters = entries.iter().filter(|(key, _)| key.ends_with(".partialclonefilter"));
        let mut filters = filters.map(|(_, filter)| filter.starts_with(b"blob:")).peekable();
        let lacks_trees = filters.peek().is_none() || filters.any(|of_files| !of_files);
        (!remotes.is_empty()).then_some(Self { remotes, lacks_trees })
    }
}

impl Promisor {
    /// None for a repository that has all its objects.
    pub fn new(
        entries: &[(String, BString)],
        program: &Program,
        common_dir: &Path,
        pool: &Arc<RepoPool>,
    ) -> Option<Self> {
        let settings = PromisorSettings::read(entries)?;
        let (program, common_dir, pool) = (program.clone(), common_dir.to_owned(), Arc::clone(pool));
        Some(Self { settings, program, common_dir, pool, complete: Mutex::default() })
    }

    /// Does something that reads objects; where one is missing that can be fetched, it is, and it is done again.
    pub fn on_demand<T>(&self, read: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        let mut fetched = BTreeSet::new();
        loop {
            match read() {
                Err(Error::Object { kind, id, detail }) if fetched.insert(id) => {
                    let missing = to_gix(id);
                    if self.pool.take().has_object(missing) {
                        return Err(Error::Object { kind, id, detail });
                    }
                    self.fetch(&[missing]).map_err(|error| {
                        let why = format!("this partial clone lacks it, and git cannot fetch it: {error}");
                        Error::Object { kind, id, detail: first_line(&why).to_owned() }
                    })?;
                }
                other => return other,
            }
        }
    }

    /// Fetches those of some objects that are missing, all at once.
    pub fn fetch_missing(&self, ids: impl IntoIterator<Item = gix::ObjectId>) -> Result<(), Error> {
        let missing: Vec<gix::ObjectId> = {
            let local = self.pool.take();
            ids.into_iter().filter(|id| !local.has_object(*id)).collect()
        };
        if missing.is_empty() { Ok(()) } else { self.fetch(&missing) }
    }

    /// Fetches the directories of a tree that are missing.
    pub fn fetch_trees(&self, tree: TreeId) -> Result<(), Error> {
        let complete = || self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.settings.lacks_trees || complete().contains(&tree) {
            return Ok(());
        }
        self.fetch_missing([tree.to_gix()])?;
        loop {
            let missing = self.missing_trees(tree)?;
            if missing.is_empty() {
                break;
            }
            self.fetch(&missing)?;
        }
        complete().insert(tree);
        Ok(())
    }

    fn missing_trees(&self, tree: TreeId) -> Result<Vec<gix::ObjectId>, Error> {
        let tree = tree.to_string();
        let args = ["rev-list", "--objects", "--no-walk", "--filter=blob:none", "--missing=print", &tree];
        let listed = self.program.run(&self.common_dir, args)?.success()?;
        let missing = listed.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"?"));
        Ok(missing.filter_map(|id| gix::ObjectId::from_hex(id.trim_ascii()).ok()).collect())
    }

    /// Fetches objects as git itself does when it needs them: from the first remote that has them.
    fn fetch(&self, ids: &[gix::ObjectId]) -> Result<(), Error> {
        let wanted: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let mut last = Ok(());
        for remote in &self.settings.remotes {
            let args = ["-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", remote, "--no-tags"];
            let more = ["--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin"];
            let args = args.into_iter().chain(more);
            let fetched = self.program.run_with_stdin(&self.common_dir, args, wanted.as_bytes())?;
            last = fetched.success().map(drop);
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Option<(Vec<String>, bool)> {
        let entries: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), BString::from(*value))).collect();
        PromisorSettings::read(&entries).map(|found| (found.remotes, found.lacks_trees))
    }

    #[test]
    fn settings_tell_what_can_be_missing_and_who_has_it() {
        let origin = || vec!["origin".to_owned()];
        assert_eq!(read(&[("remote.origin.url", "x")]), None);
        assert_eq!(read(&[("remote.origin.promisor", "false")]), None);
        let promisor = ("remote.origin.promisor", "true");
        assert_eq!(read(&[promisor, ("remote.origin.partialclonefilter", "blob:none")]), Some((origin(), false)));
        assert_eq!(read(&[promisor, ("remote.origin.partialclonefilter", "tree:0")]), Some((origin(), true)));
        assert_eq!(read(&[("extensions.partialclone", "origin"), promisor]), Some((origin(), true)));
    }
}
